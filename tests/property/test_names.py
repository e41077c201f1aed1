"""Names hold for any input: a canonical key, or a refusal that leaves the tree as it was."""

from __future__ import annotations

import builtins
import keyword
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.errors import RequestError, ScaffoldError
from scaffold.target.target import target_at, unit_names
from scaffold.templating.manifests import load_kind
from scaffold.templating.names import DEVICES, MAX_LENGTH, canonical_key, fold, pascal
from scaffold.transaction.snapshot import FileState, Snapshot
from scaffold.units.add import add_unit
from scaffold.units.conflicts import check_neighbours
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.units.project import new_project

ROOT = Path(__file__).parents[2]

SUFFIXES = ("reward_fn", "reward", "fn")
WORDS = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=1, max_size=5)


def attempt(typed: str) -> str | None:
    try:
        return canonical_key(typed, SUFFIXES)
    except RequestError:
        return None


@given(st.one_of(st.text(max_size=80), st.text("aB1_- Fn./\\", max_size=80)))
def test_a_key_is_an_identifier_in_one_form_or_refused(typed: str):
    key = attempt(typed)
    if key is not None:
        assert key.isascii()
        assert key.isidentifier()
        assert key == key.lower() == key.strip("_")
        assert "__" not in key
        assert len(key) <= MAX_LENGTH
        assert not keyword.iskeyword(key)
        assert not any(key == suffix or key.endswith("_" + suffix) for suffix in SUFFIXES)
        assert pascal(key).isidentifier()


@given(st.text("abcXYZ019_- ", max_size=40))
def test_the_key_of_a_key_is_the_key(typed: str):
    key = attempt(typed)
    if key is not None:
        assert attempt(key) == key


@given(WORDS)
def test_all_spellings_of_the_same_words_agree(words: list[str]):
    spellings = [
        "_".join(words),
        "-".join(words),
        " ".join(words),
        " ".join(map(str.capitalize, words)),
    ]
    keys = {attempt(spelling) for spelling in spellings}
    assert len(keys) == 1


LONG_WORDS = st.lists(st.from_regex(r"[a-z]{2,6}[0-9]?", fullmatch=True), min_size=1, max_size=5)
SEPARATORS = st.sampled_from(["_", "-", " ", "__", " - ", ""])


@given(LONG_WORDS, SEPARATORS, st.sampled_from(["", "Reward", "RewardFn", "reward fn", "_reward"]))
def test_any_spelling_gives_one_key_and_one_set_of_names(words: list[str], by: str, last: str):
    key = attempt("_".join(words))
    if key is None or key != "_".join(words):
        return
    if by == "" and last and not last[0].isupper():
        return  # run together in small letters, the ending is a part of the last word
    parts = [word.capitalize() for word in words] if by == "" else words
    typed = by.join([*parts, last] if last and by != "" else [*parts]) + ("" if by else last)
    assert attempt(typed) == key
    assert attempt(pascal(key)) == key
    assert fold(typed).startswith(fold(key))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(folder))
    add_unit(load_kind("reward"), "math_debate", (), {}, Options(folder / "my_rl"))
    return folder / "my_rl"


def paths(root: Path) -> dict[str, int]:
    """Returns every path with the time of its last change, which any writing would move."""
    return {str(path): path.lstat().st_mtime_ns for path in (root, *root.rglob("*"))}


def refusal(root: Path, name: str, kind: str = "reward") -> ScaffoldError:
    styles = ("rl",) if kind == "dataset" else ()
    with pytest.raises(ScaffoldError) as found:
        add_unit(load_kind(kind), name, styles, {}, Options(root, with_format=False))
    assert found.value.hint, found.value.message
    assert "\n" not in found.value.message
    return found.value


@given(name=st.text(max_size=70).filter(lambda name: attempt(name) is None))
def test_any_bad_name_is_refused_by_the_command(project: Path, name: str):
    before = paths(project)
    assert refusal(project, name).code.startswith("name_")
    assert paths(project) == before


KEYWORDS = sorted({*keyword.kwlist, *keyword.softkwlist} - {"_"})
BUILTINS = sorted(
    n for n in vars(builtins) if n.islower() and n[0] != "_" and n not in [*KEYWORDS, "type"]
)
BAD_NAMES: dict[str, Iterable[str]] = {
    "name_keyword": KEYWORDS,
    "name_builtin": BUILTINS,
    "name_reserved": sorted(DEVICES),
    "name_path": ["..", "a/b", "../a", "a\\b", "/etc/passwd", "C:\\x", "./a", "a..b", "~/x"],
    "name_non_ascii": [
        "m\N{CYRILLIC SMALL LETTER A}th", "na\u00efve", "\u540d", "a\u202eb", "\ufb01x", "\uff41",
        "\u2115", "\udc80",
    ],
    "name_characters": ["a\0b", "a\nb", "a\x1b[31m", "a\tb", "a.py", "a:b", "a*", "$(x)", "{{x}}"],
    "name_empty": ["", " ", "_", "--", "_ -"],
    "name_length": ["x" * 65, "ab_" * 22, "y" * 100_000],
    "name_digit": ["1st", "0", "_9"],
    "name_kind": ["reward", "RewardFn", "reward_function", "reward reward"],
    "name_taken": ["mathdebate", "MATHDEBATE", "math_de_bate", "MathDeBateReward"],
}  # fmt: skip


@pytest.mark.parametrize("code", BAD_NAMES)
def test_every_kind_of_bad_name_has_its_code(project: Path, code: str):
    names = BAD_NAMES[code]
    before = paths(project)
    assert {name: refusal(project, name).code for name in names} == dict.fromkeys(names, code)
    assert paths(project) == before


def test_no_module_of_the_standard_library_is_shadowed():
    for name in sys.stdlib_module_names:
        key = attempt(name)
        assert key not in sys.stdlib_module_names


@pytest.mark.parametrize(
    ("there", "typed"),
    [
        ("Twin.py", "twin"),
        ("TwinOne.py", "twin_one"),
        ("twin_two.py", "twintwo"),
        ("twinthree/x.py", "twin_three"),
    ],
)
def test_a_file_of_the_name_in_another_spelling_is_seen(project: Path, there: str, typed: str):
    path = project / "my_rl" / "reward" / there
    path.parent.mkdir(exist_ok=True)
    path.write_text("x = 1\n")
    before = paths(project)
    assert refusal(project, typed).code == "name_taken"
    assert paths(project) == before


def test_where_case_says_nothing_the_other_file_is_not_taken_for_ours():
    there = {"pkg/foo.py": FileState(b"as the file system gives it\n")}
    with pytest.raises(ScaffoldError) as found:
        check_neighbours("pkg/foo.py", Snapshot(there, (), {"pkg/foo.py": ("Foo.py", "a.py")}))
    assert found.value.code == "name_taken"
    check_neighbours("pkg/foo.py", Snapshot(there, (), {"pkg/foo.py": ("foo.py", "Foo.py")}))


@pytest.mark.parametrize("name", ["get_loader", "Get Loader", "Import From String"])
def test_a_module_that_would_replace_a_function_of_its_package_is_refused(
    tmp_path: Path, name: str
):
    for kind in ("dataset", "reward", "workflow"):
        source = ROOT / "areal" / kind / "__init__.py"
        (tmp_path / "areal" / kind).mkdir(parents=True)
        shutil.copy(source, tmp_path / "areal" / kind)
    (tmp_path / "areal" / "api").mkdir()
    (tmp_path / "areal" / "api" / "registry.py").touch()
    before = paths(tmp_path)
    error = refusal(tmp_path, name, "dataset")
    assert error.code == "name_stdlib"
    assert "areal/dataset/__init__.py:" in error.message
    assert paths(tmp_path) == before


@given(words=LONG_WORDS)
def test_derived_names_are_identifiers_and_files_that_any_system_can_hold(
    project: Path, words: list[str]
):
    key = attempt("_".join(words))
    target = target_at(project)
    assert target is not None
    for kind in ("reward", "workflow", "dataset") if key else ():
        names = unit_names(target, load_kind(kind), key or "")
        assert names["source"] == f"my_rl/{kind}/{key}.py"
        assert all(part.isidentifier() for part in names["module"].split("."))
        for path in (names["source"], names["test"]):
            assert len(Path(path).name) <= 100
        symbol = names.get("function") or names.get("class_name") or key
        assert symbol is not None
        assert symbol.isidentifier()


def test_the_unit_keeps_its_one_name(project: Path):
    for typed in ("Math Debate", "MathDebateReward", "math-debate"):
        report = add_unit(load_kind("reward"), typed, (), {}, Options(project))
        assert report.changes == ()
    assert find_unit(project, "math_debate").id == "reward/math_debate"

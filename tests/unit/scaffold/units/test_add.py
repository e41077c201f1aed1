"""Adding units to both targets: what is written, and that a refusal writes nothing."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scaffold.cli.units import writer_of
from scaffold.edit.entry import Entry
from scaffold.edit.shapes import read_entries
from scaffold.errors import ScaffoldError
from scaffold.report import Report
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind, load_style, style_names
from scaffold.transaction.digest import digest
from scaffold.units import project
from scaffold.units.add import add_prepared, add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import base_path, find_unit, read_units
from scaffold.units.list import list_templates
from scaffold.units.project import new_project
from scaffold.units.remove import remove_unit
from scaffold.units.show import show_unit
from scaffold.units.status import show_status
from scaffold.units.subject import prepare_tests
from scaffold.units.update import update_units

ROOT = Path(__file__).parents[4]
Tree = dict[str, bytes | None]


def tree(root: Path) -> Tree:
    """Returns every path with its bytes, git's and the lock's apart; None for a folder."""
    paths = [p for p in sorted(root.rglob("*")) if not {".git", "state"} & set(p.parts)]
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_bytes() for p in paths}


def add(root: Path, kind: str, name: str, styles: tuple[str, ...] = (), **more: Any) -> Report:
    answers = more.pop("answers", {})
    return add_unit(load_kind(kind), name, styles, answers, Options(root, **more))


def refused(code: str, call: Callable[[], object], root: Path) -> ScaffoldError:
    """Runs a call that has to be refused with a code, and checks that it wrote nothing."""
    before = tree(root)
    with pytest.raises(ScaffoldError) as refusal:
        call()
    assert refusal.value.code == code, refusal.value.message
    assert tree(root) == before
    return refusal.value


@pytest.fixture(params=["project", "checkout"])
def root(request: pytest.FixtureRequest) -> Path:
    """Gives both targets in turn."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", ["math", "code"])
def test_a_reward_may_be_called_like_its_style(root: Path, name: str):
    before = tree(root)
    report = add(root, "reward", name, (name,))
    (source,) = (c.path for c in report.changes if c.path.endswith(f"reward/{name}.py"))
    assert f"def {name}_reward_fn(" in (root / source).read_text()
    assert f".reward.{name}" in (root / source).with_name("__init__.py").read_text()
    assert find_unit(root, name).id == f"reward/{name}"
    remove_unit(f"reward/{name}", (), Options(root))
    assert tree(root) == before


@pytest.mark.parametrize("name", ["random", "abc", "sqlite3", "Asyncio", "this"])
def test_inside_a_package_no_module_of_the_standard_library_is_hidden(root: Path, name: str):
    """An import of it there is absolute; it is refused beside no package alone."""
    report = add(root, "reward", name, ("exact",))
    assert any(c.path.endswith(f"reward/{name.lower()}.py") for c in report.changes)


def test_a_module_in_no_package_hides_that_of_the_standard_library(tmp_path: Path):
    new_project(load_kind("project"), "my_rl", ("trinity",), {}, Options(tmp_path))
    root = tmp_path / "my_rl"
    kind = next(each for each in find_target(root).kinds if each.endswith("reward"))
    refused("name_stdlib", lambda: add(root, kind, "random", ("trinity",)), root)


SYMBOLS = {
    "reward": "math_debate_reward_fn",
    "workflow": "MathDebate(Workflow|Agent)",
    "dataset": "get_math_debate_{}_dataset",
}
UNITS = [
    (kind, style, symbol.format(style))
    for kind, symbol in SYMBOLS.items()
    for style in style_names(kind)
    if not load_style(kind, style).framework  # whose units have tests of their own
]


@pytest.mark.parametrize(("kind", "style", "symbol"), UNITS)
def test_adds_source_test_registry_line_and_record(root: Path, kind: str, style: str, symbol: str):
    package = "my_rl" if root.name == "my_rl" else "areal"
    tests = "tests" if package == "my_rl" else "tests/unit"
    source, test = f"{package}/{kind}/math_debate.py", f"{tests}/{kind}/test_math_debate.py"
    registry = f"{package}/{kind}/__init__.py"
    lines = (root / registry).read_bytes().count(b"\n")

    report = add(root, kind, "Math Debate", (style,))

    actions = {change.path: change.action for change in report.changes}
    assert (actions[source], actions[test], actions[registry]) == ("created", "created", "edited")
    assert re.search(rf"^(def|class) {symbol}[(:]", (root / source).read_text(), re.MULTILINE)
    assert (root / registry).read_bytes().count(b"\n") == lines + 1
    table = report.registered[0]
    assert (
        f'"math_debate": "{package}.{kind}.math_debate'
        in ((root / registry).read_text().splitlines()[table.line - 1])
    )
    unit = find_unit(root, "math_debate")
    assert (unit.id, unit.styles) == (f"{kind}/math_debate", (style,))
    roles = {file.path: file.role for file in unit.files}
    assert (roles.pop(source), roles.pop(test)) == ("source", "test")
    assert set(roles.values()) <= {"part", "support"}
    for file in unit.files:
        assert file.sha256 == digest((root / file.path).read_bytes())
        base = root / base_path(unit.kind, unit.name, file.path)
        assert base.read_bytes() == (root / file.path).read_bytes()
    assert report.check == (("scaffold", "verify", unit.id),)
    assert [s.why for s in report.next[: len(unit.todos)]] == [p.why for p in unit.todos]


def test_two_types_of_a_dataset_share_one_module(root: Path):
    add(root, "dataset", "sums", ("sft", "rl"))
    unit = find_unit(root, "dataset/sums")
    assert unit.styles == ("rl", "sft")
    assert [use.id for use in unit.templates] == ["dataset", "dataset/rl", "dataset/sft"]
    text = (root / unit.files[0].path).read_text()
    assert "def get_sums_rl_dataset(" in text
    assert "def get_sums_sft_dataset(" in text


def test_many_in_a_row_without_a_commit(root: Path):
    for name in ("b_one", "a_two", "c_three"):
        add(root, "reward", name)
    registry = find_unit(root, "reward/b_one").entries[0].file
    table = Entry(registry, "REWARDS", "dict", "", "")
    names = list(read_entries((root / registry).read_bytes(), table))
    assert {"a_two", "b_one", "c_three"} <= set(names)
    assert names == sorted(names)
    assert {unit.name for unit in read_units(root)} >= {"a_two", "b_one", "c_three"}


def test_a_second_run_has_nothing_to_do(root: Path):
    first = add(root, "reward", "sums")
    before = tree(root)
    again = add(root, "reward", "SumsReward")
    assert again.ok
    assert (again.changes, again.warnings) == ((), ())
    assert again.unfinished == first.unfinished
    assert again.check == first.check
    assert tree(root) == before


def test_a_second_run_leaves_edits_alone(root: Path):
    add(root, "reward", "sums")
    path = root / find_unit(root, "sums").files[0].path
    path.write_text("edited = True\n")
    assert add(root, "reward", "sums").changes == ()
    assert path.read_text() == "edited = True\n"


def test_a_second_run_warns_of_what_is_missing(root: Path):
    add(root, "reward", "sums")
    path = find_unit(root, "sums").files[0].path
    (root / path).unlink()
    assert add(root, "reward", "sums").warnings == (f"{path} is missing",)


@pytest.mark.parametrize(
    ("styles", "answers", "difference"),
    [
        (("math",), {}, "style was exact, not math"),
        (("exact",), {"ignore_case": False}, "ignore_case was True, not False"),
    ],
)
def test_other_answers_are_refused(
    root: Path, styles: tuple[str, ...], answers: dict[str, Any], difference: str
):
    add(root, "reward", "sums", ("exact",))
    error = refused(
        "answers_differ", lambda: add(root, "reward", "sums", styles, answers=answers), root
    )
    assert difference in error.message
    assert ("scaffold update reward/sums --set" if answers else "scaffold remove") in error.hint


def test_a_question_that_came_later_is_no_difference(root: Path):
    add(root, "reward", "sums")
    record = root / ".scaffold/made/reward/sums.toml"
    lines = [row for row in record.read_text().splitlines(True) if "ignore_case" not in row]
    record.write_text("".join(lines))
    assert add(root, "reward", "sums").ok
    refused(
        "answers_differ",
        lambda: add(root, "reward", "sums", answers={"ignore_case": False}),
        root,
    )


def test_a_newer_template_is_mentioned(root: Path):
    add(root, "reward", "sums")
    record = root / ".scaffold/made/reward/sums.toml"
    record.write_text(re.sub(r"\bversion = \d+", "version = 0", record.read_text()))
    (warning,) = add(root, "reward", "sums").warnings
    assert "reward/exact has moved on from version 0" in warning


def test_a_file_of_somebody_else_is_not_replaced(root: Path):
    path = f"{'my_rl' if root.name == 'my_rl' else 'areal'}/reward/sums.py"
    (root / path).write_text("mine = True\n")
    error = refused("file_exists", lambda: add(root, "reward", "sums"), root)
    assert f"--overwrite {path}" in error.hint

    report = add(root, "reward", "sums", overwrite=(path,))
    assert {change.path: change.action for change in report.changes}[path] == "replaced"
    assert "-mine = True" in report.changes[0].diff


def test_overwrite_takes_a_path_from_where_the_person_stands(project: Path):
    (project / "my_rl/reward/sums.py").write_text("mine = True\n")
    options = Options(project / "my_rl" / "reward", overwrite=("sums.py",))
    assert add_unit(load_kind("reward"), "sums", (), {}, options).changes[0].action == "replaced"


def test_the_file_of_another_unit_is_not_replaced(project: Path):
    add(project, "reward", "sums")
    options = Options(project, overwrite=("tests/reward/test_sums.py",))
    error = refused(
        "file_exists",
        lambda: add_prepared(
            prepare_tests(load_kind("tests"), "my_rl.reward.sums", "reward", "", options), options
        ),
        project,
    )
    assert error.message == "tests/reward/test_sums.py exists and belongs to reward/sums"
    assert "--to" in error.hint


def test_overwrite_of_what_is_not_written_is_a_mistake(root: Path):
    error = refused("usage", lambda: add(root, "reward", "sums", overwrite=("README.md",)), root)
    assert "README.md" in error.message


def test_the_same_bytes_are_no_conflict(project: Path):
    add(project, "reward", "sums")
    shutil.rmtree(project / ".scaffold")
    actions = {change.action for change in add(project, "reward", "sums").changes}
    assert actions == {"record"}


def test_all_conflicts_are_told_at_once(project: Path):
    (project / "my_rl/reward/sums.py").write_text("mine = True\n")
    (project / "tests/reward").mkdir()
    (project / "tests/reward/test_sums.py").write_text("mine = True\n")
    (project / "my_rl/reward/__init__.py").write_text("REWARDS = make()\n")
    error = refused("registry_computed", lambda: add(project, "reward", "sums"), project)
    (project / "my_rl/reward/__init__.py").write_text('REWARDS = {"sums": "other:thing"}\n')
    error = refused("file_exists", lambda: add(project, "reward", "sums"), project)
    for part in ("my_rl/reward/sums.py", "tests/reward/test_sums.py", "other:thing"):
        assert part in error.message
    assert '"sums": "my_rl.reward.sums:sums_reward_fn",' in error.hint


@pytest.mark.parametrize("typed", ["GSM_8K", "gsm8_k", "Gsm-8-k"])
def test_a_registered_name_in_another_spelling_is_refused(checkout: Path, typed: str):
    error = refused("name_taken", lambda: add(checkout, "reward", typed), checkout)
    assert "'gsm8k'" in error.message


def test_a_registered_name_is_refused(checkout: Path):
    (checkout / "areal/reward/gsm8k.py").write_text("x = 1\n")
    refused("file_exists", lambda: add(checkout, "reward", "gsm8k"), checkout)


def test_a_name_registered_for_something_else_is_refused(project: Path):
    (project / "my_rl/reward/__init__.py").write_text('REWARDS = {"sums": "other:thing"}\n')
    refused("registry_differs", lambda: add(project, "reward", "sums"), project)


def test_a_name_made_before_in_another_spelling_is_refused(project: Path):
    add(project, "reward", "math_sum")
    (project / "my_rl/reward/__init__.py").write_text("REWARDS: dict[str, str] = {}\n")
    refused("name_taken", lambda: add(project, "reward", "mathsum"), project)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("REWARDS = {\n<<<<<<< HEAD\n}\n", "registry_syntax"),
        ("def f(:\n", "registry_syntax"),
        ("REWARDS = make()\n", "registry_computed"),
        ("OTHERS = {}\n", "registry_missing"),
    ],
)
def test_a_registry_that_cannot_be_edited_stops_everything(project: Path, text: str, code: str):
    (project / "my_rl/reward/__init__.py").write_text(text)
    error = refused(code, lambda: add(project, "reward", "sums"), project)
    assert error.message.count("my_rl/reward/__init__.py") == 1


def test_a_registry_file_that_is_gone_stops_everything(project: Path):
    (project / "my_rl/reward/__init__.py").unlink()
    error = refused("registry_missing", lambda: add(project, "reward", "sums"), project)
    assert "REWARDS: dict[str, str] = {}" in error.hint


@pytest.mark.parametrize(
    "link", ["my_rl/reward", "tests/reward", "my_rl/reward/__init__.py", ".scaffold/made/reward"]
)
def test_nothing_is_written_through_a_link_out_of_the_target(
    project: Path, tmp_path: Path, link: str
):
    place = project / link
    outside = tmp_path / "outside"
    if place.exists():
        shutil.move(place, outside)
    else:
        outside.mkdir()
    place.symlink_to(outside)
    before = tree(tmp_path)
    refused("outside_target", lambda: add(project, "reward", "sums"), project)
    assert tree(tmp_path) == before


def test_a_folder_where_a_file_has_to_go_is_a_conflict(project: Path):
    (project / "my_rl/reward/sums").mkdir()
    refused("file_exists", lambda: add(project, "reward", "sums"), project)
    (project / "my_rl/reward/sums").rmdir()
    (project / "my_rl/reward/sums.py").mkdir()
    refused("file_exists", lambda: add(project, "reward", "sums"), project)
    (project / "my_rl/reward/sums.py").rmdir()
    (project / "tests/reward").write_text("a file\n")
    refused("file_exists", lambda: add(project, "reward", "sums"), project)


def test_a_dry_run_writes_nothing_and_its_diff_is_the_change(root: Path):
    before = tree(root)
    report = add(root, "reward", "sums", dry_run=True)
    assert tree(root) == before
    copy = root.parent / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git"))
    patch = "".join(change.diff for change in report.changes)
    command = ["git", "apply", "--unsafe-paths", "--directory", str(copy), "-"]
    subprocess.run(command, input=patch.encode(), cwd=root.parent, check=True)

    add(root, "reward", "sums")

    def own(root: Path) -> Tree:
        return {path: data for path, data in tree(root).items() if ".scaffold" not in path}

    assert own(copy) == own(root)


@pytest.mark.parametrize(
    ("kind", "style", "answers"),
    [
        ("reward", "regex", {"pattern": r"a\"'''{{ x }}(\d+)"}),
        ("workflow", "multi-turn", {"feedback": '"""\\\n{% raw %}\N{GRINNING FACE}' + "x" * 500}),
        ("workflow", "rlvr", {"system_prompt": "'; import os #\r\n\x00\t\\"}),
        ("dataset", "rl", {"question_column": 'a"b', "answer_column": "\\'\n"}),
    ],
)
def test_hostile_answers_become_plain_literals(
    project: Path, kind: str, style: str, answers: dict[str, str]
):
    report = add(project, kind, "sums", (style,), answers=answers)
    constants = {
        node.value
        for change in report.changes
        if change.path.endswith(".py") and change.action == "created"
        for node in ast.walk(ast.parse((project / change.path).read_bytes()))
        if isinstance(node, ast.Constant)
    }
    assert set(answers.values()) <= constants
    assert find_unit(project, "sums").answers.items() >= answers.items()


def test_status_tells_what_became_of_a_unit(project: Path):
    for name in ("kept", "changed", "gone", "unlisted", "reformatted"):
        add(project, "reward", name)
    folder = project / "my_rl/reward"
    (folder / "changed.py").write_text("x = 1\n")
    (folder / "gone.py").unlink()
    layout = ["--isolated", "--line-length", "60", "--config", 'format.quote-style="single"']
    argv = [sys.executable, "-m", "ruff", "format", "-q", *layout, folder / "reformatted.py"]
    subprocess.run(argv, check=True)
    registry = folder / "__init__.py"
    lines = [row for row in registry.read_text().splitlines(True) if '"unlisted"' not in row]
    registry.write_text("".join(lines))
    states = {row["id"]: row["states"] for row in show_status(Options(project)).extra["units"]}
    assert states == {
        "project/my_rl": ["untouched"],
        "reward/changed": ["edited"],
        "reward/gone": ["missing"],
        "reward/kept": ["untouched"],
        "reward/reformatted": ["untouched"],
        "reward/unlisted": ["unregistered"],
    }


def test_show_tells_everything_about_one_unit(project: Path):
    add(project, "reward", "sums")
    report = show_unit("sums", Options(project))
    unit = report.extra["unit"]
    assert (unit["id"], unit["states"]) == ("reward/sums", ["untouched"])
    assert [row["registered"] for row in unit["entries"]] == [True]
    assert len(report.unfinished) == len(find_unit(project, "sums").todos)
    assert "my_rl/reward/sums.py" in (report.text or "")


def test_commands_to_run_next_name_the_target_that_was_named(project: Path):
    options = Options(project.parent, "my_rl")
    kind = load_kind("reward")
    made = add_unit(kind, "sums", ["exact"], {}, options)
    shown = show_unit("sums", options)
    updated = update_units(["sums"], ["take=last_line"], options, writer_of)
    wanted = ("scaffold", "verify", "reward/sums", "--target", "my_rl")
    assert made.check == shown.check == updated.check == (wanted,)
    with pytest.raises(ScaffoldError) as refusal:
        add_unit(kind, "sums", ["exact"], {"take": "yours"}, options)
    assert refusal.value.hint == "scaffold update reward/sums --set take=yours --target my_rl"


def test_list_shows_kinds_styles_and_units(project: Path, tmp_path: Path):
    add(project, "reward", "sums")
    report = list_templates(Options(project))
    assert report.extra["units"] == ["project/my_rl", "reward/sums"]
    kinds = {
        row["kind"]: [style["name"] for style in row["styles"]] for row in report.extra["kinds"]
    }
    assert kinds["reward"] == list(style_names("reward"))
    assert list_templates(Options(tmp_path)).extra["units"] == []


def test_a_project_is_made_once_and_again_is_nothing_to_do(tmp_path: Path):
    kind = load_kind("project")
    report = new_project(kind, "word-sums", (), {"areal_source": ""}, Options(tmp_path))
    assert report.target is not None
    assert report.target["root"] == str(tmp_path / "word_sums")
    before = tree(tmp_path)
    again = new_project(kind, "word_sums", (), {"areal_source": ""}, Options(tmp_path))
    assert (again.ok, again.changes) == (True, ())
    assert tree(tmp_path) == before
    refused(
        "answers_differ",
        lambda: new_project(kind, "word_sums", (), {"areal_source": "x"}, Options(tmp_path)),
        tmp_path,
    )


@pytest.mark.parametrize("what", ["a file in it", "a file", "a link"])
def test_a_project_is_not_made_over_something(tmp_path: Path, what: str):
    place = tmp_path / "my_rl"
    if what == "a file in it":
        place.mkdir()
        (place / "mine.txt").write_text("mine")
    elif what == "a file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path)
    kind = load_kind("project")
    refused("file_exists", lambda: new_project(kind, "my_rl", (), {}, Options(tmp_path)), tmp_path)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("json", "name_stdlib"),
        *[
            (name, "name_reserved")
            # The package itself, its dependencies and extras, its builder, what templates import.
            for name in (
                "areal",
                "torch",
                "math-verify",
                "pil",
                "pillow",
                "openai",
                "gymnasium",
                "peft",
                "ray",
                "claude_agent_sdk",
                "hatchling",
                "pytest",
                "trinity",
                "vllm",
                "sglang",
            )
        ],
    ],
)
def test_a_project_hides_no_package_that_it_imports(tmp_path: Path, name: str, code: str):
    kind = load_kind("project")
    refused(code, lambda: new_project(kind, name, (), {}, Options(tmp_path)), tmp_path)


def test_whatever_the_training_package_requires_is_reserved(monkeypatch: pytest.MonkeyPatch):
    """Also where nothing is installed that says how a distribution is imported."""

    def find_none(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(project.metadata, "distribution", find_none)
    table = tomllib.loads((ROOT / "areal" / "pyproject.toml").read_text())["project"]
    extras = [each for rows in table["optional-dependencies"].values() for each in rows]
    names = {re.split(r"[><=\[]", each)[0] for each in [*table["dependencies"], *extras]}
    found = project.imported_packages()
    assert {name.replace("-", "_") for name in names} <= found
    assert "my_rl" not in found
    assert all(name.isidentifier() for name in found)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("RECORD", "Own_Pillow/__init__.py,,\n../../bin/tool,,\npillow-9.dist-info/METADATA,,\n"),
        ("top_level.txt", "Own_Pillow\n"),  # distributions of Debian have no RECORD
    ],
)
def test_a_distribution_is_reserved_by_the_name_that_it_is_imported_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
):
    before = project.imported_packages()
    info = tmp_path / "Pillow-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Pillow\nVersion: 9\n")
    (info / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert project.imported_packages() - before == {"own_pillow"}


@pytest.mark.parametrize(
    "source", ["/a b/areal", "C:\\x\\areal_lite-0.1-py3-none-any.whl", 'a"b', ""]
)
def test_a_project_takes_the_training_package_from_anywhere(tmp_path: Path, source: str):
    kind = load_kind("project")
    new_project(kind, "my_rl", (), {"areal_source": source}, Options(tmp_path))
    tool = tomllib.loads((tmp_path / "my_rl/pyproject.toml").read_text())["tool"]
    found = tool.get("uv", {}).get("sources", {}).get("areal-lite", {})
    assert found.get("path", "") == source
    assert found.get("editable", False) == (bool(source) and not source.endswith(".whl"))


def test_a_dry_run_of_a_project_makes_no_folder(tmp_path: Path):
    options = Options(tmp_path, dry_run=True)
    report = new_project(load_kind("project"), "my_rl", (), {}, options)
    assert list(tmp_path.iterdir()) == []
    assert any(change.path == "my_rl/reward/__init__.py" for change in report.changes)


def test_a_project_whose_git_was_not_begun_gets_it_by_the_same_command(tmp_path: Path) -> None:
    new_project(load_kind("project"), "my_rl", (), {}, Options(tmp_path))
    assert not (tmp_path / "my_rl" / ".git").exists()
    new_project(load_kind("project"), "my_rl", (), {}, Options(tmp_path), with_git=True)
    assert (tmp_path / "my_rl" / ".git" / "HEAD").is_file()


def test_a_project_can_be_a_git_repository(tmp_path: Path):
    new_project(load_kind("project"), "my_rl", (), {}, Options(tmp_path), with_git=True)
    assert (tmp_path / "my_rl/.git/HEAD").is_file()
    done = subprocess.run(
        ["git", "-C", str(tmp_path / "my_rl"), "status", "--porcelain", "--ignored", "-uall"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "?? .scaffold/made/project/my_rl.toml" in done.stdout
    base = ".scaffold/made/project/my_rl.base/train.py.txt"
    done = subprocess.run(
        ["git", "check-attr", "text", "linguist-generated", "--", base],
        cwd=tmp_path / "my_rl", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [row.rpartition(": ")[2] for row in done.stdout.splitlines()] == ["unset", "true"]


def test_a_project_inside_another_target_is_told_so(checkout: Path):
    kind = load_kind("project")
    report = new_project(kind, "inner", (), {}, Options(checkout))
    assert any("--target" in text and str(checkout) in text for text in report.warnings)
    report = new_project(kind, "own", (), {}, Options(checkout), with_git=True)
    assert not report.warnings
    assert add(checkout / "own", "reward", "sums").changes
    with pytest.raises(ScaffoldError) as refusal:
        add(checkout / "inner", "reward", "sums")
    assert refusal.value.code == "target_ambiguous"


def test_a_math_reward_hands_the_last_of_several_boxes_to_the_verifier(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[str] = []

    class Worker:
        """Compares every box, as some verifiers do."""

        def __init__(self, **options: Any) -> None: ...

        def verify(self, response: str, answer: str) -> float:
            seen.append(response)
            return float(set(re.findall(r"boxed{(.*?)}", response)) == {answer})

    add(project, "reward", "sums", ("math",))
    text = (project / "my_rl/reward/sums.py").read_text()
    monkeypatch.setitem(sys.modules, "areal.reward", SimpleNamespace(MathVerifyWorker=Worker))
    scope: dict[str, Any] = {}
    exec(compile(text, "sums.py", "exec"), scope)
    said = r"first \boxed{20}, no: \boxed{21}"
    assert scope["sums_reward_fn"]("q", said, [1], [2], answer="21") == 1.0
    assert scope["sums_reward_fn"]("q", "so 21", [1], [2], answer="21") == 0.0
    assert seen == [r"\boxed{21}", "so 21"]


def test_lines_are_counted_after_the_formatters_ran(project: Path, monkeypatch: pytest.MonkeyPatch):
    def tidy(target: Any, changes: Any, entries: Any) -> Any:
        return tuple(
            each._replace(after=b"\n\n" + each.after) if each.action == "edited" else each
            for each in changes
        )

    monkeypatch.setattr("scaffold.units.add.tidy", tidy)
    report = add(project, "reward", "sums", ("exact",))
    (row,) = report.registered
    registry = (project / "my_rl/reward/__init__.py").read_text().splitlines()
    assert '"sums"' in registry[row.line - 1]

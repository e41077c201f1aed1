"""An example: which files and lines are a unit's, and which only happen to be called so."""

from __future__ import annotations

import pytest

from scaffold.errors import RequestError
from scaffold.units.init.example import Example, find_example
from scaffold.units.init.unit_name import find_source

UNIT = "class HeiseScraper:\n    def parse(self):\n        return 1\n"
FILES = {
    "pkg/__init__.py": "",
    "pkg/sources/__init__.py": "from .bbc import Bbc\nfrom .heise import HeiseScraper\n",
    "pkg/sources/bbc.py": "class BbcScraper: ...\n",
    "pkg/sources/heise.py": UNIT,
    "pkg/sources/heise_plus.py": "class HeisePlusScraper: ...\n",
    "tests/test_heise.py": "from pkg.sources.heise import HeiseScraper\n",
    "tests/test_heise_plus.py": "from pkg.sources import heise_plus\n",
    "tests/data/heise.html": "<p>",
    "tests/data/heise_long.html": "<p>",
    "tests/data/bbc_long.html": "<p>",
    "tests/data/heise_odd.html": "<p>",
    "tests/data/heise_plus.html": "<p>",
    "fixtures/heise/one.json": "{}",
    "docs/heise.md": "# Heise\n",
}


def with_files(
    texts: dict[str, str], source: str = "pkg/sources/heise.py", kind: str = ""
) -> Example:
    files = {path: text.encode() for path, text in (FILES | texts).items()}
    return find_example(files, source, ["pkg"], kind)


def test_files_are_the_unit_s_by_their_names():
    assert {each.path: each.role for each in with_files({}).files} == {
        "pkg/sources/heise.py": "source",
        "docs/heise.md": "doc",
        "fixtures/heise/one.json": "data",
        "tests/data/heise.html": "data",
        "tests/data/heise_long.html": "data",  # as there is one of bbc
        "tests/test_heise.py": "test",
    }


def test_a_module_of_the_same_name_elsewhere_is_another_unit():
    found = with_files(
        {
            "pkg/parsers/heise.py": "def parse(): ...\n",
            "pkg/parsers/__init__.py": 'ALL = ["pkg.parsers.bbc", "pkg.parsers.heise"]\n',
            "tests/parsers/test_heise.py": "from pkg.parsers.heise import parse\n",
        }
    )
    assert not [each.path for each in found.files if "parsers" in each.path]
    assert not [each for each in found.registrations if "parsers" in each.entry.file]


def test_a_helper_that_the_unit_works_with_is_its_own():
    found = with_files({"pkg/pages/heise.py": "from pkg.sources.heise import HeiseScraper\n"})
    assert "pkg/pages/heise.py" in [each.path for each in found.files]


@pytest.mark.parametrize(
    ("texts", "source", "kind", "key", "suffixes", "symbol"),
    [
        ({}, "pkg/sources/heise.py", "scraper", "heise", ("scraper",), "HeiseScraper"),
        ({"a/losses/huber_loss.py": "def huber_loss(): ...\n"},
         "a/losses/huber_loss.py", "loss", "huber", ("loss",), "huber_loss"),
        ({"a/losses/huber.py": "def huber(): ...\n"},
         "a/losses/huber.py", "loss", "huber", ("loss",), "huber"),
        ({"a/policies/fair.py": "X = 1\n"},
         "a/policies/fair.py", "policy", "fair", ("policy",), ""),
        ({"a/rewards/gsm.py": "def gsm_reward_fn(): ...\n"},
         "a/rewards/gsm.py", "reward", "gsm", ("reward_fn", "reward"), "gsm_reward_fn"),
        ({"a/x/step_one.py": "", "a/x/step_two.py": "", "a/x/step_six.py": ""},
         "a/x/step_one.py", "step", "one", ("step",), ""),
        ({"a/models/llama/__init__.py": "class Llama: ...\n", "a/models/llama/attention.py": ""},
         "a/models/llama/__init__.py", "model", "llama", ("model",), "Llama"),
    ],
)  # fmt: skip
def test_kind_and_name_are_told_by_symbol_siblings_and_folder(
    texts: dict[str, str], source: str, kind: str, key: str, suffixes: tuple[str, ...], symbol: str
):
    found = with_files(texts, source)
    assert (found.kind, found.spelling.key) == (kind, key)
    assert (found.suffixes, found.symbol) == (suffixes, symbol)


def test_the_kind_may_be_given():
    found = with_files({}, kind="news-source")
    assert (found.kind, found.suffixes) == ("news-source", ("scraper", "news_source"))


def test_a_folder_is_a_unit_with_all_that_it_holds():
    texts = {
        "m/qwen/__init__.py": "",
        "m/qwen/model/args.py": "class QwenArgs: ...\n",
        "m/qwen/spec.toml": "x = 1\n",
        "m/llama/__init__.py": "",
    }
    found = with_files(texts, "m/qwen/__init__.py")
    assert [each.path for each in found.files] == [
        "m/qwen/__init__.py",
        "m/qwen/model/args.py",
        "m/qwen/spec.toml",
    ]
    assert found.siblings == ("llama",)


def test_a_registry_is_where_others_of_the_kind_are_listed_too():
    texts = {
        "pkg/names.py": 'ALL = ["bbc", "heise"]\nDEFAULTS = ["heise"]\n',
        "pkg/use.py": "from pkg.sources.heise import HeiseScraper\n\nHeiseScraper()\n",
        "a.json": '{\n"bbc": 1,\n"heise": 2\n}\n',
        "b.json": '{\n"heise": 2\n}\n',
        "CHANGELOG.md": "- bbc\n- heise\n",
        "x.lock": "bbc\nheise\n",
    }
    found = with_files(texts)
    tables = {(each.entry.file, each.entry.table) for each in found.registrations}
    assert tables == {("pkg/names.py", "ALL"), ("pkg/sources/__init__.py", "")}
    assert [(each.file, each.line) for each in found.others] == [("a.json", 3)]
    (warning,) = found.warnings
    assert "b.json:2" in warning
    assert "pkg/names.py:2" in warning
    assert "pkg/use.py:1 and 1 more" in warning


def test_without_siblings_every_line_counts():
    files = {"p/s/one.py": "", "p/s/__init__.py": 'ALL = ["one"]\n', "x.json": '{"one": 1}\n'}
    found = find_example({p: t.encode() for p, t in files.items()}, "p/s/one.py", ["p"])
    assert [each.entry.table for each in found.registrations] == ["ALL"]
    assert [each.file for each in found.others] == ["x.json"]


def test_a_file_that_says_much_of_the_unit_is_told_of_and_left():
    text = "".join(f'"bbc {n}", "heise {n}"\n' for n in range(5))
    found = with_files({"a.json": text})
    assert not found.others
    assert "a.json:1 and 4 more" in found.warnings[0]


@pytest.mark.parametrize(
    ("like", "source"),
    [
        ("pkg/sources/heise.py", "pkg/sources/heise.py"),
        ("heise", "pkg/sources/heise.py"),
        ("Heise", "pkg/sources/heise.py"),
        ("HeisePlus", "pkg/sources/heise_plus.py"),
        ("heise plus", "pkg/sources/heise_plus.py"),
        ("huber", "a/losses/huber_loss.py"),
        ("m/qwen", "m/qwen/__init__.py"),
    ],
)
def test_a_unit_is_meant_by_path_folder_or_name(like: str, source: str):
    paths = [*FILES, "a/losses/huber_loss.py", "m/qwen/args.py", "m/qwen/__init__.py"]
    assert find_source(paths, like) == source


@pytest.mark.parametrize(
    ("like", "code", "message"),
    [
        ("hiese", "unit_unknown", "did you mean heise"),
        ("", "unit_unknown", "no Python file"),
        ("test_heise", "unit_unknown", "no Python file"),
        ("docs/heise.md", "unit_unknown", "no Python file"),
        ("twice", "unit_ambiguous", "a/twice.py, b/twice.py"),
    ],
)
def test_a_unit_that_is_not_found_is_refused(like: str, code: str, message: str):
    with pytest.raises(RequestError, match=message) as refusal:
        find_source([*FILES, "a/twice.py", "b/twice.py"], like)
    assert refusal.value.code == code

"""Mentions: every shape is found where a unit is in it, and what is left is left."""

from __future__ import annotations

import pytest

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.units.init.registrations import find_entries, proven_line, without_entry
from scaffold.units.init.spellings import Name

PYTHON = """import os
from .bbc import Bbc
from .heise import Heise as H

ALL = ("bbc", "heise")
TABLE: dict = {"bbc": 1, "heise": H, "other": {"heise": 2}, "list": ["heise"]}


class Config:
    NAMES = {"bbc", "heise"}


ALL += ("x",)
register("bbc", Bbc)
register("heise", H)
TABLE["z"] = 1
SOURCES["heise"] = H


@keep("heise")
def made():
    return 1


def load(name):
    if name == "bbc":
        return 1
    elif name == "heise":
        return 2
    match name:
        case "bbc":
            return 1
        case "heise":
            return 2


print("heise")
"""
FOUND = [
    ("import", "", "Heise as H", ".heise"),
    ("list", "ALL", "heise", ""),
    ("dict", "TABLE", "heise", "H"),
    ("dict", 'TABLE["other"]', "heise", "2"),
    ("list", 'TABLE["list"]', "heise", ""),
    ("list", "Config.NAMES", "heise", ""),
    ("call", "register", "heise", "H"),
    ("subscript", "SOURCES", "heise", "H"),
    ("decorator", "keep", "heise", "def made():\n    return 1\n"),
    ("branch", "load", 'name == "heise"', "return 2"),
    ("branch", "load", '"heise"', "return 2"),
]


def entries(path: str, text: str) -> list[Entry]:
    """Returns the registry lines that are there; one that is found in two shapes counts once."""
    data = rest = text.encode()
    found: list[Entry] = []
    for each in find_entries(path, data, Name("heise")):
        without = without_entry(rest, each)
        if proven_line(data, each) and without != rest:
            found.append(each)
            rest = without
    return found


def rows(path: str, text: str) -> list[tuple[str, str, str, str]]:
    return [(each.shape, each.table, each.key, each.value) for each in entries(path, text)]


def test_every_shape_of_python_is_found():
    assert sorted(rows("a.py", PYTHON)) == sorted([*FOUND, ("call", "print", "heise", "")])


def test_a_table_in_a_handler_is_found():
    text = "try:\n    import fast\nexcept ImportError:\n    TABLE = {'heise': 1}\n"
    assert rows("a.py", text) == [("dict", "TABLE", "heise", "1")]


def test_what_is_found_is_there_and_goes():
    data = rest = PYTHON.encode()
    for each in entries("a.py", PYTHON):
        assert shapes.has_entry(data, each)
        assert shapes.add_entry(data, each).data == data
        row = PYTHON.splitlines()[(proven_line(data, each) or 0) - 1]
        assert "heise" in row or "made" in row
        rest = without_entry(rest, each)
    assert b"heise" not in rest


def test_members_of_enumerations_and_constants_that_are_alike_are_found():
    text = (
        "class Kind(Enum):\n    HEISE = 'heise'\n    BBC = 1\n\nMAX_HEISE_X = {}\nMAX_BBC_X = {}\n"
    )
    assert rows("a.py", text) == [
        ("assignment", "Kind.*", "HEISE", "heise"),
        ("assignment", "MAX_*_X", "MAX_HEISE_X", "{}"),
    ]


def test_a_table_that_is_extended_is_found():
    text = 'T["p"].extend(\n    [\n        "heise",\n    ]\n)\n'
    assert rows("a.py", "T = {}\n" + text) == [("list", 'T["p"]', "heise", "")]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("mkdocs.yml", "nav:\n  - Heise: a/heise.md\n  - B: b.md\n",
         [("yaml", "nav", "Heise", "a/heise.md")]),
        ("a.yaml", "x:\n  y:\n    - heise\n    - bbc\n", [("yaml", "x/y", "heise", "")]),
        ("a.yaml", "x:\n  heise: a\n  bbc: b\n", [("yaml", "x", "heise", "a")]),
        ("toc.yml", "parts:\n- caption: All\n  chapters:\n  - file: heise\n  - file: b\n",
         [("yaml", "parts/All/chapters[file]", "heise", "")]),
        ("a.toml", '[t.u]\nheise = "x"\n"a b" = ["heise", "c"]\n',
         [("toml", "t.u", "heise", "x"), ("toml", 't.u."a b"', "heise", "")]),
        ("a.md", "# A\n\n| N | V |\n| - | - |\n| bbc | 1 |\n| heise | 2 |\n",
         [("markdown", "A", "heise", "2")]),
        ("a.md", "# A\n\n- bbc\n- heise: new\n", [("markdown-list", "A", "heise", "new")]),
        ("CODEOWNERS", "* @a\n/heise/ @b @c\n", [("owners", "", "/heise/", "@b @c")]),
        (".github/CODEOWNERS", "[Docs]\n/heise.md @b\n", [("owners", "Docs", "/heise.md", "@b")]),
        ("index.rst", "T\n=\n\n.. toctree::\n   :maxdepth: 1\n\n   bbc\n   heise\n",
         [("text", ".. toctree::", "heise", "")]),
        ("names.txt", "bbc\nheise\n", [("text", "", "heise", "")]),
        ("names.txt", "# Names\nbbc\nheise\n", [("text", "# Names", "heise", "")]),
        ("essay.txt", "A long text on heise and others.\n", []),
        ("a.json", '{"heise": 1}', []),
        ("broken.py", "def (heise\n", []),
        ("broken.toml", "heise = \n", []),
        ("broken.yml", "a: [heise\nb: }\n", []),
    ],
)  # fmt: skip
def test_other_formats_are_searched(
    path: str, text: str, expected: list[tuple[str, str, str, str]]
):
    if path == "index.rst":  # an option tells directives apart as well as the directive
        assert rows(path, text)[0][2] == "heise"
    else:
        assert rows(path, text) == expected

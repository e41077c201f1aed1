"""CODEOWNERS: where a line may stand, and what the corpus of whole files does not show."""

from __future__ import annotations

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry
from scaffold.errors import RegistryError


def entry(pattern: str, owners: str = "@me") -> Entry:
    return Entry("CODEOWNERS", "", "owners", pattern, owners)


# pattern, the patterns that are there, the place it gets (None: refused)
PLACES = [
    ("/a/b.py", ["*"], 1),
    ("/a/b.py", ["/a/c.py", "*"], 2),
    ("/a/b.py", ["/a/c.py", "*.md"], 0),
    ("/a/b.py", ["/a/c.py", "*.py"], 2),
    ("/a/b.py", ["/a/c.py", "/a/**"], 2),
    ("/a/b.py", ["/a/c.py", "/*/b.py"], 2),
    ("/a/b.py", ["/a/c.py", "/*/d.py"], 0),
    ("/a/", ["/a/c.py", "/b/"], 0),
    ("/a/", ["/a/c.py", "*"], None),
    ("/a/", ["/a/**"], None),
    ("/a", ["/a/"], None),
    ("/a/*.py", ["/a/"], 1),
    ("/a/*.py", ["/a/b.py"], None),
    ("*.py", ["/b/"], None),
    ("/a/b.py", [], 0),
]


@pytest.mark.parametrize(("pattern", "present", "place"), PLACES)
def test_a_line_stands_where_it_decides(pattern: str, present: list[str], place: int | None):
    data = "".join(f"{each} @all\n" for each in present).encode()
    if place is None:
        with pytest.raises(RegistryError, match="could change who owns"):
            add_entry(data, entry(pattern))
        return
    edit = add_entry(data, entry(pattern))
    assert list(read_entries(edit.data, entry(""))).index(pattern) == place
    assert edit.line == place + 1


def test_the_last_of_several_lines_counts():
    data = b"/a/ @x\n/b/ @y\n/a/ @z\n"
    assert not has_entry(data, entry("/a/", "@x"))
    assert has_entry(data, entry("/a/", "@z"))
    assert remove_entry(data, entry("/a/", "@x")) == b"/b/ @y\n/a/ @z\n"
    assert remove_entry(data, entry("/a/", "@w")) == b"/a/ @x\n/b/ @y\n"


@pytest.mark.parametrize("pattern", ["!/a/", "[a]", "a\\b"])
def test_what_is_no_pattern_is_refused(pattern: str):
    with pytest.raises(RegistryError, match="not a pattern"):
        add_entry(b"", entry(pattern))


def test_escapes_are_read():
    data = b"\\#a @x\n/b\\ c/d#e @y # @z\n/nobody/\n"
    assert read_entries(data, entry("")) == {"#a": "@x", "/b c/d#e": "@y", "/nobody/": ""}

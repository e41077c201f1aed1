"""TOML arrays and tables: what the corpus of whole files does not show."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from scaffold.edit import toml_scan
from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import RegistryError


def entry(table: str, key: str, value: str = "", code: tuple[str, ...] = ()) -> Entry:
    return Entry("pyproject.toml", table, "toml", key, value, code)


def test_every_statement_is_found_in_a_large_file():
    text = (Path(__file__).parents[4] / "pyproject.toml").read_text()
    document = tomllib.loads(text)
    count = 0
    for statement in toml_scan.statements(text):
        content = document
        for name in () if statement.is_in_array else statement.path:
            content = content[name]
        if statement.value is not None and not statement.is_in_array:
            source = text[statement.value : statement.end]
            assert toml_scan.read_value(source) == content
            count += 1
    assert count > 30


@pytest.mark.parametrize(
    "array",
    [
        "['a', 'b']",
        "[ 'a',\n 'b' ]",
        "[\n'a'\n, 'b'\n]",
        "[\n  # one\n  'a',\n  # two\n  'b',\n]",
        "['a', # ]\n 'b',]",
        "['''a''', 'b']",
    ],
)
@pytest.mark.parametrize("key", ["0", "aa", "c"])
def test_an_element_comes_and_goes(array: str, key: str):
    before = f"x = {array}\ny = 'a'\n".encode()
    after = add_entry(before, entry("x", key)).data
    assert tomllib.loads(after.decode()) == {"x": sorted(["a", "b", key]), "y": "a"}
    assert remove_entry(after, entry("x", key)) == before


def test_reads_tables_and_arrays():
    data = b"[t]\na = 'x'\nb = 1\nc.d = 2\n[u]\ne = ['x', 1]\n"
    assert read_entries(data, entry("t", "")) == {"a": "x", "b": None, "c": None}
    assert read_entries(data, entry("u.e", "")) == {"x": ""}


def test_values_are_compared_with_their_types():
    data = b"[t]\na = 1\nb = true\n"
    assert has_entry(data, entry("t", "a", "0x1", ("value",)))
    assert not has_entry(data, entry("t", "a", "1"))
    assert not has_entry(data, entry("t", "b", "1", ("value",)))


def test_source_that_is_no_value_is_refused():
    with pytest.raises(RegistryError, match="not a TOML value"):
        add_entry(b"[t]\na = 1\n", entry("t", "b", "1 2", ("value",)))


def test_a_value_over_several_lines_is_not_removed():
    with pytest.raises(RegistryError, match=r"pyproject.toml:2: .*line of its own"):
        remove_entry(b"[t]\na = [\n]\n", entry("t", "a"))
    with pytest.raises(RegistryError, match=r"pyproject.toml:2: .*line of its own"):
        remove_entry(b"[t]\na.b = 1\n", entry("t", "a"))


def test_the_text_to_add():
    assert text_to_add(entry("t", "a b", 'x"')) == '"a b" = "x\\""'
    assert text_to_add(entry("t", "a")) == '"a",'

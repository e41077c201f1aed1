"""Markdown tables: what the corpus of whole pages does not show."""

from __future__ import annotations

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import (
    add_entry,
    has_entry,
    read_entries,
    remove_entry,
    text_to_add,
)
from scaffold.errors import RegistryError

PAGE = b"# T\n\n| Name | What |\n| ---- | ---- |\n| a | x |\n| c | z |\n"


def entry(key: str, value: str, table: str = "T") -> Entry:
    return Entry("README.md", table, "markdown", key, value)


def test_a_row_survives_a_formatter():
    after = add_entry(PAGE, entry("long name", "a_b  c|d")).data
    formatted = after.replace(b"| long name | a_b  c\\|d |", b"|long name|a\\_b c\\|d      |")
    assert formatted != after
    assert has_entry(formatted, entry("long name", "a_b  c|d"))
    assert remove_entry(formatted, entry("long name", "a_b  c|d")) == PAGE


def test_rows_that_leave_cells_out_are_read():
    data = b"| A | B | C |\n|---|---|---|\n| a |\n| b | c | d | e |\n"
    assert read_entries(data, entry("", "", table="")) == {"a": "|", "b": "c | d"}


@pytest.mark.parametrize("key", ["a\\", "a\\|b"])
def test_a_backslash_in_front_of_a_border_is_refused(key: str):
    with pytest.raises(RegistryError, match="backslash"):
        add_entry(PAGE, entry(key, "x"))


def test_a_row_that_is_there_twice_is_removed_by_its_value():
    data = PAGE + b"| a | y |\n"
    assert remove_entry(data, entry("a", "y")) == PAGE
    with pytest.raises(RegistryError, match=r"README.md:7: 'a' is there twice"):
        remove_entry(data, entry("a", "other"))


def test_a_heading_of_any_spelling_is_found():
    for title in (b"## T ##", b"T\n---", b"# T {#anchor}"):
        assert has_entry(PAGE.replace(b"# T", title), entry("a", "x", table="# T"))


def test_the_text_to_add_escapes_pipes():
    assert text_to_add(entry("a|b", "c|d")) == "| a\\|b | c\\|d |"

"""YAML lists: what the corpus of whole files does not show."""

from __future__ import annotations

import pytest
import yaml

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import RegistryError


def entry(table: str, key: str, value: str = "", code: tuple[str, ...] = ()) -> Entry:
    return Entry("mkdocs.yml", table, "yaml", key, value, code)


NAV = b"""\
nav:
  - Home: index.md
  - plain.md
  - Guide / FAQ:
      - faq.md
  - 404: missing.md
  - Number: 1
"""


def test_reads_every_form_of_item():
    assert read_entries(NAV, entry("nav", "")) == {
        "Home": "index.md",
        "plain.md": "",
        "Guide / FAQ": None,
        "404": "missing.md",
        "Number": None,
    }


def test_a_slash_in_a_step_is_escaped():
    assert read_entries(NAV, entry(r"nav/Guide \/ FAQ", "")) == {"faq.md": ""}


@pytest.mark.parametrize(
    ("key", "value"),
    [("true", "1"), ("a: b", "x #y"), ("- a", "? b"), ("'", '"'), ("\\", ":"), ("é 数", "\u00a0")],
)
def test_a_parser_reads_what_was_meant(key: str, value: str):
    after = add_entry(NAV, entry("nav", key, value)).data
    assert {key: value} in yaml.safe_load(after)["nav"]
    assert remove_entry(after, entry("nav", key)) == NAV


def test_numbers_are_no_text():
    data = b"limits:\n  a: 1\n"
    assert not has_entry(data, entry("limits", "a", "1"))
    assert has_entry(data, entry("limits", "a", "1", ("value",)))


def test_a_section_that_an_item_became_is_not_removed():
    with pytest.raises(RegistryError, match=r"mkdocs.yml:4: .*line of its own"):
        remove_entry(NAV, entry("nav", "Guide / FAQ"))


def test_an_item_is_removed_whatever_its_value():
    data = b"nav:\n- a: x\n- b: mine\n"
    assert remove_entry(data, entry("nav", "b", "other")) == b"nav:\n- a: x\n"


def test_one_of_several_items_with_a_key_is_removed_by_its_value():
    data = b"chapters:\n- file: a\n- file: b\n"
    assert remove_entry(data, entry("chapters", "file", "b")) == b"chapters:\n- file: a\n"
    with pytest.raises(RegistryError, match="there twice"):
        remove_entry(data, entry("chapters", "file", "c"))


def test_the_text_for_a_mapping_has_no_dash():
    with pytest.raises(RegistryError) as refusal:
        add_entry(b"rewards:\n  a: x\n", entry("rewards", "a", "y: z"))
    assert refusal.value.hint.endswith(': a: "y: z"')
    assert text_to_add(entry("nav", "a", "y: z")) == '- a: "y: z"'
    assert text_to_add(entry("chapters[file]", "a")) == "- file: a"


def test_a_key_without_a_value_in_a_mapping():
    data = b"volumes:\n  a:\n"
    after = add_entry(data, entry("volumes", "b")).data
    assert after == b"volumes:\n  a:\n  b:\n"
    assert remove_entry(after, entry("volumes", "b")) == data


@pytest.mark.parametrize("key", ["", " ", "a\nb", "a\x00", "a\u2028b"])
def test_a_key_that_is_no_line_is_refused(key: str):
    with pytest.raises(RegistryError, match="more than one line"):
        add_entry(NAV, entry("nav", key))


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("nav:\n" + "- " * 200 + "a\n", 2, "more than 100 values"),
        ("nav:\n- a\u2028b\n", 2, "line separator"),
        ("? nav\n: - a\n", 1, "layout"),
        ("&x nav:\n- a\n", 1, "in front of a key"),
        ("nav:\n- a\n...\n", 3, "more than one document"),
        ("%YAML 1.1\n---\nnav:\n- a\n", 1, "directive"),
        ("nav:\n- {{ page }}\n", 2, "template code"),
        ("nav:\n- 'a\n", 2, "layout"),
        ("nav:\n- a\x07b\n", 1, "not allowed|unacceptable"),
    ],
)
def test_a_form_that_lines_cannot_be_added_to_is_refused(text: str, line: int, reason: str):
    with pytest.raises(RegistryError, match=rf"mkdocs.yml:{line}: .*({reason})"):
        add_entry(text.encode(), entry("nav", "z"))

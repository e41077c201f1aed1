from __future__ import annotations

import ast

import pytest

from scaffold.edit.address import find_parts
from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry
from scaffold.errors import RegistryError

ENTRY = Entry("r.py", "WORKFLOWS(default_mapping)", "dict", "sums", "pkg.sums.Sums")

PLAIN = b"""WORKFLOWS: Registry = Registry(
    "workflows",
    default_mapping={
        "simple": "pkg.simple.Simple",  # trailing
        # a comment that stays
        "math": "pkg.math.Math",
    },
)
"""
LAYOUTS = {
    "annotated": PLAIN,
    "sorted": PLAIN.replace(b'"simple": "pkg.simple.Simple",  # trailing', b'"a": "pkg.a.A",'),
    "crlf": PLAIN.replace(b"\n", b"\r\n"),
    "one_line": b'WORKFLOWS = Registry("workflows", default_mapping={"a": "pkg.a.A"})\n',
    "empty": b'WORKFLOWS = Registry("workflows", default_mapping={})\n',
    "around": b'WORKFLOWS = Registry(name="w", default_mapping={\n    "a": "b",\n}, lazy=True)\n',
    "no_final_newline": PLAIN.rstrip(b"\n"),
    "in_a_class": b"class R:\n    WORKFLOWS = Registry(default_mapping={})\n",
}


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_keyword_of_a_call_gains_one_entry_and_gives_the_bytes_back(name: str) -> None:
    data = LAYOUTS[name]
    table = "R.WORKFLOWS(default_mapping)" if name == "in_a_class" else ENTRY.table
    entry = Entry("r.py", table, "dict", ENTRY.key, ENTRY.value)
    edited = add_entry(data, entry)
    assert has_entry(edited.data, entry)
    is_one_line = data.count(b"\n") <= 2
    assert edited.data.count(b"\n") == data.count(b"\n") + (not is_one_line)
    assert b"pkg.sums.Sums" in edited.data.splitlines()[edited.line - 1]
    assert add_entry(edited.data, entry).data == edited.data
    assert remove_entry(edited.data, entry) == data


def test_other_arguments_and_other_calls_are_not_meant() -> None:
    data = b'WORKFLOWS = Registry({"a": "b"}, other={"c": "d"})\nX = Registry(default_mapping={})\n'
    with pytest.raises(RegistryError, match=r"WORKFLOWS\(default_mapping\)"):
        read_entries(data, ENTRY)


@pytest.mark.parametrize(
    "value", [b"dict(OTHER)", b"{**OTHER, key(): 1}", b"make()", b'[("a", "b")]']
)
def test_a_mapping_that_is_computed_is_refused_with_the_line(value: bytes) -> None:
    data = b"WORKFLOWS = Registry(default_mapping=" + value + b")\n"
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, ENTRY)
    assert '"sums": "pkg.sums.Sums",' in refusal.value.hint


@pytest.mark.parametrize("address", ["W()", "W(a, b)", "W('a')", "W(key=a)"])
def test_an_address_names_one_keyword(address: str) -> None:
    with pytest.raises(SyntaxError, match="names no keyword"):
        find_parts(ast.parse("W = f(a={})"), address)

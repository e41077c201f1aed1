"""Calls and item assignments: what the corpus does not show."""

from __future__ import annotations

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import RegistryError, TemplateError


def call(key: str, value: str = "", code: tuple[str, ...] = (), table: str = "reg") -> Entry:
    return Entry("pkg/a.py", table, "call", key, value, code)


def item(key: str, value: str, code: tuple[str, ...] = ()) -> Entry:
    return Entry("pkg/a.py", "R", "subscript", key, value, code)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (call("k", "m:f"), 'reg("k", "m:f")'),
        (call("k", "K", ("value",)), 'reg("k", K)'),
        (call("SPEC", "", ("key",)), "reg(SPEC)"),
        (call('say "hi"\\', "x"), 'reg(\'say "hi"\\\\\', "x")'),
        (item("k", "m:f"), 'R["k"] = "m:f"'),
        (item("Kind.K", "f()", ("key", "value")), "R[Kind.K] = f()"),
    ],
)
def test_the_text_to_add_is_the_statement(entry: Entry, expected: str):
    assert text_to_add(entry) == expected


def test_reads_values_in_the_entrys_terms():
    data = b"reg('a', 'pkg:a')\nreg(key='b', value=B)\nreg('c')\nother('d', 1)\n"
    data += b"reg('e', E, force=True)\n"
    assert read_entries(data, call("k", "m:f")) == {"a": "pkg:a", "b": None, "c": "", "e": None}
    coded = read_entries(data, call("k", "K", ("value",)))
    assert coded == {"a": "'pkg:a'", "b": "B", "c": "", "e": "E"}


def test_code_is_compared_as_code():
    data = b"reg('a', make( 1,2 ))\n"
    assert has_entry(data, call("a", "make(1, 2)", ("value",)))
    assert not has_entry(data, call("a", "make(2, 1)", ("value",)))
    assert not has_entry(data, call("a", "make(1, 2)"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("reg('a', 1)\nreg('k', 2)  # why\nreg('z', 3)\n", "reg('a', 1)\nreg('z', 3)\n"),
        ("x = 1\n\nreg(\n    'k',\n    2,\n)", "x = 1"),
        ("reg('k', 2)\n", ""),
        ("reg('k', 2)\nx = 1\n", "x = 1\n"),
        ("def f():\n    reg('k', 2)\n", "def f():\n    reg('k', 2)\n"),
    ],
)
def test_takes_back_by_key_whatever_the_value(before: str, after: str):
    assert remove_entry(before.encode(), call("k", "m:f")).decode() == after


def test_removal_does_not_mind_computed_keys_elsewhere():
    data = b"reg(A + 'x', 1)\nreg('k', 2)\n"
    assert remove_entry(data, call("k", "m:f")) == b"reg(A + 'x', 1)\n"
    with pytest.raises(RegistryError, match=r"a.py:1: .*not a plain string"):
        read_entries(data, call("k", "m:f"))


@pytest.mark.parametrize("line", ["reg(*names)", "reg(**both)", "reg(f'{x}', 1)", "reg(NAME, 1)"])
def test_a_key_that_may_be_any_is_refused(line: str):
    with pytest.raises(RegistryError) as refusal:
        add_entry(f"from m import reg\nreg('a', 'b')\n{line}\n".encode(), call("k", "m:f"))
    assert refusal.value.code == "registry_computed"
    assert refusal.value.message.startswith("pkg/a.py:3: ")


@pytest.mark.parametrize("line", ["reg(*SPECS)", "reg(**SPECS)"])
def test_an_unpacked_key_is_refused_where_keys_are_code_too(line: str):
    with pytest.raises(RegistryError, match=r"a.py:2: "):
        add_entry(f"from m import reg\n{line}\n".encode(), call("SPEC", "", ("key",)))


def test_values_are_named_as_those_of_most_siblings():
    data = b"from m import reg\nreg(key='a', value=1)\nreg(key='b')\n"
    edit = add_entry(data, call("k", "m:f"))
    assert edit.data == data + b"reg(key='k', value='m:f')\n"


def test_text_that_the_encoding_lacks_is_refused():
    data = b"# coding: latin-1\nfrom m import reg\nreg('a', 1)\n"
    assert add_entry(data, call("k", "\xe9")).data.endswith(b"reg('k', '\xe9')\n")
    with pytest.raises(RegistryError, match="iso-8859-1 does not have"):
        add_entry(data, call("k", "\u2192"))


def test_a_statement_that_is_newer_than_the_interpreter_is_named():
    data = b"class A[T]: ...\n"  # of Python 3.12
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, call("k", "m:f"))
    assert refusal.value.code in ("registry_syntax", "registry_missing")
    assert refusal.value.hint.endswith('reg("k", "m:f")')


def test_a_shared_line_is_refused():
    data = b"from m import reg\nreg('a', 1); reg('b', 2)\n"
    for edit in (add_entry, remove_entry):
        with pytest.raises(RegistryError, match="shares its line"):
            edit(data, call("b" if edit is remove_entry else "k", "m:f"))


def test_what_is_defined_below_all_siblings_is_refused():
    data = b"from m import reg\n\nreg('a', 1)\n\n\ndef k():\n    return 1\n"
    with pytest.raises(RegistryError, match=r"a.py:6: .*defined below"):
        add_entry(data, call("k", "k", ("value",)))


def test_a_value_that_is_no_expression_is_a_fault_of_the_template():
    for value in ("x y", "x = 1", "a\nb", "1)"):
        with pytest.raises(TemplateError):
            add_entry(b"from m import reg\nreg('a', b)\n", call("k", value, ("value",)))


def test_a_star_import_may_bring_the_registry():
    assert add_entry(b"from m import *\n", call("k", "m:f")).line == 3

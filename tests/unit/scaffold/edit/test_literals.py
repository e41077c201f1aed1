"""Literal tables: one line gained, every other byte kept, taken back to the byte, or refused."""

from __future__ import annotations

import codecs
import sys
from dataclasses import replace

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

FILE = "pkg/reward/__init__.py"
ENTRY = Entry(FILE, "T", "dict", "k", "m:f")

# name: (before, after adding "k": "m:f", line of the entry)
CASES = {
    "between, sorted": (
        'T: dict[str, str] = {\n    "a": "x",\n    "z": "y",\n}\n',
        'T: dict[str, str] = {\n    "a": "x",\n    "k": "m:f",\n    "z": "y",\n}\n',
        3,
    ),
    "first, sorted": (
        'T = {\n    "z": "y",\n}\n',
        'T = {\n    "k": "m:f",\n    "z": "y",\n}\n',
        2,
    ),
    "last, sorted": (
        'T = {\n    "a": "x",\n}\n',
        'T = {\n    "a": "x",\n    "k": "m:f",\n}\n',
        3,
    ),
    "appended where unsorted": (
        'T = {\n    "z": "y",\n    "a": "x",\n}\n',
        'T = {\n    "z": "y",\n    "a": "x",\n    "k": "m:f",\n}\n',
        4,
    ),
    "sorted without regard to case": (
        'T = {\n    "a": "x",\n    "B": "x",\n    "l": "y",\n}\n',
        'T = {\n    "a": "x",\n    "B": "x",\n    "k": "m:f",\n    "l": "y",\n}\n',
        4,
    ),
    "sorted with - read as _": (
        'T = {\n    "a-b": "x",\n    "a_a2": "x",\n    "z": "y",\n}\n',
        'T = {\n    "a-b": "x",\n    "a_a2": "x",\n    "k": "m:f",\n    "z": "y",\n}\n',
        4,
    ),
    "no last comma": (
        'T = {\n    "a": "x"\n}\n',
        'T = {\n    "a": "x",\n    "k": "m:f"\n}\n',
        3,
    ),
    "no last comma, a comment behind": (
        'T = {\n    "a": "x"  # why\n}\n',
        'T = {\n    "a": "x",  # why\n    "k": "m:f"\n}\n',
        3,
    ),
    "comment behind the last entry stays with the bracket": (
        'T = {\n    "a": "x",\n    # add yours above\n}\n',
        'T = {\n    "a": "x",\n    "k": "m:f",\n    # add yours above\n}\n',
        3,
    ),
    "comment of the next entry stays with it": (
        'T = {\n    "a": "x",  # one\n    # about z\n    "z": "y",\n}\n',
        'T = {\n    "a": "x",  # one\n    "k": "m:f",\n    # about z\n    "z": "y",\n}\n',
        3,
    ),
    "blank lines stay": (
        'T = {\n\n    "a": "x",\n\n    "z": "y",\n\n}\n',
        'T = {\n\n    "a": "x",\n    "k": "m:f",\n\n    "z": "y",\n\n}\n',
        4,
    ),
    "a lone comment heads the table": (
        'T = {\n    # sorted\n    "y": "x",\n    "z": "y",\n}\n',
        'T = {\n    # sorted\n    "k": "m:f",\n    "y": "x",\n    "z": "y",\n}\n',
        3,
    ),
    "a comment among others belongs to its entry": (
        'T = {\n    # about y\n    "y": "x",\n    # about z\n    "z": "y",\n}\n',
        'T = {\n    "k": "m:f",\n    # about y\n    "y": "x",\n    # about z\n    "z": "y",\n}\n',
        2,
    ),
    "empty on one line": ("T: dict[str, str] = {}\n", 'T: dict[str, str] = {"k": "m:f"}\n', 1),
    "empty with a space": ("T = { }\n", 'T = {"k": "m:f" }\n', 1),
    "empty on two lines": ("T = {\n}\n", 'T = {\n    "k": "m:f",\n}\n', 2),
    "empty in a file of two spaces": (
        "def f():\n  return T\nT = {\n}\n",
        'def f():\n  return T\nT = {\n  "k": "m:f",\n}\n',
        4,
    ),
    "empty beside a table with tabs": (
        "U = [\n\t1,\n]\nT = {\n}\n",
        'U = [\n\t1,\n]\nT = {\n\t"k": "m:f",\n}\n',
        5,
    ),
    "empty with a comment": (
        "T = {\n  # here\n}\n",
        'T = {\n  # here\n  "k": "m:f",\n}\n',
        3,
    ),
    "empty with a comment behind the bracket": (
        "T = {  # here\n}\n",
        'T = {  # here\n    "k": "m:f",\n}\n',
        2,
    ),
    "one line": ('T = {"a": "x", "z": "y"}\n', 'T = {"a": "x", "k": "m:f", "z": "y"}\n', 1),
    "one line, last comma": ('T = {"a": "x",}\n', 'T = {"a": "x", "k": "m:f",}\n', 1),
    "one line, at the end": ('T = {"a": "x"}\n', 'T = {"a": "x", "k": "m:f"}\n', 1),
    "one line, at the front": ('T = {"z": "x"}\n', 'T = {"k": "m:f", "z": "x"}\n', 1),
    "bracket behind the last entry": (
        'T = {"a": "x",\n     "b": "y"}\n',
        'T = {"a": "x",\n     "b": "y",\n     "k": "m:f"}\n',
        3,
    ),
    "first entry behind the bracket": (
        'T = {"x": "x",\n     "z": "y"}\n',
        'T = {"k": "m:f",\n     "x": "x",\n     "z": "y"}\n',
        1,
    ),
    "rows of several": (
        'T = {\n    "a": "1", "b": "2",\n    "z": "3",\n}\n',
        'T = {\n    "a": "1", "b": "2",\n    "k": "m:f",\n    "z": "3",\n}\n',
        3,
    ),
    "inside a row of several": (
        'T = {\n    "a": "1", "z": "2",\n}\n',
        'T = {\n    "a": "1", "k": "m:f", "z": "2",\n}\n',
        2,
    ),
    "tabs": ('T = {\n\t"a": "x",\n}\n', 'T = {\n\t"a": "x",\n\t"k": "m:f",\n}\n', 3),
    "empty in a file of tabs": (
        "def f():\n\treturn 1\n\nT = {\n}\n",
        'def f():\n\treturn 1\n\nT = {\n\t"k": "m:f",\n}\n',
        5,
    ),
    "CRLF": (
        'T = {\r\n    "a": "x",\r\n}\r\n',
        'T = {\r\n    "a": "x",\r\n    "k": "m:f",\r\n}\r\n',
        3,
    ),
    "both line ends in one file": (
        'A = 1\nT = {\r\n    "a": "x",\r\n}\nB = 2\n',
        'A = 1\nT = {\r\n    "a": "x",\r\n    "k": "m:f",\r\n}\nB = 2\n',
        4,
    ),
    "no newline at the end of the file": (
        'T = {\n    "a": "x",\n}',
        'T = {\n    "a": "x",\n    "k": "m:f",\n}',
        3,
    ),
    "single quotes": ("T = {\n    'a': 'x',\n}\n", "T = {\n    'a': 'x',\n    'k': 'm:f',\n}\n", 3),
    "values that are no strings": (
        'T = {\n    "a": Thing(1, {"b": 2}),\n    "z": "a" "b",\n}\n',
        'T = {\n    "a": Thing(1, {"b": 2}),\n    "k": "m:f",\n    "z": "a" "b",\n}\n',
        3,
    ),
    "a value over several lines": (
        'T = {\n    "a": (\n        "x"\n    ),\n}\n',
        'T = {\n    "a": (\n        "x"\n    ),\n    "k": "m:f",\n}\n',
        5,
    ),
    "brackets and hashes inside strings": (
        'T = {\n    "a": "}, # no",\n}\n',
        'T = {\n    "a": "}, # no",\n    "k": "m:f",\n}\n',
        3,
    ),
    "parentheses around the literal": (
        'T = (  # {\n    {\n        "a": "x",\n    }\n)\n',
        'T = (  # {\n    {\n        "a": "x",\n        "k": "m:f",\n    }\n)\n',
        4,
    ),
    "several targets": ('S = T = {"a": "x"}\n', 'S = T = {"a": "x", "k": "m:f"}\n', 1),
    "a form feed and odd spacing": (
        'x = 1\n\x0c\nT={"a" :"x" ,  "z":  "y" }\n',
        'x = 1\n\x0c\nT={"a" :"x" ,  "k": "m:f", "z":  "y" }\n',
        3,
    ),
    "letters outside ASCII before and inside": (
        '# äöü \N{GRINNING FACE}\nT = {\n    "a": "ß",\n}\n',
        '# äöü \N{GRINNING FACE}\nT = {\n    "a": "ß",\n    "k": "m:f",\n}\n',
        4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_adds_one_entry_and_keeps_every_other_byte(name: str):
    before, after, line = CASES[name]
    edit = add_entry(before.encode(), ENTRY)
    assert edit.data.decode() == after
    assert edit.line == line


@pytest.mark.parametrize("name", CASES)
def test_a_second_run_changes_nothing(name: str):
    _, after, line = CASES[name]
    edit = add_entry(after.encode(), ENTRY)
    assert edit.data == after.encode()
    assert edit.line == line


@pytest.mark.parametrize("name", CASES)
def test_removal_gives_back_the_first_bytes(name: str):
    before, after, _ = CASES[name]
    assert remove_entry(after.encode(), ENTRY) == before.encode()


@pytest.mark.parametrize("name", CASES)
def test_a_multi_line_literal_gains_one_line_and_others_none(name: str):
    before, after, _ = CASES[name]
    gained = after.count("\n") - before.count("\n")
    literal = before[before.index("T") :]
    one_line = "\n" not in literal[: literal.rindex("}")] or "inside a row" in name
    assert gained == (0 if one_line else 1)


def test_keeps_the_byte_order_mark():
    before = codecs.BOM_UTF8 + b'T = {\r\n    "a": "x",\r\n}\r\n'
    after = add_entry(before, ENTRY).data
    assert after == codecs.BOM_UTF8 + b'T = {\r\n    "a": "x",\r\n    "k": "m:f",\r\n}\r\n'
    assert remove_entry(after, ENTRY) == before


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_keeps_the_file_s_own_encoding(encoding: str):
    text = f'# -*- coding: {encoding} -*-\n# é\nT = {{\n    "a": "é",\n}}\n'
    after = add_entry(text.encode(encoding), ENTRY).data
    assert after == text.replace("}", '    "k": "m:f",\n}').encode(encoding)
    assert remove_entry(after, ENTRY) == text.encode(encoding)


def test_removing_what_is_not_there_changes_nothing():
    data = b'T = {"a": "x"}\n'
    assert remove_entry(data, ENTRY) == data


def test_removing_the_only_entries_leaves_an_empty_table():
    assert remove_entry(b'T = {\n    "k": "m:f"\n}\n', ENTRY) == b"T = {\n}\n"
    assert remove_entry(b'T = {"k": "m:f",}\n', ENTRY) == b"T = {}\n"


FORMATTED = {
    "spread over lines": (
        'T = {\n    "a": 1,\n    "k": Spec(\n        "x",\n        cost=2,\n    ),\n}\n'
    ),
    "in other quotes": "T = {\n    'a': 1,\n    'k': (Spec('x', cost=2)),\n}\n",
    "with a comment": (
        'T = {\n    "a": 1,\n    "k": Spec(\n        "x", cost=2  # why\n    ),  # k\n}\n'
    ),
}


@pytest.mark.parametrize("name", FORMATTED)
def test_an_entry_that_was_formatted_is_known_and_taken_out(name: str):
    entry = replace(ENTRY, value='Spec("x", cost=2)', code=("value",))
    data = FORMATTED[name].encode()
    assert has_entry(data, entry)
    assert not has_entry(data, replace(entry, value='Spec("x", cost=3)'))
    assert add_entry(data, entry).data == data
    assert remove_entry(data, entry) == data[: data.index(b"    ", 12)] + b"}\n"


TAKEN_OUT = {
    "from a tuple of two": ("list", 'T = ("k", "z")\n', 'T = ("z",)\n'),
    "from a set of one": ("list", 'T = {\n    "k",\n}\n', "T = set()\n"),
    "from a frozenset of one": ("list", 'T = frozenset({"k"})\n', "T = frozenset()\n"),
    "from a sorted set of one": ("list", 'T = sorted({"k"})\n', "T = sorted(set())\n"),
    "from every part": ("list", 'T = ["k", "a"]\nT += ["b", "k"]\n', 'T = ["a"]\nT += ["b"]\n'),
    "from between comments": (
        "dict",
        'T = {"a": "x", "k": "y",  # of k\n     "z": "y"}\n',
        'T = {"a": "x",   # of k\n     "z": "y"}\n',
    ),
}


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_takes_out_what_somebody_else_wrote(name: str):
    shape, before, after = TAKEN_OUT[name]
    assert remove_entry(before.encode(), replace(ENTRY, shape=shape)).decode() == after


KEPT = {
    "added by a call": 'T = ["a"]\nT.append("k")\n',
    "a comment in a set of one": 'T = {\n    # all\n    "k",\n}\n',
}


@pytest.mark.parametrize("name", KEPT)
def test_refuses_to_take_out_what_would_take_more_along(name: str):
    with pytest.raises(RegistryError) as refusal:
        remove_entry(KEPT[name].encode(), replace(ENTRY, shape="list"))
    assert refusal.value.code == "registry_computed"
    assert "'k'" in refusal.value.message


def test_code_that_is_no_expression_is_refused():
    for entry in (
        replace(ENTRY, value="Spec(", code=("value",)),
        replace(ENTRY, key="a = 1", code=("key",)),
    ):
        with pytest.raises(RegistryError):
            add_entry(b"T = {}\n", entry)


def test_source_text_is_written_on_one_line():
    for value, written in (
        ('"m", f', "('m', f)"),
        ('("m", f)', '("m", f)'),
        ("Spec(\n    1,\n)", "Spec(1)"),
        ("Spec()  # why", "Spec()"),
        (" Spec() ", "Spec()"),
    ):
        entry = replace(ENTRY, value=value, code=("value",))
        assert add_entry(b"T = {}\n", entry).data.decode() == f'T = {{"k": {written}}}\n'
        assert text_to_add(entry) == f'"k": {written},'


def test_reads_source_text_keys():
    data = b'T = {Kind.A: "x", "s": "y", **OTHER}\n'
    entry = replace(ENTRY, key="Kind . A", code=("key",))
    assert read_entries(data, entry) == {"Kind . A": "x", "'s'": "y"}
    assert read_entries(b'T = [A, "s", *B]\n', replace(entry, shape="list")) == {"A": "", "'s'": ""}
    assert read_entries(b'T = [A, "s", *B]\n', replace(ENTRY, shape="list")) == {"s": ""}


def test_reads_keys_and_plain_values():
    data = b'T = {"a": "x" "y", "b": f"{1}", "c": None}\n'
    assert read_entries(data, ENTRY) == {"a": "xy", "b": None, "c": None}


REFUSALS = {
    "no such table": (b'U = {"a": "x"}\n', "registry_missing", 0),
    "only annotated": (b"T: dict[str, str]\n", "registry_missing", 0),
    "only inside a function": (b"def f():\n    T = {}\n", "registry_missing", 0),
    "a call": (b"x = 1\nT = make(a=1)\n", "registry_computed", 2),
    "a comprehension": (b"T = {k: k for k in 'ab'}\n", "registry_computed", 1),
    "a set": (b"T = {'a', 'b'}\n", "registry_computed", 1),
    "a computed key": (b"T = {name: 'x'}\n", "registry_computed", 1),
    "a formatted key": (b"T = {f'{name}': 'x'}\n", "registry_computed", 1),
    "a bytes key": (b"T = {b'a': 'x'}\n", "registry_computed", 1),
    "two assignments": (b"T = {}\nT = {}\n", "registry_computed", 2),
    "grown in place": (b"T = {}\nT |= {}\n", "registry_computed", 2),
    "another value": (b'T = {\n    "k": "m:g",\n}\n', "registry_differs", 2),
    "a syntax error": (b"x = 1\ndef (:\nT = {}\n", "registry_syntax", 2),
    "a broken encoding": (b'# \xff\nT = {"a": "x"}\n', "registry_syntax", 1),
    "an unknown cookie": (b"# -*- coding: klingon -*-\nT = {}\n", "registry_syntax", 1),
    "merge conflict": (
        b'T = {\n<<<<<<< HEAD\n    "a": "x",\n=======\n    "b": "y",\n>>>>>>> b\n}\n',
        "registry_syntax",
        2,
    ),
    "a generated file": (b"# @generated by a tool\nT = {}\n", "registry_generated", 1),
    "not to be edited": (b'"""Doc."""\n# DO NOT EDIT\nT = {}\n', "registry_generated", 2),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_what_is_unsafe_with_the_line_and_the_text_to_add(name: str):
    data, code, line = REFUSALS[name]
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, ENTRY)
    assert refusal.value.code == code
    where = f"{FILE}:{line}: " if line else f"{FILE}: "
    assert refusal.value.message.startswith(where)
    assert '"k": "m:f",' in refusal.value.hint


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the running Python reads the statement")
def test_refuses_what_stands_in_a_statement_newer_than_the_running_python():
    data = b"A = 1\n\n\n@final\nclass Box:\n    x = [*a for a in b]\n    T = {}\n"
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, replace(ENTRY, table="Box.T"))
    assert refusal.value.code == "registry_syntax"
    assert refusal.value.message.startswith(f"{FILE}:4: Box.T was not found")


def test_a_table_in_a_class_with_type_parameters_is_edited():
    data = b"class Box[V]:\n    T = {}\n"
    added = add_entry(data, replace(ENTRY, table="Box.T")).data
    assert added.startswith(b"class Box[V]:\n    T = {")
    assert read_entries(added, replace(ENTRY, table="Box.T")) == {ENTRY.key: ENTRY.value}


def test_a_table_that_is_not_ours_to_read_is_told_no_line():
    with pytest.raises(RegistryError) as refusal:
        read_entries(b"T = make()\n", ENTRY)
    assert "k" not in refusal.value.hint.split('"')

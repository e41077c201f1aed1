"""Branches: what the corpus does not show: removal of what others wrote, and wrong input."""

from __future__ import annotations

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import RegistryError, TemplateError


def entry(key: str, value: str = "return 1", table: str = "get") -> Entry:
    return Entry("pkg/a.py", table, "branch", key, value)


CHAIN = """def get(name):
    if name == "a":
        return 1
    # about b
    elif name == "b":
        return 2
    else:
        return 3
"""

# name: (condition, before, after)
REMOVALS = {
    "head of a chain": (
        'name == "a"',
        CHAIN,
        CHAIN.replace('if name == "a":\n        return 1\n    # about b\n    el', ""),
    ),
    "elif with an edited body": (
        "name == 'b'",
        CHAIN.replace("return 2", "x = 2\n        return x"),
        CHAIN.replace('    elif name == "b":\n        return 2\n', ""),
    ),
    "lone if before a return": (
        'name == "a"',
        'def get(name):\n    if name == "a":\n        return 1\n    return 2\n',
        "def get(name):\n    return 2\n",
    ),
    "case": (
        '"a"',
        "def get(n):\n    match n:\n        case 'a':\n            return 1\n        case _:\n"
        "            return 2\n",
        "def get(n):\n    match n:\n        case _:\n            return 2\n",
    ),
    "nothing": ('name == "c"', CHAIN, CHAIN),
}


@pytest.mark.parametrize("case", REMOVALS.values(), ids=REMOVALS)
def test_takes_back_by_condition(case: tuple[str, str, str]):
    key, before, after = case
    assert remove_entry(before.encode(), entry(key)).decode() == after


@pytest.mark.parametrize(
    "text",
    [
        'def get(name):\n    if name == "a":\n        return 1\n',
        'def get(name):\n    if name == "a":\n        return 1\n    else:\n        return 2\n',
    ],
)
def test_the_only_branch_stays(text: str):
    with pytest.raises(RegistryError, match=r"a.py:2: get would be left without a branch"):
        remove_entry(text.encode(), entry('name == "a"'))


def test_bodies_are_compared_as_code():
    data = b"def get(name):\n    if (name == 'a'): return  f( 1,\n  2)  # why\n"
    assert has_entry(data, entry('name == "a"', "# because\nreturn f(1, 2)\n"))
    assert not has_entry(data, entry('name == "a"', "return f(2, 1)\n"))
    assert not has_entry(data, entry('name == "b"', "return f(1, 2)\n"))


def test_reads_the_chain_of_the_key_only():
    data = b"def get(name, kind):\n    if kind == 'x':\n        log()\n    else:\n        pass\n"
    data += (
        b"    if name == 'a':\n        return 1\n    elif kind and name == 'b':\n        return 2\n"
    )
    own = entry('name == "a"')
    assert read_entries(data, own) == {'name == "a"': "return 1", "kind and name == 'b'": None}


def test_reads_all_chains_where_the_key_says_nothing():
    assert read_entries(CHAIN.encode(), entry("", "")) == {'name == "a"': None, 'name == "b"': None}


@pytest.mark.parametrize(("word", "value"), [("name ==", "return 1"), ('name == "k"', "return (")])
def test_what_is_no_python_is_a_fault_of_the_template(word: str, value: str):
    with pytest.raises(TemplateError):
        add_entry(CHAIN.encode(), entry(word, value))


def test_the_text_to_add_is_a_branch():
    assert text_to_add(entry('name == "k"')) == 'elif name == "k":\n    return 1'
    assert (
        text_to_add(entry('"k"', "x = 1\n\nreturn x\n")) == 'case "k":\n    x = 1\n\n    return x'
    )


def test_nested_functions_are_no_part_of_the_dispatch():
    data = b"def get(name):\n    def inner(name):\n        if name == 'a':\n            return 1\n"
    with pytest.raises(RegistryError, match="no if that dispatches"):
        add_entry(data + b"    return inner(name)\n", entry('name == "k"'))
    nested = entry('name == "k"', table="get.inner")
    assert b'        if name == "k":\n' in add_entry(data, nested).data


def test_an_if_alone_in_an_else_is_a_chain_of_its_own():
    data = b"def get(name):\n    if x:\n        pass\n    else:\n        if name == 'a':\n"
    data += b"            y = 1\n        elif name == 'b':\n            y = 2\n"
    edit = add_entry(data, entry('name == "k"', "y = 3"))
    assert edit.data == data + b'        elif name == "k":\n            y = 3\n'


def test_a_new_branch_that_would_take_later_ones_goes_behind_them():
    data = b"def get(path):\n    if 'a' in path:\n        return 1\n    elif 'gsm8k' in path:\n"
    data += b"        return 2\n    elif path.startswith('xx'):\n        return 3\n"
    edit = add_entry(data, entry('"g" in path'))
    assert edit.data.endswith(b'return 3\n    elif "g" in path:\n        return 1\n')
    edit = add_entry(data, entry('"b" in path'))
    assert edit.data.index(b'"b" in path') < edit.data.index(b"'gsm8k' in path")


def test_a_layout_that_no_rule_foresees_is_refused():
    data = b"def get(name):\n    if name == 'a':\n        return 1 \\\n\n    return 2\n"
    with pytest.raises(RegistryError, match="allows no edit that is safe") as refusal:
        add_entry(data, entry('name == "k"'))
    assert refusal.value.hint.endswith('elif name == "k":\n    return 1')


def test_a_key_that_is_condition_and_pattern_is_what_the_function_makes_of_it():
    by_if = b"def get(kind):\n    if kind is Kind.A:\n        return 1\n    elif kind == Kind.B:\n"
    by_if += b"        return 2\n"
    by_match = b"def get(kind):\n    match kind:\n        case Kind.A:\n            return 1\n"
    key = entry("Kind.C")
    assert (
        add_entry(by_match, key).data == by_match + b"        case Kind.C:\n            return 1\n"
    )
    assert text_to_add(key).startswith("case Kind.C:")
    with pytest.raises(RegistryError, match="no if that dispatches"):
        add_entry(by_if, key)
    equal = entry("kind == Kind.C")
    assert add_entry(by_if, equal).data == by_if + b"    elif kind == Kind.C:\n        return 1\n"


def test_a_call_that_reads_as_a_class_pattern_is_a_condition():
    data = b"def get(path):\n    if path.startswith('a:'):\n        return 1\n    return 2\n"
    key = entry('path.startswith("k:")')
    assert add_entry(data, key).line == 4
    assert text_to_add(key).startswith("elif path.startswith(")
    match = b"def get(path):\n    match path:\n        case Url('a'):\n            return 1\n"
    with pytest.raises(RegistryError, match="no if that dispatches"):
        add_entry(match, key)
    checked = entry('isinstance(path, str) and path.startswith("k:")')
    assert add_entry(data, checked).line == 4


def test_a_subject_may_be_an_attribute():
    data = b"class A:\n    def get(self):\n        if self.name == 'a':\n            return 1\n"
    made = entry('self.name in ("k", "l")', table="A.get")
    assert add_entry(data, made).line == 5
    with pytest.raises(RegistryError, match="has no if that dispatches"):
        add_entry(data, entry('self.kind == "k" and other', table="A.get"))


def test_guards_are_no_dispatch():
    guard = (
        b"def get(name):\n    if name == '':\n        raise ValueError('empty')\n    log(name)\n"
    )
    with pytest.raises(RegistryError, match=r"a.py:1: get has no if that dispatches"):
        add_entry(guard + b"    return TABLE[name]\n", entry('name == "k"'))
    chain = guard + b"    if name == 'a':\n        return 1\n"
    edit = add_entry(chain, entry('name == "k"'))
    assert edit.data == chain + b'    if name == "k":\n        return 1\n'


def test_one_branch_shows_no_order():
    data = b"def get(name):\n    if name == 'z':\n        return 2\n    return 3\n"
    edit = add_entry(data, entry('name == "k"'))
    assert edit.data.index(b"'z'") < edit.data.index(b'"k"')


def test_what_a_catch_all_has_taken_is_refused():
    data = (
        b"def get(name):\n    if name:\n        return 0\n    elif name == 'a':\n        return 1\n"
    )
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, entry('name == "k"'))
    assert refusal.value.code == "registry_shadowed"
    assert refusal.value.message.startswith("pkg/a.py:2: ")


def test_overloads_are_passed_over():
    data = (
        b"@overload\ndef get(name: int) -> int: ...\n@t.overload\ndef get(name: str) -> str: ...\n"
    )
    data += b"def get(name):\n    if name == 'a':\n        return 2\n    return 3\n"
    assert add_entry(data, entry('name == "k"')).line == 8

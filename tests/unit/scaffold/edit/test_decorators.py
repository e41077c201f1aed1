"""Decorated definitions: what the corpus does not show."""

from __future__ import annotations

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import TemplateError

VALUE = "def k_fn():\n    return 1\n"


def entry(key: str = "k", value: str = VALUE, code: tuple[str, ...] = ()) -> Entry:
    return Entry("pkg/a.py", "register", "decorator", key, value, code)


TWO = b"""from m import register


@register("a")
class A:
    x = 1


@other
@register("k")
def k_fn():
    return 2
    # edited
"""


def test_takes_back_by_key_whatever_the_code():
    assert remove_entry(TWO, entry()) == TWO[: TWO.index(b"\n\n@other")]
    assert remove_entry(TWO, entry("b")) == TWO


def test_reads_keys_and_knows_its_own_code():
    assert read_entries(TWO, entry()) == {"a": None, "k": None}
    same = TWO.replace(b"return 2", b"return (1)").replace(b"@other\n", b"")
    assert read_entries(same, entry()) == {"a": None, "k": VALUE}
    assert has_entry(same, entry())
    assert not has_entry(TWO, entry())
    assert read_entries(TWO, entry("", "")) == {"a": None, "k": None}


def test_other_decorators_belong_to_the_code():
    data = b"@register('k')\n@cached\ndef k_fn():\n    return 1\n"
    assert has_entry(data, entry(value="@cached\n" + VALUE))
    assert not has_entry(data, entry())


def test_a_key_may_be_code():
    data = b"from m import register, Kind\n\n\n@register(Kind.A)\ndef a(): ...\n"
    edit = add_entry(data, entry("Kind.K", code=("key",)))
    assert b"\n\n\n@register(Kind.K)\ndef k_fn():\n" in edit.data
    assert edit.line == 8
    assert remove_entry(edit.data, entry("Kind.K", code=("key",))) == data


@pytest.mark.parametrize("value", ["x = 1", "def f(:", "def a(): ...\ndef b(): ...\n"])
def test_what_is_no_definition_is_a_fault_of_the_template(value: str):
    with pytest.raises(TemplateError):
        add_entry(TWO, entry("n", value))


def test_the_text_to_add_is_the_decorated_code():
    assert text_to_add(entry()) == '@register("k")\ndef k_fn():\n    return 1'

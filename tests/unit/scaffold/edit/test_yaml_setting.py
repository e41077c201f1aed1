"""One value of a YAML file: what is set, what is refused, and that taking back gives the bytes."""

from __future__ import annotations

import pytest

from scaffold.edit.setting import Setting
from scaffold.edit.yaml_setting import find_value, set_value, take_back
from scaffold.errors import RegistryError

FILE = "grpo.yaml"


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("run:\n  fn: a  # yours\n  b: 1\n", "run.fn", "p.q", "run:\n  fn: p.q  # yours\n  b: 1\n"),
        ("# x\na: {b: 1} # y\r\n", "a", "{c: 2}", "# x\na: {c: 2} # y\r\n"),
        ("run:\n  'fn' :   \"a\"", "run.fn", "p", "run:\n  'fn' :   p"),
        ("run:\n  b: 1\n\nc: 2\n", "run.fn", "p.q", "run:\n  b: 1\n  fn: p.q\n\nc: 2\n"),
        ("a:\n  b:\n    c: 1\n    d: 2\n", "a.b.d", "3", "a:\n  b:\n    c: 1\n    d: 3\n"),
    ],
)
def test_sets_one_value_and_takes_it_back(before: str, key: str, value: str, after: str):
    data = before.encode()
    was = find_value(data, FILE, key)[1]
    setting = Setting(FILE, key, value, was)
    edited, line = set_value(data, setting)
    assert edited == after.encode()
    assert value in after.splitlines()[line - 1]
    assert set_value(edited, setting)[0] == edited
    assert take_back(edited, setting) == data
    assert take_back(data, setting) == data, "another value is a person's, and stays"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("run:\n  fn:\n    x: 1\n", "not a single piece of text"),
        ("run:\n  fn: |\n    x\n", "not a single piece of text"),
        ("run:\n  fn: {a: 1,\n    b: 2}\n", "not a single piece of text"),
        ("run:\n  fn: &x a\n", "an anchor"),
        ("run:\n  fn: a\n  fn: b\n", "twice"),
        ("run: {fn: a}\n", "'run' was found|in brackets"),
        ("run:\n  fn: {{ name }}\n", "template code|layout"),
    ],
)
def test_refuses_what_is_not_one_piece_on_one_line(text: str, reason: str):
    with pytest.raises(RegistryError, match=reason) as refusal:
        set_value(text.encode(), Setting(FILE, "run.fn", "p.q"))
    assert refusal.value.message.startswith(FILE)

"""One value of a YAML file: what is set, what is refused, and that taking back gives the bytes."""

from __future__ import annotations

import pytest

from scaffold.edit import yaml_setting
from scaffold.edit.setting import Setting
from scaffold.edit.yaml_setting import find_value, set_value, take_back, take_back_all
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


@pytest.mark.parametrize("step", [1, -1, 3])
@pytest.mark.parametrize("values", ["abc", "aba", "abab"])
def test_settings_over_one_another_are_taken_back_in_any_order(step: int, values: str) -> None:
    data = edited = b"run:\n  fn: first  # yours\n"
    made: list[Setting] = []
    for key, value in [*(("run.fn", value) for value in values), ("run.new", "1")]:
        made.append(Setting(FILE, key, value, find_value(edited, FILE, key)[1]))
        edited, _ = set_value(edited, made[-1])
    order = [made[i * step % len(made)] for i in range(len(made))]
    assert take_back_all(edited, order) == data


def test_settings_that_a_person_changed_stay() -> None:
    data = b"run:\n  fn: mine\n"
    assert take_back_all(data, [Setting(FILE, "run.fn", "a", "first")]) == data


@pytest.mark.parametrize("count", [50, 500])
def test_taking_back_reads_the_file_as_often_for_many_settings(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    reads = []
    read = yaml_setting.read_yaml
    monkeypatch.setattr(yaml_setting, "read_yaml", lambda lines: reads.append(1) or read(lines))
    made = [Setting(FILE, "run.fn", str(i), str(i - 1)) for i in range(1, count + 1)]
    data = take_back_all(f"run:\n  fn: {count}\n".encode(), made)
    assert data == b"run:\n  fn: 0\n"
    assert len(reads) < 5


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

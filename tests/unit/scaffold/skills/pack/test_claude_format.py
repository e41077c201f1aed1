from __future__ import annotations

import pytest

from scaffold.errors import ScaffoldError
from scaffold.skills.pack.clients import for_claude

SKILL = b"""---
name: add-thing
description: Adds a thing.
metadata:
  author: us
  claude-argument-hint: "NAME"
  claude-model: opus
---

# Body
--- not front matter
"""


def test_the_body_stays_and_claude_gets_its_keys() -> None:
    head, body = SKILL.split(b"---\n\n", 1)
    expected = head + b'argument-hint: "NAME"\nmodel: opus\n---\n\n' + body
    assert for_claude(SKILL, "x") == expected


@pytest.mark.parametrize(
    "data",
    [
        b"---\nname: x\n---\nbody\n",
        b"---\r\nname: x\r\nmetadata:\r\n  author: y\r\n---\r\nbody\r\n",
        b"---\nname: x\nmetadata:\n  author: y\nlicense: claude-none\n---\n",
        b"---\nname: x\nmetadata: claude-none\n---\n",
        b"---\nname: x\n---",
    ],
)
def test_without_such_keys_nothing_changes(data: bytes) -> None:
    assert for_claude(data, "x") == data


@pytest.mark.parametrize(
    ("row", "rendered"),
    [
        (b"  claude-argument-hint: NAME [--x a|b]  # y\n", b"argument-hint: NAME [--x a|b]  # y\n"),
        (b'  claude-disable-model-invocation: "true"\n', b"disable-model-invocation: true\n"),
        (b"  claude-user-invocable: 'false'\n", b"user-invocable: false\n"),
        (b'  claude-maxTurns: "3"\n', b"maxTurns: 3\n"),
        (b"  claude-argument-hint: >-\n    NAME\n    more\n", b"argument-hint: NAME more\n"),
        (b"  'claude-model': opus\n", b"model: opus\n"),
    ],
    ids=["plain", "true", "false", "number", "folded", "quoted key"],
)  # fmt: skip
def test_a_row_is_taken_as_written_or_as_the_value_that_it_is(row: bytes, rendered: bytes) -> None:
    source = b"---\nname: x\nmetadata:\n" + row
    assert for_claude(source + b"---\n", "x") == source + rendered + b"---\n"


def test_a_flow_mapping_is_read_and_the_line_ends_stay() -> None:
    source = b"---\r\nname: x\r\nmetadata: {claude-model: opus}\r\n"
    assert for_claude(source + b"---\r\nb\r\n", "x") == source + b"model: opus\r\n---\r\nb\r\n"


@pytest.mark.parametrize("data", [b"", b"# Body\n", b"---\nname: x\n", b"text\n---\n---\n"])
def test_a_skill_without_front_matter_is_refused(data: bytes) -> None:
    with pytest.raises(ScaffoldError, match="where has no front matter") as caught:
        for_claude(data, "where")
    assert caught.value.code == "skill_invalid"

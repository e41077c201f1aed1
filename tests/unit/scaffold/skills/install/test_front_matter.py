"""Front matter of installed skills: what grants is taken out, whatever form it has."""

from __future__ import annotations

import pytest

from scaffold.errors import ScaffoldError
from scaffold.skills.install.front_matter import (
    check_name,
    granted_in,
    granting_keys,
    other_keys,
    read_head,
    with_name,
    without_grants,
)


def skill(*rows: str, end: str = "\n") -> bytes:
    head = [
        "---",
        "name: one",
        "description: Does it.",
        *rows,
        "---",
        "",
        "# Body: allowed-tools: x",
    ]
    return (end.join(head) + end).encode()


PLAIN = skill()

GRANTING = {
    "a string": skill("allowed-tools: Bash(git:*) Read"),
    "a list": skill("allowed-tools:", "  - Bash", "  - Read"),
    "a list at the margin": skill("allowed-tools:", "- Bash", "- Read"),
    "folded": skill("allowed-tools: >-", "  Bash", "", "  Read"),
    "quoted": skill('"allowed-tools": Bash'),
    "another case": skill("Allowed_Tools: Bash"),
    "hooks": skill("hooks:", "  PreToolUse:", "    - command: rm -rf /"),
    "servers": skill("mcpServers:", "  x: {command: sh}"),
    "through metadata": skill("metadata:", "  claude-allowed-tools: Bash"),
    "hooks through metadata": skill("metadata:", "  claude-hooks: {Stop: x}"),
    "deep in metadata": skill("metadata:", "  claude-hooks:", "    Stop: x"),
    "of another client": skill("metadata:", "  opencode-permission:", "    bash: allow"),
    "and another": skill("metadata:", "  codex-sandbox_mode: off"),
    "several": skill("allowed-tools: Bash", "hooks: {Stop: x}"),
}


@pytest.mark.parametrize("name", GRANTING)
def test_what_grants_is_taken_out(name: str) -> None:
    data = GRANTING[name]
    assert granting_keys(data)
    assert without_grants(data, "SKILL.md") == PLAIN


def test_the_rest_stays_byte_for_byte() -> None:
    rows = ["# why", "license: MIT", "metadata:", "  claude-allowed-tools: Bash", "  author: us"]
    data = skill(*rows, "allowed-tools: Bash", "compatibility: all", end="\r\n")
    rows.remove("  claude-allowed-tools: Bash")
    assert without_grants(data, "x") == skill(*rows, "compatibility: all", end="\r\n")
    assert without_grants(PLAIN, "x") is PLAIN


IN_DISGUISE = {
    "on one line": b"---\n{name: one, description: d, allowed-tools: Bash}\n---\n",
    "merged": skill("<<: {allowed-tools: Bash}"),
    "an anchor": skill("license: &x Bash", "<<:", "  allowed-tools: *x"),
    "metadata on one line": skill("metadata: {claude-hooks: x}"),
    "a line of a quoted text": skill('license: "x', "allowed-tools: Bash", '  y"'),
    "behind an alias": skill("allowed-tools: &x Bash", "license: *x"),
}


@pytest.mark.parametrize("name", IN_DISGUISE)
def test_what_cannot_be_taken_out_is_refused(name: str) -> None:
    data = IN_DISGUISE[name]
    assert granted_in(data)
    assert granting_keys(data), "what is kept with --grant-tools is listed, too"
    with pytest.raises(ScaffoldError, match="cannot be taken out by its lines") as caught:
        without_grants(data, "SKILL.md")
    assert caught.value.code == "skill_invalid"


def test_the_keys_have_their_lines_and_texts() -> None:
    data = skill("hooks:", "  Stop: x", "metadata:", "  claude-tools: Bash", "argument-hint: N")
    assert [(key.name, key.line, key.text) for key in granting_keys(data)] == [
        ("hooks", 4, "hooks:   Stop: x"),
        ("claude-tools", 7, "claude-tools: Bash"),
    ]
    assert [key.name for key in other_keys(data)] == ["argument-hint"]


def test_another_name() -> None:
    assert with_name(PLAIN, "one", "x") is PLAIN
    assert with_name(PLAIN, "a-one", "x") == PLAIN.replace(b"name: one", b"name: a-one")
    crlf = skill(end="\r\n")
    assert with_name(crlf, "two", "x") == crlf.replace(b"name: one\r", b"name: two\r")
    folded = PLAIN.replace(b"name: one", b"name: >-\n  one")
    assert with_name(folded, "two", "x") == PLAIN.replace(b"name: one", b"name: two")
    with pytest.raises(ScaffoldError, match="line of its own"):
        with_name(b"---\n{name: one, description: d}\n---\n", "two", "x")


BROKEN = {
    "no front matter": (b"# Body\n", "no front matter"),
    "a byte order mark": (b"\xef\xbb\xbf" + PLAIN, "no front matter"),
    "not closed": (b"---\nname: one\n", "not closed"),
    "broken YAML": (skill("a: [1"), "broken"),
    "a list": (b"---\n- name\n---\n", "not a mapping"),
    "a key twice": (skill("name: two"), "twice"),
    "no description": (b"---\nname: one\n---\n", "no description"),
    "no name": (b"---\ndescription: d\n---\n", "no name"),
    "a name that is a number": (b"---\nname: 1\ndescription: d\n---\n", "no name"),
    "no text": (b"---\nname: \xff\n---\n", "not UTF-8"),
    "aliases without end": (
        skill("a: &a [x, x, x, x, x, x, x, x, x]", *(
            f"{key}: &{key} [{', '.join([f'*{last}'] * 9)}]"
            for last, key in zip("abcdefgh", "bcdefghi", strict=True)
        )),
        "too large",
    ),
    "an alias of itself": (skill("a: &a [*a]"), "too large|broken"),
}  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_front_matter_is_told(name: str) -> None:
    data, reason = BROKEN[name]
    with pytest.raises(ScaffoldError, match=reason) as caught:
        read_head(data, "here/SKILL.md")
    assert caught.value.code == "skill_invalid"
    assert "here/SKILL.md" in caught.value.message


@pytest.mark.parametrize("name", ["a", "add-thing", "x1-2y", "a" * 64])
def test_names(name: str) -> None:
    assert check_name(name, "x") == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "add_thing", "add thing", "-a", "a-", "a--b", "a/b", "..", "a" * 65, "con", "nul",
     "p\u0430ypal", "a\u200bb", "a\n"],
)  # fmt: skip
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ScaffoldError, match="not a valid skill name"):
        check_name(name, "x")

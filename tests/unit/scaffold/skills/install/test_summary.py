"""The list of what a skill brings: whole at first, and then only what is not as it was."""

from __future__ import annotations

from dataclasses import replace

from scaffold.skills.install.lock import LockedFile
from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.run import compare, listing, permissions_json
from tests.unit.scaffold.skills.install.test_lock import FULL

SCRIPT = Permission("script", "run.sh", 1, "#!/bin/sh")
TOOLS = Permission("tools", "SKILL.md", 4, "allowed-tools: Bash", "dropped")
SKILL = replace(
    FULL,
    permissions=(SCRIPT, TOOLS),
    files=(
        LockedFile(".agents/skills/acme-one/run.sh", "a" * 64),
        LockedFile(".claude/skills/acme-one/run.sh", "a" * 64),
    ),
)


def test_at_first_everything_is_new() -> None:
    rows = compare(None, SKILL)
    assert [change for _, change in rows] == ["new", "new"]
    assert listing("one", rows, is_update=False).splitlines() == [
        "one brings:",
        "  script       run.sh:1  #!/bin/sh",
        "  tools        SKILL.md:4  allowed-tools: Bash  (dropped; --grant-tools keeps it)",
    ]
    assert listing("one", [], is_update=False) == (
        "one brings no scripts, run bits, tools, hidden text\n"
    )


def test_then_only_what_is_not_as_it_was() -> None:
    moved = replace(SCRIPT, line=3)
    assert [change for _, change in compare(SKILL, replace(SKILL, permissions=(moved, TOOLS)))] == [
        "same",
        "same",
    ]
    kept = replace(TOOLS, state="")
    other = replace(SKILL.files[0], sha256="b" * 64)
    later = replace(SKILL, permissions=(SCRIPT, kept), files=(other, SKILL.files[1]))
    rows = compare(SKILL, later)
    assert listing("one", rows, is_update=True).splitlines() == [
        "one changes what it brings:",
        "  ~ script       run.sh:1  #!/bin/sh  (its content)",
        "  + tools        SKILL.md:4  allowed-tools: Bash",
        "  - tools        SKILL.md:4  allowed-tools: Bash  (dropped; --grant-tools keeps it)",
    ]
    assert [row["change"] for row in permissions_json(rows)] == ["changed", "new", "gone"]
    assert listing("one", compare(SKILL, SKILL), is_update=True) == (
        "one brings the same as before\n"
    )


def test_no_terminal_is_sent_what_it_obeys() -> None:
    evil = Permission("script", "a\x1b[2J", 1, "#!\u202e/bin/sh")
    text = listing("one", [(evil, "new")], is_update=False)
    assert text.count("\n") == 2
    assert "\x1b" not in text
    assert "\u202e" not in text

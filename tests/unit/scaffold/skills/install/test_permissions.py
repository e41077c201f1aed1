"""What a skill brings: every kind is listed with its file and line, and nothing else is."""

from __future__ import annotations

import pytest

from scaffold.skills.install.permissions import Permission, find_permissions
from scaffold.skills.install.source_tree import SkillFile
from tests.unit.scaffold.skills.install.conftest import SKILL

HEAD = SKILL.format(name="one")


def rows(files: dict[str, str | bytes], *, grant: bool = False, allowed: tuple[str, ...] = ()):
    given = {
        path: SkillFile(data if isinstance(data, bytes) else data.encode(), False)
        for path, data in files.items()
    }
    found = find_permissions(given, grant_tools=grant, allowed=allowed)
    return [(row.kind, f"{row.file}:{row.line}", row.what, row.state) for row in found]


@pytest.mark.parametrize(
    "files",
    [
        {"SKILL.md": HEAD},
        {"SKILL.md": HEAD + "Wow!`code` and `a`!\n```bash\necho hello\n```\n"},
        {"SKILL.md": HEAD + "\u26a0\ufe0f caf\u00e9 \u6dfb\u52a0\n", "references/a.md": "# A\n"},
        {"SKILL.md": HEAD, "assets/data.json": "{}", "LICENSE": "text"},
    ],
)
def test_plain_skills_bring_nothing(files: dict[str, str | bytes]) -> None:
    assert rows(files) == []


def test_scripts_programs_and_other_binaries() -> None:
    files: dict[str, str | bytes] = {
        "SKILL.md": HEAD,
        "scripts/a.py": "print()",
        "scripts/b": "#!/usr/bin/env node\nx",
        "scripts/c.sh": "",
        "d.exe": b"MZ\x90\0",
        "e": b"\x7fELF\x02\0",
        "f.png": b"\x89PNG\r\n\x1a\n\0",
        "g.md": b"caf\xe9",
    }
    assert [row[:3] for row in rows(files)] == [
        ("program", "d.exe:1", "machine code, which cannot be reviewed"),
        ("program", "e:1", "machine code, which cannot be reviewed"),
        ("binary", "f.png:1", "no UTF-8 text"),
        ("binary", "g.md:1", "no UTF-8 text"),
        ("script", "scripts/a.py:1", "a file *.py"),
        ("script", "scripts/b:1", "#!/usr/bin/env node"),
        ("script", "scripts/c.sh:1", "a file *.sh"),
    ]


def test_run_bits() -> None:
    given = {"SKILL.md": SkillFile(HEAD.encode(), True)}
    assert find_permissions(given, grant_tools=False) == [
        Permission("executable", "SKILL.md", 1, "has its run bit")
    ]


def test_what_it_grants_itself_is_dropped_unless_kept() -> None:
    head = HEAD.replace("---\n\n", "allowed-tools: Bash(git:*)\nmodel: x\n---\n\n")
    dropped = [
        ("tools", "SKILL.md:4", "allowed-tools: Bash(git:*)", "dropped"),
        ("key", "SKILL.md:5", "model: x", ""),
    ]
    assert rows({"SKILL.md": head}) == dropped
    assert rows({"SKILL.md": head}, grant=True)[0][3] == ""


def test_commands_that_run_when_it_is_called() -> None:
    text = "- state: !`git status`\n!`ls`\nx!`no`\n```!\nmake\n```\n"
    assert [row[:3] for row in rows({"SKILL.md": HEAD + text, "other.md": text})] == [
        ("command", "SKILL.md:7", "git status"),
        ("command", "SKILL.md:8", "ls"),
        ("command", "SKILL.md:10", "a block that is run"),
    ]


def test_a_skill_inside_is_a_skill() -> None:
    inner = HEAD.replace("---\n\n", "hooks: {Stop: x}\n---\n\n")
    assert rows({"SKILL.md": HEAD, "assets/skill.md": inner}) == [
        ("nested skill", "assets/skill.md:1", "some clients list it as a separate skill", ""),
        ("tools", "assets/skill.md:4", "hooks: {Stop: x}", "dropped"),
    ]


def test_generated_blocks() -> None:
    text = "\n<!-- scaffold:begin output 'make it' inputs=* -->\nx\n<!-- scaffold:end -->\n"
    assert rows({"SKILL.md": HEAD, "a.MD": text, "b.txt": text}) == [
        ("block", "a.MD:2", "scaffold:begin output make it", "dropped")
    ]


def test_hidden_text_is_refused_where_it_can_instruct() -> None:
    tags = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    files: dict[str, str | bytes] = {
        "SKILL.md": HEAD + f"x{tags}\n",
        "a.py": "a\u200bb = p\u0430y",
    }
    assert rows(files, allowed=("SKILL.md",))[0][3] == ""
    assert rows(files) == [
        ("hidden text", "SKILL.md:7", "tags that spell 'obey'", "refused"),
        ("script", "a.py:1", "a file *.py", ""),
        ("hidden text", "a.py:1", "U+200B zero width space", ""),
        ("look-alike", "a.py:1", "'p\\u0430y' mixes Latin and Cyrillic letters", ""),
    ]


def test_long_texts_are_cut() -> None:
    head = HEAD.replace("---\n\n", f"allowed-tools: {'Bash ' * 500}\n---\n\n")
    ((_, _, what, _),) = rows({"SKILL.md": head})
    assert len(what) < 200
    assert what.endswith("characters)")


def test_a_byte_that_is_no_text_hides_nothing() -> None:
    tags = "".join(chr(0xE0000 + ord(char)) for char in "obey").encode()
    for stray in (b"\0", b"\xff"):
        files: dict[str, str | bytes] = {
            "SKILL.md": HEAD,
            "a.md": b"a\n" + stray + tags,
            "b": b"\x89PNG" + stray + tags,
        }
        hidden = [row for row in rows(files) if row[0] == "hidden text"]
        assert [(row[1], row[3]) for row in hidden] == [("a.md:2", "refused"), ("b:1", "refused")]
    assert rows({"SKILL.md": HEAD.encode() + b"a\0b"})[-1][3] == "refused"


def test_a_picture_is_no_hidden_text() -> None:
    data = b"\x89PNG\r\n" + bytes(range(256)) * 40 + "\u202e\u200b\ufe0f".encode()
    assert [row[0] for row in rows({"SKILL.md": HEAD, "a.png": data})] == ["binary"]

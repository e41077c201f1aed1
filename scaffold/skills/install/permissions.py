"""What a skill brings that can act, or that a reader does not see; listed before it is written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from scaffold.skills.install.heads import granting_keys, other_keys
from scaffold.skills.install.hidden import hidden_text, look_alikes
from scaffold.skills.install.tree import SKILL_FILE, SkillFile

Kind = Literal[
    "script",
    "executable",
    "program",
    "binary",
    "tools",
    "command",
    "key",
    "nested skill",
    "hidden text",
    "look-alike",
]

_SCRIPTS = frozenset(
    {".bash", ".bat", ".cjs", ".cmd", ".fish", ".js", ".jsx", ".lua", ".mjs", ".php", ".pl", ".ps1"}
    | {".psm1", ".py", ".pyw", ".r", ".rb", ".sh", ".ts", ".tsx", ".vbs", ".zsh", ".ksh", ".csh"}
    | {".awk", ".applescript", ".command", ".go", ".groovy", ".jl", ".swift", ".tcl", ".rs"}
)
_PROGRAMS = (
    b"\x7fELF",
    b"MZ",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\0asm",
)
"""Source: the first bytes of ELF, PE, Mach-O, Java and WebAssembly files."""

# Claude Code runs these when the skill is called, before the model sees the text.
_COMMAND = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`")
_COMMAND_BLOCK = re.compile(r"^\s*```!")
_SHOWN = 160


@dataclass(frozen=True)
class Permission:
    """Is one thing that a skill may do, or hides.

    Args:
        kind: What it is.
        file: The file, relative to the skill's folder.
        line: Its line, from 1.
        what: The text that shows it.
        state: "" where it is installed, "dropped" where it is taken out before, "refused" where it
            keeps the skill from being installed.
    """

    kind: Kind
    file: str
    line: int
    what: str
    state: Literal["", "dropped", "refused"] = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Returns what stays the same when lines move."""
        return self.kind, self.file, self.what


def find_permissions(
    files: Mapping[str, SkillFile], *, grant_tools: bool, allowed: Iterable[str] = ()
) -> list[Permission]:
    """Returns all that a skill brings that a person wants to know of, by file and line.

    Args:
        files: The skill as its author wrote it.
        grant_tools: Whether what it grants itself is left in.
        allowed: Files whose hidden text is agreed to.
    """
    found: list[Permission] = []
    for path, file in sorted(files.items()):
        found += _of_file(path, file)
        text = _text_of(file.data)
        if text is not None:
            found += _of_text(path, text, is_allowed=path in allowed)
        if posixpath.basename(path).lower() == SKILL_FILE.lower() and text is not None:
            found += _of_skill_file(path, file.data, text, grant_tools)
    return found


def is_skill_file(path: str) -> bool:
    """Tells whether a client may take a file for a skill, wherever in the folder it lies."""
    return posixpath.basename(path).lower() == SKILL_FILE.lower()


def _of_file(path: str, file: SkillFile) -> Iterator[Permission]:
    head = file.data[:256]
    suffix = posixpath.splitext(path)[1].lower()
    if head.startswith(_PROGRAMS):
        yield Permission("program", path, 1, "machine code, which nobody can read")
    elif head.startswith(b"#!"):
        first = head.split(b"\n")[0].decode("utf-8", "replace").strip()
        yield Permission("script", path, 1, first)
    elif suffix in _SCRIPTS:
        yield Permission("script", path, 1, f"a file *{suffix}")
    elif _text_of(file.data) is None:
        yield Permission("binary", path, 1, "no UTF-8 text")
    if file.executable:
        yield Permission("executable", path, 1, "has its run bit")


def _of_text(path: str, text: str, *, is_allowed: bool) -> Iterator[Permission]:
    for hidden in hidden_text(text):
        is_refused = hidden.can_instruct and not is_allowed
        state = "refused" if is_refused else ""
        yield Permission("hidden text", path, hidden.line, hidden.what, state)
    for line, word in look_alikes(text):
        yield Permission("look-alike", path, line, f"{word!a} mixes Latin and Cyrillic letters")


def _of_skill_file(path: str, data: bytes, text: str, grant_tools: bool) -> Iterator[Permission]:
    if path != SKILL_FILE:
        yield Permission("nested skill", path, 1, "some clients take it for a skill of its own")
    state = "" if grant_tools else "dropped"
    for key in granting_keys(data):
        yield Permission("tools", path, key.line, _shortened(key.text), state)
    for key in other_keys(data):
        yield Permission("key", path, key.line, _shortened(key.text))
    for number, row in enumerate(text.split("\n"), 1):
        for command in _COMMAND.findall(row):
            yield Permission("command", path, number, _shortened(command))
        if _COMMAND_BLOCK.match(row):
            yield Permission("command", path, number, "a block that is run")


def _text_of(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"

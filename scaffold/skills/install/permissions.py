"""What a skill brings that can act, or that a reader does not see; listed before it is written."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.blocks.markers import parse_blocks
from scaffold.skills.install.front_matter import granting_keys, other_keys
from scaffold.skills.install.hidden_text import hidden_runs, hidden_text, look_alikes
from scaffold.skills.install.source_tree import SKILL_FILE, SkillFile

Kind = Literal[
    "script",
    "executable",
    "program",
    "binary",
    "tools",
    "command",
    "key",
    "nested skill",
    "block",
    "hidden text",
    "look-alike",
]

_SCRIPTS = frozenset(
    {".bash", ".bat", ".cjs", ".cmd", ".fish", ".js", ".jsx", ".lua", ".mjs", ".php", ".pl", ".ps1"}
    | {".psm1", ".py", ".pyw", ".r", ".rb", ".sh", ".ts", ".tsx", ".vbs", ".zsh", ".ksh", ".csh"}
    | {".awk", ".applescript", ".command", ".go", ".groovy", ".jl", ".swift", ".tcl", ".rs"}
)
_TEXTS = frozenset(
    {".cfg", ".css", ".csv", ".htm", ".html", ".ini", ".j2", ".json", ".jsonl", ".markdown", ".md"}
    | {".mdx", ".rst", ".svg", ".tmpl", ".toml", ".tsv", ".txt", ".xml", ".yaml", ".yml"}
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
_COMMAND = lazy_re(r"(?:^|(?<=\s))!`([^`\n]+)`")
_COMMAND_BLOCK = lazy_re(r"^\s*```!")
_SHOWN = 160


@dataclass(frozen=True)
class Permission:
    """One thing that a skill may do, or hides.

    Args:
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
        """What stays the same when lines move."""
        return self.kind, self.file, self.what


def find_permissions(
    files: Mapping[str, SkillFile], *, grant_tools: bool, allowed: Iterable[str] = ()
) -> list[Permission]:
    """Return all that a skill brings that a person wants to know of, by file and line.

    Args:
        grant_tools: Whether what it grants itself is left in.
    """
    found: list[Permission] = []
    for path, file in sorted(files.items()):
        found += _of_file(path, file)
        found += _of_text(path, file.data, is_allowed=path in allowed)
        if is_markdown(path):
            found += _blocks(path, file.data)
        # Clients differ in how deep they look, so a SKILL.md counts in every folder.
        if is_skill_file(path) and _is_utf8(file.data):
            found += _of_skill_file(path, file.data, grant_tools)
    return found


def is_skill_file(path: str) -> bool:
    """Return whether a client may take a file for a skill, wherever in the folder it lies."""
    return posixpath.basename(path).lower() == SKILL_FILE.lower()


def is_markdown(path: str) -> bool:
    """Return whether `scaffold skills sync` may look for generated blocks in a file."""
    return posixpath.splitext(path)[1].lower() in (".md", ".markdown", ".mdx")


def _blocks(path: str, data: bytes) -> Iterator[Permission]:
    for block in parse_blocks(data.decode("utf-8", "replace")):
        words = " ".join(("scaffold:begin", block.kind, *block.words))
        yield Permission("block", path, block.line, _shortened(words), "dropped")


def _of_file(path: str, file: SkillFile) -> Iterator[Permission]:
    head = file.data[:256]
    suffix = posixpath.splitext(path)[1].lower()
    # By content first: the ending of a name promises nothing.
    if head.startswith(_PROGRAMS):
        yield Permission("program", path, 1, "machine code, which cannot be reviewed")
    elif head.startswith(b"#!"):
        first = head.split(b"\n")[0].decode("utf-8", "replace").strip()
        yield Permission("script", path, 1, first)
    elif suffix in _SCRIPTS:
        yield Permission("script", path, 1, f"a file *{suffix}")
    elif b"\0" in file.data or not _is_utf8(file.data):
        yield Permission("binary", path, 1, "no UTF-8 text")
    if file.executable:
        yield Permission("executable", path, 1, "has its run bit")


def _of_text(path: str, data: bytes, *, is_allowed: bool) -> Iterator[Permission]:
    """Yield what a file hides. A byte that makes it no text keeps nobody from reading the rest."""
    text = data.decode("utf-8", "replace")
    is_text = b"\0" not in data and _is_utf8(data)
    # One stray byte must not exempt a file from the search for hidden text.
    is_read = is_text or posixpath.splitext(path)[1].lower() in _TEXTS | _SCRIPTS
    for hidden in hidden_text(text) if is_read else hidden_runs(text):
        state = "refused" if hidden.can_instruct and not is_allowed else ""
        yield Permission("hidden text", path, hidden.line, hidden.what, state)
    for line, word in look_alikes(text) if is_read else ():
        yield Permission("look-alike", path, line, f"{word!a} mixes Latin and Cyrillic letters")


def _of_skill_file(path: str, data: bytes, grant_tools: bool) -> Iterator[Permission]:
    if path != SKILL_FILE:
        yield Permission("nested skill", path, 1, "some clients list it as a separate skill")
    state = "" if grant_tools else "dropped"
    for key in granting_keys(data):
        yield Permission("tools", path, key.line, _shortened(key.text), state)
    for key in other_keys(data):
        yield Permission("key", path, key.line, _shortened(key.text))
    for number, row in enumerate(data.decode().split("\n"), 1):
        for command in _COMMAND.findall(row):
            yield Permission("command", path, number, _shortened(command))
        if _COMMAND_BLOCK.match(row):
            yield Permission("command", path, number, "a block that is run")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"

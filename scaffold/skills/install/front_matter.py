"""The front matter of a skill that is installed: its name, and the keys that grant something.

Keys are taken out line by line, so that every other line stays as its author wrote it, and the
result is read again: text that means one thing to YAML and looks like another is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from scaffold.analysis.files.front_matter import FrontMatter, read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError
from scaffold.templating.names import DEVICES

GRANTS = frozenset(
    {"allowedtools", "approvalpolicy", "hooks", "mcp", "mcpservers", "permission", "permissionmode"}
    | {"permissions", "sandboxmode", "shell", "tools"}
)
"""Keys by which a client lets a skill do something unasked, without case, dashes and underscores.

Source: the front matter of skills, commands and subagents as Claude Code, Codex and OpenCode
read it.
"""

SPEC_KEYS = frozenset(
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"]
)
"""Source: the Agent Skills specification."""

MAX_NAME = 64
NAME = lazy_re(r"[a-z0-9]+(-[a-z0-9]+)*")

# Values of a front matter, aliases written out.
_MAX_NODES = 5000
# `hooks:`, `"allowed-tools" :`, `? tools:` at the margin.
_LINE_KEY = lazy_re(r"""[?"' ]{0,2}([A-Za-z][A-Za-z _-]*)["']?[ \t]*:""")
# `claude-allowed-tools`, a key of `metadata`; then its row, which is indented.
_CLIENT_KEY = lazy_re(r"(?:claude|codex|opencode)-(.+)")
_CLIENT_ROW = lazy_re(r"[ \t]+((?:claude|codex|opencode)-([A-Za-z_-]+))[ \t]*:")


@dataclass(frozen=True)
class Key:
    """A key of a front matter with the lines that it takes up: from ``line`` before ``end``."""

    name: str
    line: int
    end: int
    text: str


def read_head(data: bytes, where: str) -> FrontMatter:
    """Return the front matter of a SKILL.md, which has a name and a description.

    Raises:
        ScaffoldError: It is broken, or lacks one of them.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _invalid(f"{where} is not UTF-8 text") from error
    head = read_front_matter(text)
    if head.problem is not None:
        raise _invalid(f"{where}:{head.problem_line}: {head.problem}")
    if not head.is_there:
        raise _invalid(f"{where} has no front matter", "it begins with a line ---")
    # A few lines of YAML aliases can stand for billions of values.
    if _nodes(head.fields) > _MAX_NODES:
        raise _invalid(f"{where}: the front matter is too large")
    for key in ("name", "description"):
        if not isinstance(head.fields.get(key), str) or not head.fields[key].strip():
            raise _invalid(f"{where}: the front matter has no {key}")
    return head


def check_name(name: str, where: str) -> str:
    """Return the name of a skill, which becomes the name of a folder.

    Raises:
        ScaffoldError: It is none that the specification allows, or that of a device.
    """
    # "con" and "nul" are devices on Windows, whatever folder they are in.
    if not NAME.fullmatch(name) or len(name) > MAX_NAME or name in DEVICES:
        raise _invalid(
            f"{where}: {name!r} is not a valid skill name",
            f"lower-case letters, digits and single dashes, {MAX_NAME} at most",
        )
    return name


def granting_keys(data: bytes) -> list[Key]:
    """Return the keys of a SKILL.md that let it do something unasked, its metadata's too."""
    rows, head = _split(data)
    found: list[Key] = []
    for key in _keys(rows, head):
        if _plain(key.name) in GRANTS:
            found.append(key)
        elif key.name == "metadata":
            found += _client_keys(rows, key)
    located = {key.name for key in found}
    # Flow mappings, anchors and odd indentation hide a key from the search by lines.
    in_disguise = [name for name in granted_in(data) if name not in located]
    return found + [
        # Line 2 is the first of the front matter; a range without lines, as none can be taken out.
        Key(name, 2, 2, f"{name}, not on lines of its own")
        for name in dict.fromkeys(in_disguise)
    ]


def granted_in(data: bytes) -> list[str]:
    """Return the keys that grant something by what the YAML means, however it is written.

    Clients that meet YAML they cannot read go by its lines; a line at the margin that looks like
    such a key counts as well.
    """
    rows, head = _split(data)
    metadata = head.fields.get("metadata")
    entries = cast("dict[Any, Any]", metadata) if isinstance(metadata, dict) else {}
    inner = [_CLIENT_KEY.fullmatch(str(key)) for key in entries]
    found = [key for key in head.fields if _plain(key) in GRANTS]
    found += [key[0] for key in inner if key is not None and _plain(key[1]) in GRANTS]
    # Between the two rows `---`.
    lines = [_LINE_KEY.match(row) for row in rows[1 : head.body_line - 2]]
    return found + [row[1] for row in lines if row is not None and _plain(row[1]) in GRANTS]


def is_grant(key: str) -> bool:
    """Return whether a key of a subagent's metadata lets it do something unasked.

    ``tools`` does not: it restricts a subagent, which without it has every tool.
    """
    inner = _CLIENT_KEY.fullmatch(key)
    return inner is not None and _plain(inner[1]) in GRANTS - {"tools"}


def other_keys(data: bytes) -> list[Key]:
    """Return the keys that the specification does not know, without those that grant."""
    rows, head = _split(data)
    keys = _keys(rows, head)
    return [key for key in keys if key.name not in SPEC_KEYS and _plain(key.name) not in GRANTS]


def without_grants(data: bytes, where: str) -> bytes:
    """Return a SKILL.md without the keys that let it do something unasked.

    Raises:
        ScaffoldError: They cannot be taken out by their lines.
    """
    keys = granting_keys(data)
    rows, head = _split(data)
    if not granted_in(data):
        return data
    dropped = {number for key in keys for number in range(key.line, key.end)}
    for key in _keys(rows, head):
        inner = set(range(key.line + 1, key.end))
        if key.name == "metadata" and inner and inner <= dropped:
            dropped.add(key.line)  # an empty table would be no table
    kept = [row for number, row in enumerate(rows, 1) if number not in dropped]
    found = "\n".join(kept).encode()
    names = {key.name for key in keys}
    # The result is read again: removing lines may change what the YAML around them means.
    if granted_in(found) or not _is_without(read_front_matter(found.decode()), head, names):
        raise _invalid(
            f"{where}: {granted_in(data)[0]} cannot be taken out by its lines",
            "give each key lines of its own, or keep what it grants with --grant-tools",
        )
    return found


def with_name(data: bytes, name: str, where: str) -> bytes:
    """Return a SKILL.md under another name.

    Raises:
        ScaffoldError: The name is not on lines of its own.
    """
    rows, head = _split(data)
    if head.fields["name"] == name:
        return data
    key = next(each for each in _keys(rows, head) if each.name == "name")
    # The file keeps the line ends of its author.
    end = "\r" if rows[key.line - 1].endswith("\r") else ""
    text = "\n".join([*rows[: key.line - 1], f"name: {name}{end}", *rows[key.end - 1 :]])
    after = read_front_matter(text)
    if after.problem is not None or after.fields != {**head.fields, "name": name}:
        raise _invalid(f"{where}:{key.line}: the name is not on a line of its own")
    return text.encode()


def _split(data: bytes) -> tuple[list[str], FrontMatter]:
    text = data.decode()
    return text.split("\n"), read_front_matter(text)


def _keys(rows: list[str], head: FrontMatter) -> list[Key]:
    """Return the keys at the top level, each with its lines up to the next one."""
    starts = sorted(head.lines.items(), key=lambda item: item[1])
    ends = [line for _, line in starts[1:]] + [head.body_line - 1]
    return [
        # In `{name: x, tools: y}` several keys begin on one line, so an end may not be behind its
        # start.
        Key(name, line, max(end, line + 1), " ".join(rows[line - 1 : max(end, line + 1) - 1]))
        for (name, line), end in zip(starts, ends, strict=True)
    ]


def _client_keys(rows: list[str], metadata: Key) -> list[Key]:
    """Return the entries of metadata that become granting keys in what a client reads."""
    found: list[Key] = []
    for number in range(metadata.line + 1, metadata.end):
        row = rows[number - 1]
        match = _CLIENT_ROW.match(row)
        if match is None or _plain(match[2]) not in GRANTS:
            continue
        depth = len(row) - len(row.lstrip())
        end = number + 1
        while end < metadata.end and _is_deeper(rows[end - 1], depth):
            end += 1
        text = " ".join(each.strip() for each in rows[number - 1 : end - 1])
        found.append(Key(match[1], number, end, text))
    return found


def _is_deeper(row: str, depth: int) -> bool:
    stripped = row.lstrip()
    return bool(stripped.strip()) and len(row) - len(stripped) > depth


def _is_without(after: FrontMatter, before: FrontMatter, names: set[str]) -> bool:
    """Return whether a front matter is another one without some keys, and nothing else."""
    wanted = {key: value for key, value in before.fields.items() if key not in names}
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict):
        entries = cast("dict[Any, Any]", metadata)
        left = {key: value for key, value in entries.items() if key not in names}
        wanted["metadata"] = left
        if not left:
            del wanted["metadata"]
    return after.problem is None and after.fields == wanted


def _plain(key: str) -> str:
    return re.sub(r"[-_ ]", "", key).lower()


def _nodes(value: object) -> int:
    """Count what a value comes to with its aliases written out, up to the limit and a bit more."""
    seen = 0
    left = [value]
    # Counting stops at the limit, as the full count could outlast any patience.
    while left and seen <= _MAX_NODES:
        each = left.pop()
        seen += 1
        if isinstance(each, dict):
            left += [*cast("dict[object, object]", each).values()]
        elif isinstance(each, list | tuple | set):
            left += [*cast("list[object]", each)]
    return seen


def _invalid(message: str, hint: str = "") -> ScaffoldError:
    hint = hint or "repair the skill in its source"
    return ScaffoldError(message, code="skill_invalid", hint=hint)

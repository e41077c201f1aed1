"""A SKILL.md as Claude Code reads it: the source, with the keys that Claude alone understands."""

from __future__ import annotations

import re

from scaffold.spec import ScaffoldError

_FRONT_MATTER = re.compile(
    rb"\A---\r?\n(?P<head>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_METADATA = re.compile(rb"^metadata:[ \t]*\r?\n(?P<rows>(?:[ \t]+.*(?:\r?\n|\Z))*)", re.MULTILINE)
_CLAUDE_ROW = re.compile(rb"^[ \t]+claude-(?P<row>[a-z-]+:.*?)\r?$", re.MULTILINE)


def for_claude(data: bytes, where: str) -> bytes:
    """Returns a SKILL.md as Claude Code reads it: the same, with Claude's own keys added.

    Args:
        data: The source.
        where: What to call it in messages.

    Raises:
        ScaffoldError: It does not begin with front matter between two lines ``---``.
    """
    found = _FRONT_MATTER.match(data)
    if found is None:
        raise ScaffoldError(
            f"{where} has no front matter",
            code="skill_invalid",
            hint="begin it with a line ---, the keys name and description, and a line ---",
        )
    metadata = _METADATA.search(found["head"])
    rows = _CLAUDE_ROW.findall(metadata["rows"]) if metadata else []
    end = found.end("head")
    return data[:end] + b"".join(row + b"\n" for row in rows) + data[end:]

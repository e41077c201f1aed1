"""A SKILL.md as Claude Code reads it: the source, with the keys that Claude alone understands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError

# In bytes, as all but the added keys has to stay; a mark of UTF-8 may be in front.
_FRONT_MATTER = lazy_re(
    rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?P<head>.*?)^---[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
# The key `metadata:` with its indented rows.
_METADATA = lazy_re(rb"^metadata:[ \t]*\r?\n(?P<rows>(?:[ \t]+.*(?:\r?\n|\Z))*)", re.MULTILINE)
_PLAIN = lazy_re(r"true|false|\d+")
"""Text that a client wants as a value: the specification allows strings alone in metadata."""


def for_claude(data: bytes, where: str) -> bytes:
    """Return a SKILL.md as Claude Code reads it: the same, with Claude's own keys added.

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
    # Most skills have no such key, and stay byte for byte as they are.
    if b"claude-" not in found["head"]:
        return data
    keys = client_keys(read_front_matter(found[0].decode("utf-8-sig", "replace")).fields, "claude")
    ending = b"\r\n" if found[0].endswith(b"\r\n") else b"\n"
    rows = [_row(found["head"], name, value) for name, value in keys.items()]
    end = found.end("head")
    # Appended to the head: every other byte, comments included, stays in its place.
    return data[:end] + b"".join(row + ending for row in rows) + data[end:]


def client_keys(fields: Mapping[str, Any], client: str) -> dict[str, object]:
    """Return what ``metadata.CLIENT-*`` says to one client, without the prefix."""
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    rows = cast("dict[object, object]", metadata).items()
    start = f"{client}-"
    return {str(key)[len(start) :]: each for key, each in rows if str(key).startswith(start)}


def as_value(value: object) -> object:
    """Return a value of metadata as a client wants it: "true" and "3" are no text there."""
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        return value
    return int(value) if value.isdigit() else value == "true"


def yaml_rows(head: Mapping[str, object]) -> str:
    """Return keys and values as the rows of a front matter."""
    import yaml  # costs 25 ms: a skill without such keys does without

    library: Any = yaml
    return library.safe_dump(dict(head), sort_keys=False, allow_unicode=True, width=10**6)


def _row(head: bytes, name: str, value: object) -> bytes:
    """Return one row of front matter: as its author wrote it, where that is one plain row."""
    metadata = _METADATA.search(head)
    row = rb"^[ \t]+claude-(?P<row>%b:[ \t]+(?P<value>\S.*?))[ \t]*\r?$" % re.escape(name.encode())
    written = re.search(row, metadata["rows"], re.MULTILINE) if metadata else None
    is_plain = isinstance(value, str) and not _PLAIN.fullmatch(value) and "\n" not in value
    # Block scalars, anchors and aliases mean nothing outside of their own document.
    if written and is_plain and not written["value"].startswith((b"|", b">", b"&", b"*")):
        return written["row"]
    return yaml_rows({name: as_value(value)}).rstrip("\n").encode()

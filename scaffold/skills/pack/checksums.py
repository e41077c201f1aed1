"""What sync wrote last: one row per rendered file, in the form that ``sha256sum --check`` reads.

A rendered file is a person's once it differs from its row. Two branches may both have rendered:
every row of a path counts, and the marks of a merge conflict are passed over, so that the next sync
settles the conflict by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from scaffold.analysis.lazy_re import lazy_re

RECORD = ".scaffold/skills.sums"

ROOTS = (".claude/", ".claude-plugin/", ".codex/", ".opencode/")
FILES = (".agents/plugins/marketplace.json", "opencode.json")
"""Where rendered files stand; a row that names another place is passed over."""

_ROW = lazy_re(r"(?P<digest>[0-9a-f]{64})  (?P<path>\S.*)")


def digest(data: bytes) -> str:
    """Return the hash of a file's bytes; git may have changed the ends of its lines."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def is_same_text(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two files are the same but for the ends of their lines, as git checks out."""
    if one is None or other is None or one == other:
        return one == other
    # In a binary file CR and LF are bytes like any other.
    return b"\0" not in one and one.replace(b"\r\n", b"\n") == other.replace(b"\r\n", b"\n")


def read_record(text: str) -> dict[str, frozenset[str]]:
    """Return the digests of each path that sync has written."""
    found: dict[str, set[str]] = {}
    for row in text.splitlines():
        match = _ROW.fullmatch(row)
        if match is not None and _may_be_rendered(match["path"]):
            # Both sides of an unresolved merge count as written by sync.
            found.setdefault(match["path"], set()).add(match["digest"])
    return {path: frozenset(digests) for path, digests in found.items()}


def record_text(rendered: Mapping[str, bytes]) -> bytes:
    """Return the record of rendered files."""
    return "".join(f"{digest(rendered[path])}  {path}\n" for path in sorted(rendered)).encode()


def _may_be_rendered(path: str) -> bool:
    """Return whether sync may have written here: the record is a file that anybody can write."""
    return path in FILES or (path.startswith(ROOTS) and ".." not in path.split("/"))

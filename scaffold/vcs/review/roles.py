"""What a changed file is for: source, test, document, configuration, ..."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import NamedTuple

from scaffold.analysis.files.globs import matches
from scaffold.vcs.review.languages import language_of
from scaffold.vcs.review.rule_files import FOLDER

SOURCE, OTHER = "source", "other"

_GENERATED = re.compile(
    r"@generated\b|\bDO NOT EDIT\b|\b(?:auto-?|automatically )generated (?:by|from)\b", re.I
)
# Notices of generators are at the top; further down the words may be about other files.
_HEAD_LINES = 6


class Role(NamedTuple):
    """A role with the paths by which it is known."""

    name: str
    paths: tuple[str, ...]


def role_of(path: str, text: str | None, own: tuple[Role, ...] = ()) -> str:
    """Return the role of a file.

    Args:
        path: Its path from the root.
        text: What it holds, where that is text; its first lines may mark it as generated.
        own: The repository's own roles, which come first.
    """
    # The repository's own roles win; of each list the first that matches.
    for role in (*own, *built_in_roles()):
        if matches(path, role.paths):
            return role.name
    if text is not None and _GENERATED.search(
        "\n".join(text.split("\n", _HEAD_LINES)[:_HEAD_LINES])
    ):
        return "generated"
    return SOURCE if language_of(path) is not None else OTHER


def role_names() -> tuple[str, ...]:
    """Return the names of all roles."""
    return (*(role.name for role in built_in_roles()), SOURCE, OTHER)


@cache
def built_in_roles() -> tuple[Role, ...]:
    """Return the roles that come with the tool, in the order in which they are tried."""
    table = tomllib.loads((FOLDER / "roles.toml").read_text(encoding="utf-8"))
    return tuple(Role(each["name"], tuple(each["paths"])) for each in table["role"])

"""The settings of a repository: a table below ``[tool.scaffold]`` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from typing import Any, cast

from scaffold.errors import TargetError


def read_tool_table(text: str | None, name: str) -> dict[str, Any]:
    """Return the table ``[tool.scaffold.NAME]``; an empty one where there is none.

    Args:
        text: The text of pyproject.toml; None where there is no such file.
        name: The table's last name.

    Raises:
        TargetError: The file is no TOML though it speaks to this tool. What is wrong with one that
            does not is for its own tools to say.
    """
    if text is None:
        return {}
    return inner_table(inner_table(read_project_file(text), "tool", "scaffold"), name)


def read_project_file(text: str) -> dict[str, Any]:
    """Return what a pyproject.toml holds; nothing where it is broken and not for this tool.

    Raises:
        TargetError: It is broken, and holds a table of this tool.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if "tool.scaffold" not in text:
            return {}
        raise TargetError(
            f"pyproject.toml cannot be read: {error}", code="target_invalid", hint="repair it first"
        ) from error


def inner_table(table: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the table that the names lead to; an empty one where that is no table."""
    for name in names:
        found: object = table.get(name)
        table = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return table

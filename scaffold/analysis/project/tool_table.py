"""The settings of a repository: the tables below ``[tool.scaffold]`` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from scaffold.config import FieldError, Fields
from scaffold.errors import RequestError, ScaffoldError

if TYPE_CHECKING:  # every command reads a table, and not every one lists files
    from scaffold.analysis.files.files import Files

PROJECT_FILE = "pyproject.toml"


def project_text(files: Files) -> str | None:
    """Return the text of a tree's pyproject.toml, or None where there is none to read."""
    return files.text(PROJECT_FILE) if PROJECT_FILE in files.paths else None


def read_tool_table(
    text: str | None, name: str, error: type[ScaffoldError] = RequestError
) -> Fields:
    """Return the table ``[tool.scaffold.NAME]``; an empty one where there is none.

    Args:
        text: The text of pyproject.toml; None where there is no such file.
        name: The table's last name.
        error: See `read_project_file`.
    """
    project = {} if text is None else read_project_file(text, error)
    table = inner_table(project, "tool", "scaffold", name)
    return Fields(table, f"{PROJECT_FILE} [tool.scaffold.{name}]")


def read_project_file(text: str, error: type[ScaffoldError] = RequestError) -> dict[str, Any]:
    """Return what a pyproject.toml holds; nothing where it is broken and not for this tool.

    Args:
        text: The text of the file.
        error: What a broken file with a table of this tool raises. What is wrong with any other
            file is for its own tools to report. Where status 1 means that something was found,
            it has to be a RequestError.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as found:
        if "tool.scaffold" not in text:
            return {}
        message = f"{PROJECT_FILE} cannot be read: {found}"
        raise error(message, code="target_invalid", hint="repair it first") from found


@contextmanager
def settings_errors(
    hint: str, error: type[ScaffoldError] = RequestError, *, code: str = "target_invalid"
) -> Generator[None]:
    """Raise a FieldError of the block as an error of the command.

    Args:
        hint: Where the settings are described.
        error: What to raise.
        code: Its code.
    """
    try:
        yield
    except FieldError as found:
        raise error(str(found), code=code, hint=hint) from found


def inner_table(table: Any, *names: str) -> dict[str, Any]:
    """Return the table that the names lead to; an empty one where something else is there."""
    for name in names:
        table = cast("dict[str, Any]", table).get(name) if isinstance(table, dict) else None
    return cast("dict[str, Any]", table) if isinstance(table, dict) else {}

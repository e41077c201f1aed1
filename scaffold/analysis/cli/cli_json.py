"""Descriptions of command lines: commands, options and choices as committed JSON.

Such a file has what a command line takes, so that nothing is run.
"""

from __future__ import annotations

import json
from typing import Any, cast

from scaffold.analysis.cli.commands import Command, Option
from scaffold.config import FieldError, Fields

CLI_SCHEMA = 1
"""The newest format that this version reads."""


def read_cli(text: str, where: str) -> dict[str, Command]:
    """Return the programs that a description names.

    Args:
        text: The file.
        where: What to call it in messages.

    Raises:
        FieldError: It is no JSON, newer than this version, or holds what the format does not know.
    """
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise FieldError(f"{where} must hold one JSON object")
    fields = Fields(cast("dict[str, Any]", data), where)
    fields.check_schema(CLI_SCHEMA)
    programs = [_command(each, where) for each in fields.tables("programs")]
    return {each.name: each for each in programs}


def _command(fields: Fields, where: str) -> Command:
    inner = [_command(each, where) for each in fields.tables("commands")]
    return Command(
        fields.text("name"),
        fields.text("help", ""),
        tuple(_option(each) for each in fields.tables("options")),
        # An empty group is still a group; a command without the key is none.
        {each.name: each for each in inner} if "commands" in fields.names() else None,
        f"{where} is marked as open" if fields.boolean("open", False) else "",
        where,
        bool(fields.tables("arguments")),
    )


def _option(fields: Fields) -> Option:
    metavar, choices = fields.text("metavar", ""), fields.texts("choices", ())
    return Option(
        fields.texts("names"),
        fields.text("help", ""),
        metavar,
        choices,
        fields.text("default", ""),
        1 if metavar or choices else 0,
    )

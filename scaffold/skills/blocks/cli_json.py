"""Descriptions of command lines: commands, options and choices as committed JSON.

Such a file says what a command line takes without running it. docs/en/skills-pack.md tells the
format, and `docs/reference.py` writes ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from scaffold.fields import FieldError, Fields

CLI_SCHEMA = 1
"""The newest format that this version reads."""


@dataclass(frozen=True)
class Option:
    """Is one option of a command.

    Args:
        names: How it is written, the first one being the usual: ("--style",).
        help: What it does.
        metavar: What stands for its value; "" for a flag.
        choices: The values that it takes; none for any.
        default: The value without it, as text; "" for none.
        is_repeatable: Whether it may be given several times.
        is_required: Whether it must be given.
    """

    names: tuple[str, ...]
    help: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    is_repeatable: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class Argument:
    """Is one positional argument of a command.

    Args:
        name: What the help calls it.
        is_required: Whether it must be given.
        is_repeatable: Whether several may be given.
        choices: The values that it takes; none for any.
    """

    name: str
    is_required: bool = True
    is_repeatable: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """Is one command, or a group of them.

    Args:
        name: The word that calls it.
        help: What it does.
        options: Its options.
        arguments: Its arguments, in order.
        commands: Its commands, by name.
        is_open: Whether it may have commands that the description does not know.
    """

    name: str
    help: str = ""
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    commands: Mapping[str, Command] | None = None
    is_open: bool = False

    def find(self, words: tuple[str, ...]) -> Command | None:
        """Returns the command that words lead to, or None."""
        if not words:
            return self
        inner = (self.commands or {}).get(words[0])
        return None if inner is None else inner.find(words[1:])


def read_cli(text: str, where: str) -> dict[str, Command]:
    """Returns the programs that a description names.

    Args:
        text: The file.
        where: What to call it in messages.

    Raises:
        FieldError: It is no JSON, newer than this version, or holds what the format does not know.
    """
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"{where} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise FieldError(f"{where} must hold one JSON object")
    fields = Fields(cast("dict[str, Any]", data), where)
    schema = fields.integer("schema")
    if schema > CLI_SCHEMA:
        raise FieldError(f"{where} has schema {schema}; this version reads up to {CLI_SCHEMA}")
    programs = [_command(each) for each in fields.tables("programs")]
    return {each.name: each for each in programs}


def _command(fields: Fields) -> Command:
    inner = [_command(each) for each in fields.tables("commands")]
    return Command(
        fields.text("name"),
        fields.text("help", ""),
        tuple(_option(each) for each in fields.tables("options")),
        tuple(_argument(each) for each in fields.tables("arguments")),
        {each.name: each for each in inner} if "commands" in fields.names() else None,
        fields.boolean("open", False),
    )


def _option(fields: Fields) -> Option:
    return Option(
        fields.texts("names"),
        fields.text("help", ""),
        fields.text("metavar", ""),
        fields.texts("choices", ()),
        fields.text("default", ""),
        fields.boolean("repeatable", False),
        fields.boolean("required", False),
    )


def _argument(fields: Fields) -> Argument:
    return Argument(
        fields.text("name"),
        fields.boolean("required", False),
        fields.boolean("repeatable", False),
        fields.texts("choices", ()),
    )

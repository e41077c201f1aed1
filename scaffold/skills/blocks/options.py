"""Blocks of the kind ``options``: what a command takes, from a committed description of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scaffold.analysis.cli.cli_json import read_cli
from scaffold.analysis.lazy_re import lazy_re
from scaffold.config import FieldError
from scaffold.skills.blocks.markers import Block, BlockError, table

if TYPE_CHECKING:
    from scaffold.analysis.cli.commands import Command, Option
    from scaffold.analysis.files.files import Files
    from scaffold.skills.blocks.settings import Settings

# "How long to wait. [default: 60]", as click and this tool write it.
_TOLD = lazy_re(r"(?P<text>.*?)\s*\[default: (?P<default>[^\[\]]+)\]", re.DOTALL)


def options_text(block: Block, files: Files, settings: Settings) -> str:
    """Return ``options PROGRAM COMMAND... [only=a,b] [without=a,b] [cli=PATH]`` as a table.

    Raises:
        BlockError: No description knows the command, or the command has no such option.
    """
    command = _find(block, files, settings)
    only, without = block.listed("only"), block.listed("without")
    known = {name for option in command.options for name in option.names}
    for name in (*only, *without):
        if name not in known:
            raise BlockError(f"{' '.join(block.words)} has no option {name}")
    shown = [
        option
        for option in command.options
        if (not only or set(only) & set(option.names)) and not set(without) & set(option.names)
    ]
    rows = [[_spelling(each), *_help_and_default(each)] for each in shown]
    if not any(default for _, _, default in rows):
        return table(["option", "means"], [row[:2] for row in rows])
    return table(["option", "means", "default"], rows)


def described_programs(files: Files, paths: tuple[str, ...]) -> dict[str, Command]:
    """Return every program that descriptions of command lines know.

    Raises:
        BlockError: A description is not there or cannot be read.
    """
    found: dict[str, Command] = {}
    for path in paths:
        text = files.text(path)
        if text is None:
            raise BlockError(f"the description {path} of a command line is not there")
        try:
            found |= read_cli(text, path)
        except FieldError as error:
            raise BlockError(str(error)) from error
    return found


def _find(block: Block, files: Files, settings: Settings) -> Command:
    paths = (block.options["cli"],) if "cli" in block.options else settings.cli
    if not paths:
        raise BlockError('no description of commands: cli = ["PATH"] in [tool.scaffold.skills]')
    programs = described_programs(files, paths)
    program, *words = block.words
    command = programs.get(program)
    found = None if command is None else command.find(tuple(words))
    if found is None:
        raise BlockError(f"{', '.join(paths)} has no command {' '.join(block.words)!r}")
    return found


def _spelling(option: Option) -> str:
    value = " | ".join(option.choices) if option.choices else option.metavar
    return f"`{' / '.join(option.names)}{' ' if value else ''}{value}`"


def _help_and_default(option: Option) -> tuple[str, str]:
    """Return what an option means and its default, which a help may tell at its end."""
    found = _TOLD.fullmatch(option.help)
    text, told = (found["text"], found["default"]) if found else (option.help, "")
    # The help has the default as people write it: 1800, where the data say 1800.0.
    default = told or option.default
    is_flag = not option.metavar and not option.choices
    if not default or (is_flag and default == "False"):
        return text, ""
    return text, default if " " in default else f"`{default}`"

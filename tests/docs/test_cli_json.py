"""Does docs/cli.json say what the command lines take? It is read by those who run nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from areal.trainer.cli import main as areal_main
from scaffold.analysis.cli.cli_json import read_cli
from scaffold.cli.main import main as scaffold_main

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Group] = {"areal": areal_main, "scaffold": scaffold_main}
TEXT = (ROOT / "docs" / "cli.json").read_text(encoding="utf-8")
DESCRIBED = read_cli(TEXT, "docs/cli.json")


def commands(
    command: click.Command, path: tuple[str, ...], parent: click.Context | None = None
) -> dict[tuple[str, ...], tuple[click.Command, click.Context]]:
    """Returns every command of a program with its context, by the words that call it."""
    context = click.Context(command, parent, obj="", **command.context_settings)
    found = {path: (command, context)}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= commands(inner, (*path, name), context)
    return found


EVERY = {
    path: each for name in PROGRAMS for path, each in commands(PROGRAMS[name], (name,)).items()
}


def described(path: tuple[str, ...]):
    command = DESCRIBED[path[0]]
    for word in path[1:]:
        assert command.commands is not None, f"{path} is described as no group"
        command = command.commands[word]
    return command


def written(path: tuple[str, ...]) -> dict[str, Any]:
    """Returns a command as the file has it, with what only its readers want to know."""
    found: dict[str, Any] = {"commands": json.loads(TEXT)["programs"]}
    for word in path:
        found = next(each for each in found["commands"] if each["name"] == word)
    return found


def test_no_command_is_made_up() -> None:
    def paths(command, path: tuple[str, ...]):
        yield path
        for name, inner in (command.commands or {}).items():
            yield from paths(inner, (*path, name))

    told = {path for name in DESCRIBED for path in paths(DESCRIBED[name], (name,))}
    assert told == set(EVERY)


def test_only_groups_that_take_kinds_of_a_target_are_open() -> None:
    assert {path for path in EVERY if described(path).is_open} == {
        ("scaffold",),
        ("scaffold", "add"),
    }


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_a_command_is_described_as_it_is(path: tuple[str, ...]) -> None:
    command, context = EVERY[path]
    params = command.get_params(context)
    options = [each for each in params if isinstance(each, click.Option)]
    options = [each for each in options if "--help" not in each.opts]  # as another context has it
    *rows, helps = described(path).options
    assert helps.names == tuple(context.help_option_names)
    told = {each.names: each for each in rows}
    assert list(told) == [(*each.opts, *each.secondary_opts) for each in options], "run `make docs`"
    for names, each in zip(told, options, strict=True):
        assert bool(told[names].metavar or told[names].choices) == (not each.is_flag), names
        assert told[names].choices == tuple(getattr(each.type, "choices", ()))
    arguments = [each for each in params if isinstance(each, click.Argument)]
    rows = written(path).get("options", [])[: len(options)]
    assert [is_so(row, "required") for row in rows] == [each.required for each in options]
    assert [is_so(row, "repeatable") for row in rows] == [each.multiple for each in options]
    rows = written(path).get("arguments", [])
    assert [is_so(row, "required") for row in rows] == [each.required for each in arguments]
    assert [is_so(row, "repeatable") for row in rows] == [each.nargs == -1 for each in arguments]


def is_so(row: dict[str, Any], key: str) -> bool:
    return bool(row.get(key, False))

"""Does docs/cli.json say what the command lines take? It is read by those who run nothing."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from areal.trainer.cli import main as areal_main
from scaffold.analysis.cli.cli_json import read_cli
from scaffold.cli.main import main as scaffold_main

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Group] = {"areal": areal_main, "scaffold": scaffold_main}
DESCRIBED = read_cli((ROOT / "docs" / "cli.json").read_text(encoding="utf-8"), "docs/cli.json")


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
        assert told[names].is_repeatable == each.multiple
        assert told[names].is_required == each.required
        assert told[names].choices == tuple(getattr(each.type, "choices", ()))
    arguments = [each for each in params if isinstance(each, click.Argument)]
    assert [each.is_required for each in described(path).arguments] == [
        each.required for each in arguments
    ]
    assert [each.is_repeatable for each in described(path).arguments] == [
        each.nargs == -1 for each in arguments
    ]

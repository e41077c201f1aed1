"""What commands of several rooms share: options, and the values that are made of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.working_folder import working_folder

if TYPE_CHECKING:
    from scaffold.units.context import Options

TARGET = click.Option(
    ["--target"], metavar="DIR", help="Repository to work on (default: the nearest one upwards)."
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object on stdout.")
DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Print the unified diff; write nothing.")
NO_INPUT = click.Option(["--no-input"], is_flag=True, help="Never ask; implied without a terminal.")
OVERWRITE = click.Option(
    ["--overwrite"],
    multiple=True,
    metavar="PATH",
    help="Replace this file, or the files in this folder (repeatable).",
)
NO_FORMAT = click.Option(
    ["--no-format"],
    is_flag=True,
    help="Do not format generated files with the target's formatters.",
)
VERIFY = click.Option(["--verify"], is_flag=True, help="Verify the unit once it is written.")
NAME = click.Option(["--name"], metavar="NAME", help="Name of the model. [default: its model_type]")
PYTHON = click.Option(
    ["--python"], metavar="EXE", help="Python interpreter that runs the target's code."
)
EXPLAIN = click.Option(["--explain"], is_flag=True, help="Explain each decision with its evidence.")
KEEP_UNPROVEN = click.Option(
    ["--keep-unproven"],
    is_flag=True,
    help="Register it even if the proof fails, marked as unproven.",
)
SKIP_PROOF = click.Option(
    ["--skip-proof"],
    is_flag=True,
    help="With --dry-run: skip the proof, the slowest part.",
)
PROBE_TIMEOUT = click.Option(
    ["--timeout", "timeout_s"],
    type=click.FloatRange(min=1),
    default=1800.0,
    metavar="SECONDS",
    help="Seconds for measuring, and for the proof. [default: 1800]",
)
FORMAT = click.Option(
    ["--format", "form"],
    type=click.Choice(["human", "json", "sarif", "github"]),
    default="human",
    help="Output format. [default: human]",
)
GIT = click.Option(["--git"], is_flag=True, help="Make the new folder a git repository.")


def command(name: str, *params: click.Parameter) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function, its help the docstring."""

    def make(function: Callable[..., Any]) -> click.Command:
        return click.Command(
            name, callback=function, params=[*params, TARGET, JSON], help=function.__doc__
        )

    return make


def options_of(values: dict[str, Any]) -> Options:
    """Return what every command on units accepts, from the values of a command line."""
    from scaffold.units.context import Options

    return Options(
        working_folder(),
        values["target"],
        # `list` and `target` have none of these options.
        values.get("dry_run", False),
        values.get("overwrite", ()),
        with_format=not values.get("no_format", False),
        sample=values.get("sample"),
    )


def may_ask(no_input: bool, as_json: bool) -> bool:
    """Return whether a person is there to be asked."""
    stdin: Any = sys.stdin  # None where it is closed, whatever its type
    return not (no_input or as_json) and stdin is not None and stdin.isatty()


def log(line: str) -> None:
    """Print a line of progress to the error stream."""
    click.echo(line, err=True)

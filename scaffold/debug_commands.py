"""The commands about distributed jobs: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from scaffold.report import Report


def add_debug_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Adds the commands of ``scaffold debug`` to their group.

    Args:
        group: The group ``debug``.
        target: The option --target, as all commands have it.
        json: The option --json.
    """
    for name, body, params in (("run", debug_run, _RUN),):
        help_text = (body.__doc__ or "").split("\n\n    Args:")[0]
        command = click.Command(
            name,
            params=[*params, target, json],
            callback=body,
            help=help_text,
            # What follows the program belongs to it, with or without "--" before.
            context_settings={"allow_interspersed_args": False},
        )
        group.add_command(command)


_RUN: list[click.Parameter] = [
    click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND..."),
    click.Option(
        ["--timeout", "timeout_s"],
        type=click.FloatRange(min=1),
        default=60.0,
        metavar="SECONDS",
        help="How long a rank may be in one call. [default: 60]",
    ),
    click.Option(
        ["--report", "folder"],
        metavar="DIR",
        help="Keep the record here. [default: a temporary folder]",
    ),
    click.Option(["--checksums"], is_flag=True, help="Record checksums by module, for `compare`."),
    click.Option(
        ["--steps"],
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Record modules for so many steps. [default: 1]",
    ),
    click.Option(["--memory"], is_flag=True, help="Record memory by module and by parameter."),
]


def debug_run(argv: tuple[str, ...], target: str | None, **values: Any) -> Report:
    """Runs a distributed job under watch and says which rank went wrong.

    COMMAND is anything that starts ranks of torch.distributed, such as torchrun. A recorder is
    brought into each of them. Where one waits in vain the job is ended.
    """
    from scaffold.debug.running import RunWish, run_job

    return run_job(RunWish(argv=argv, root=_root(target), **values))


def _root(target: str | None) -> Path:
    from pathlib import Path

    return Path(target) if target else Path.cwd()

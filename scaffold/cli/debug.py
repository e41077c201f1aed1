"""The commands about distributed jobs: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from scaffold.report import Report


def add_debug_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Add the commands of ``scaffold debug`` to their group.

    Args:
        group: The group ``debug``.
        target: The option --target, as all commands have it.
        json: The option --json.
    """
    commands = (
        ("attach", debug_attach, _ATTACH),
        ("compare", debug_compare, _COMPARE),
        ("env", debug_env, _ENV),
        ("flight", debug_flight, _FLIGHT),
        ("run", debug_run, _RUN),
    )
    for name, body, params in commands:
        # The arguments are described to readers of the code; options have a help of their own.
        help_text = (body.__doc__ or "").split("\n\n    Args:")[0]
        command = click.Command(
            name,
            params=[*params, target, json],
            callback=body,
            help=help_text,
            # What follows the program belongs to it, with or without "--" before.
            context_settings={"allow_interspersed_args": name in ("attach", "compare", "flight")},
        )
        group.add_command(command)


_RUN: list[click.Parameter] = [
    click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND..."),
    click.Option(
        ["--timeout", "timeout_s"],
        type=click.FloatRange(min=1),
        default=60.0,
        metavar="SECONDS",
        help="Seconds that a rank may spend in one call. [default: 60]",
    ),
    click.Option(
        ["--report", "folder"],
        metavar="DIR",
        help="Folder for the recording. [default: a temporary folder]",
    ),
    click.Option(["--checksums"], is_flag=True, help="Record checksums by module, for `compare`."),
    click.Option(
        ["--steps"],
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Number of steps to record. [default: 1]",
    ),
    click.Option(["--memory"], is_flag=True, help="Record memory by module and by parameter."),
]


def debug_run(argv: tuple[str, ...], target: str | None, **values: Any) -> Report:
    """Run a distributed job, watch it, and report the rank that failed.

    COMMAND is anything that starts ranks of torch.distributed, such as torchrun. A recorder is
    injected into each rank. If a rank waits longer than --timeout, the job is ended.
    """
    from scaffold.debug.run import run_job

    return run_job(argv, _root(target), **values)


_ATTACH: list[click.Parameter] = [
    click.Argument(["pids"], nargs=-1, type=int, metavar="[PID]..."),
    click.Option(
        ["--seconds"],
        type=click.FloatRange(min=1),
        default=5.0,
        metavar="SECONDS",
        help="How long to look at the ranks. [default: 5]",
    ),
]


def debug_attach(pids: tuple[int, ...], seconds: float, **_: Any) -> Report:
    """Report what the ranks of a running job wait for.

    PID is a rank or its launcher; without one, the ranks are those of the job on this machine.
    Stacks are read by py-spy, which does not pause the job. The exit status is 1 if a rank waits
    for something that cannot happen.
    """
    from scaffold.debug.attach import attach

    return attach(pids, seconds)


_COMPARE: list[click.Parameter] = [
    click.Argument(["records"], nargs=-1, required=True, metavar="RECORD [RECORD]"),
    click.Option(
        ["--ranks"], metavar="A,B", help="Ranks to compare; within one run, against the first."
    ),
    click.Option(
        ["--rtol"],
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="X",
        help="Relative tolerance. [default: 0, bit for bit]",
    ),
    click.Option(
        ["--phase", "phases"],
        multiple=True,
        type=click.Choice(["start", "forward", "backward", "gradient", "parameter"]),
        help="Part of a step to compare (repeatable).",
    ),
]


def debug_compare(records: tuple[str, ...], target: str | None, **values: Any) -> Report:
    """Find the first module in which two runs, or two ranks, differ.

    RECORD is what `scaffold debug run --checksums --report` wrote.
    """
    from scaffold.debug.compare import compare_runs

    return compare_runs(records, _root(target), **_given(values))


_FLIGHT: list[click.Parameter] = [
    click.Argument(["dumps"], nargs=-1, required=True, metavar="DUMP..."),
]


def debug_flight(dumps: tuple[str, ...], target: str | None, **_: Any) -> Report:
    """Match the flight records of all ranks, and report the rank that diverged.

    DUMP is a file that torch's flight recorder wrote, such as nccl_trace_rank_0, or a folder of
    them; those of several machines may be given together. Nothing in them is run.
    """
    from scaffold.debug.flight import read_flights

    return read_flights(dumps, _root(target))


_ENV: list[click.Parameter] = [
    click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED, metavar="-- [TORCHRUN ARGS]..."),
    click.Option(
        ["--mesh"],
        metavar="SIZES",
        help='Mesh of the ranks: "dp_shard=2,tp=2", or "d2t2" as in AReaL.',
    ),
    click.Option(["--config"], metavar="FILE", help="YAML file with more meshes."),
    click.Option(["--python"], metavar="EXE", help="Python interpreter of the job."),
]


def debug_env(argv: tuple[str, ...], target: str | None, **values: Any) -> Report:
    """Check what a distributed job needs before it starts.

    It checks versions, GPUs, ports, host names, limits and variables, and whether the ranks that
    TORCHRUN ARGS start fill the mesh. It runs the interpreter to get versions, but no job.
    """
    from scaffold.debug.environment import check_environment

    return check_environment(argv, _root(target), **_given(values))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    # The report is printed by `Cli.main`, which looks for --json itself.
    return {key: value for key, value in values.items() if key != "as_json"}


def _root(target: str | None) -> Path:
    from pathlib import Path

    from scaffold.errors import RequestError

    root = Path(target) if target else Path.cwd()
    if not root.is_dir():
        # A status of 1 is a verdict.
        raise RequestError(
            f"there is no folder {target}", code="target_missing", hint="fix --target"
        )
    return root.absolute()

"""The command line against its budgets and against other generators, in one interleaved run."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.cli.places import (
    SAMPLE,
    add_units,
    copy_project,
    fill_registry,
    make_project,
    surround,
)
from benchmarks.cli.rivals import RIVALS, prepare
from benchmarks.cli.scenes import Scene, Stage, Usage, cpu_median, describe
from benchmarks.processes import ProcessError
from benchmarks.results import Result
from benchmarks.settings import Settings

UNIT = "x pass"
"""Everything is a multiple of ``python -c pass``."""

BASE = "base"

WHAT = {
    "help": "scaffold --help",
    "completion": "completion of the commands",
    "verify_help": "scaffold verify --help",
    "list": "list",
    "status_many": "status of {units} units",
    "noop": "add-reward, nothing to do",
    "dry_run": "add-reward --dry-run",
    "add": "add-reward (render, edit, journal, fsync)",
    "add_formatted": "add-reward with the target's formatter",
    "remove": "remove",
    "update": "update --set (a three-way merge)",
    "list_more": "list with {more} units",
    "show_more": "show with {more} units",
    "status_more": "status of {more} units",
    "add_entries": "add-reward to a table of {entries:,} entries",
    "add_files": "add-reward beside {files:,} files",
}


def run(settings: Settings) -> list[Result]:
    """Measure all commands in turn, with `python -c pass` among them."""
    if sys.platform == "win32":
        return [Result("cli.help", WHAT["help"], None, UNIT, note="needs os.wait4")]
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        stage = Stage(Path(scratch))
        scenes, wanted = _own_scenes(stage, settings)
        missing: dict[str, str] = {}
        for name, rival in RIVALS.items():
            try:
                if settings.is_quick:
                    raise ProcessError("--quick installs nothing")
                scenes[name] = prepare(rival, Path(scratch) / name, wanted, SAMPLE, stage)
            except ProcessError as error:
                missing[name] = str(error)
        found = stage.measure(scenes, settings.cli_rounds)
    return to_results(found, missing, settings)


def to_results(
    found: Mapping[str, Sequence[Usage]], missing: Mapping[str, str], settings: Settings
) -> list[Result]:
    """Return the lines of the table: the budgets, the other generators, and scale.

    Args:
        found: The runs of each command by its name.
        missing: Why another generator could not be measured, by its name.
        settings: The counts.
    """
    base = found[BASE]
    times = {name: cpu_median(runs) / cpu_median(base) for name, runs in found.items()}
    counts = {
        "units": settings.cli_units,
        "more": settings.cli_more_units,
        "entries": settings.cli_entries,
        "files": settings.cli_files,
    }
    ms = cpu_median(base) * 1e3
    rows = [Result("cli.base", "python -c pass", ms, "ms CPU", note=describe(base, base))]
    for name, what in WHAT.items():
        is_beside = name in ("add_files", "add_entries")
        rows.append(
            Result(
                f"cli.{name}",
                what.format(**counts),
                times[name],
                UNIT,
                reference=times["add"] if is_beside else None,
                reference_name="add-reward in a small project" if is_beside else "",
                is_higher_better=False,
                note=describe(found[name], base),
            )
        )
    for name, rival in RIVALS.items():
        rows.append(
            Result(
                f"cli.add.{name}",
                f"add-reward, beside {rival.package.replace('@', ' ').replace('==', ' ')}",
                times["add"],
                UNIT,
                reference=times.get(name),
                reference_name=f"{name}, the same two files",
                is_higher_better=False,
                note=missing[name] if name in missing else describe(found[name], base),
            )
        )
    return rows


def _own_scenes(stage: Stage, settings: Settings) -> tuple[dict[str, Scene], dict[str, str]]:
    """Return the commands of this package, and the files that others have to write as well."""
    scaffold = _command()
    sample = make_project(stage, scaffold, stage.scratch / "sample")
    paths = (f"{sample.name}/reward/{SAMPLE}.py", f"tests/reward/test_{SAMPLE}.py")
    wanted = {path: (sample / path).read_text() for path in paths}

    def project(name: str) -> Path:
        return copy_project(sample, stage.scratch / name)

    def scene(folder: Path, *arguments: str) -> Scene:
        return Scene(lambda _: [*scaffold, *arguments], folder)

    def added(folder: Path, *options: str) -> Scene:
        return Scene(lambda i: [*scaffold, "add-reward", _name(i), *options], folder)

    many, more, entries, beside = (project(name) for name in ("many", "more", "entries", "beside"))
    add_units(many, settings.cli_units)
    add_units(more, settings.cli_more_units)
    fill_registry(entries, settings.cli_entries)
    surround(beside, settings.cli_files)
    completing = {
        "_SCAFFOLD_COMPLETE": "bash_complete",
        "COMP_WORDS": "scaffold ",
        "COMP_CWORD": "1",
    }
    scenes = {
        BASE: Scene(lambda _: [sys.executable, "-c", "pass"], sample),
        "help": scene(sample, "--help"),
        "completion": Scene(lambda _: scaffold, sample, completing),
        "verify_help": scene(sample, "verify", "--help"),
        "list": scene(sample, "list"),
        "status_many": scene(many, "status"),
        "noop": scene(sample, "add-reward", SAMPLE),
        "dry_run": scene(sample, "add-reward", "another", "--dry-run", "--no-format"),
        "add": added(project("add"), "--no-format"),
        "add_formatted": added(project("formatted")),
        "remove": _removed(stage, scaffold, project("remove")),
        "update": _updated(scaffold, project("update")),
        "list_more": scene(more, "list"),
        "show_more": scene(more, "show", "many_0001"),
        "status_more": scene(more, "status"),
        "add_entries": added(entries, "--no-format"),
        "add_files": added(beside, "--no-format"),
    }
    return scenes, wanted


def _removed(stage: Stage, scaffold: list[str], root: Path) -> Scene:
    def prepare_unit(i: int) -> None:
        stage.run([*scaffold, "add-reward", _name(i), "--no-format"], root)

    return Scene(lambda i: [*scaffold, "remove", f"reward/{_name(i)}"], root, prepare=prepare_unit)


def _updated(scaffold: list[str], root: Path) -> Scene:
    def command(i: int) -> list[str]:
        setting = f"ignore_case={'true' if i % 2 else 'false'}"
        return [*scaffold, "update", f"reward/{SAMPLE}", "--set", setting, "--no-format"]

    return Scene(command, root)


def _name(i: int) -> str:
    return f"round{i:03}"


def _command() -> list[str]:
    """Return the console command of this interpreter's environment, else the module."""
    console = Path(sys.executable).with_name("scaffold")
    return [str(console)] if console.exists() else [sys.executable, "-m", "scaffold"]

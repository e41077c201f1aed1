"""Seeded defects, packs of 25 to 1,000 skills and a large repository, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cli.scenes import METER, Usage
from benchmarks.processes import ProcessError
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.skills.checkers import CHECKERS, Checker, Reported, environment, install
from benchmarks.skills.packs import make_large, make_pack
from tests.skill_fixtures import RuleFixture, read_fixtures, unpack

PACKS = (25, 200, 1_000)
OURS = "scaffold"
LIMIT_S = 600.0
LONG_S = 30.0
"""What takes longer is run once: its start is a small part of it, and the rounds are for noise."""


@dataclass(frozen=True)
class Ready:
    """A checker that is installed.

    Args:
        name: What it is called.
        checker: How it is run.
        place: Where it was installed.
        scratch: Where figures of runs go.
    """

    name: str
    checker: Checker
    place: Path
    scratch: Path

    def run(self, root: Path) -> tuple[str, Usage, float]:
        """Check a repository; returns all that was printed, what it took, and wall seconds.

        Raises:
            ProcessError: It did not come to its end.
        """
        texts: list[str] = []
        cpu_s, peak_mb, started = 0.0, 0.0, time.perf_counter()
        # Its own for each run: defects are looked for side by side.
        figures = self.scratch / f"figures-{self.name}-{root.parent.name}-{root.name}.txt"
        for command in self.checker.command(self.place, root):
            figures.unlink(missing_ok=True)
            try:
                ran = subprocess.run(
                    [sys.executable, "-I", "-S", str(METER), str(figures), *command],
                    cwd=root,
                    env=environment(self.place),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=LIMIT_S,
                )
            except subprocess.TimeoutExpired as error:
                raise ProcessError(f"no end within {LIMIT_S:.0f} s") from error
            if not figures.is_file():
                raise ProcessError(ran.stderr.decode("utf-8", "replace")[-300:])
            _, cpu, peak = figures.read_text().split()
            cpu_s, peak_mb = cpu_s + float(cpu), max(peak_mb, float(peak))
            texts += [ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")]
        return "\n".join(texts), Usage(cpu_s, peak_mb), time.perf_counter() - started


def run(settings: Settings) -> list[Result]:
    """Measure all checkers on the same repositories, one after the other in each round."""
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        folder = Path(scratch)
        ready, missing = _prepare(folder, settings)
        results = _defects(ready, missing, folder, settings)
        for count in (3,) if settings.is_quick else PACKS:
            results += _pack(ready, missing, folder, count, settings)
        return results + _large(ready[OURS], folder, settings)


def _prepare(folder: Path, settings: Settings) -> tuple[dict[str, Ready], dict[str, str]]:
    ready: dict[str, Ready] = {}
    missing: dict[str, str] = {}
    for name, checker in CHECKERS.items():
        place = folder / name
        try:
            if settings.is_quick and checker.package:
                raise ProcessError("--quick installs nothing")
            install(checker, place)
            ready[name] = Ready(name, checker, place, folder)
        except ProcessError as error:
            missing[name] = str(error)
    return ready, missing


def _defects(
    ready: dict[str, Ready], missing: dict[str, str], folder: Path, settings: Settings
) -> list[Result]:
    """Count the kinds of defects that each checker finds, and its errors on near misses."""
    fixtures = list(read_fixtures().values())[: 3 if settings.is_quick else None]
    found = dict.fromkeys(ready, 0)
    wrong = dict.fromkeys(ready, 0)

    def look(fixture: RuleFixture) -> dict[str, tuple[bool, bool]]:
        bad = unpack(fixture.bad, folder / "bad" / fixture.rule, fixture.before)
        near = unpack(fixture.near_miss, folder / "near" / fixture.rule, fixture.before)
        return {name: _sees(each, fixture, bad, near) for name, each in ready.items()}

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # what is found takes no time to measure
        for seen in threads.map(look, fixtures):
            for name, (is_found, is_wrong) in seen.items():
                found[name] += is_found
                wrong[name] += is_wrong
    what = f"kinds of {len(fixtures)} seeded defects that are found"
    results = [Result("skills.found", what, found[OURS], "")]
    for name, checker in CHECKERS.items():
        if name == OURS:
            continue
        if name in missing:
            note = missing[name]
            results.append(Result(f"skills.found.{name}", what, None, "", note=note))
            continue
        results.append(
            Result(
                f"skills.found.{name}",
                what,
                found[OURS],
                "",
                found[name],
                checker.package,
                note=f"trees that only look wrong and are called so: {wrong[OURS]} beside "
                f"{wrong[name]}",
            )
        )
    return results


def _sees(each: Ready, fixture: RuleFixture, bad: Path, near: Path) -> tuple[bool, bool]:
    """Return whether a checker finds a defect, and whether it calls the near miss one, too.

    It finds it if it reports, at the file or the line of it, what it does not report of the near
    miss. What it reports of the near miss under a name that it gave the defect is a false alarm.
    """
    in_bad = _reported(each, bad)
    in_near = _reported(each, near)
    paths = {place.rpartition(":")[0] for place in fixture.bad.places}
    lines = {int(place.rpartition(":")[2]) for place in fixture.bad.places}
    at_place = [row for row in in_bad if not row.path or row.path in paths]
    known = {row.rule for row in in_near}
    named = {row.rule for row in at_place if row.rule not in known or row.line in lines}
    new = {row.rule for row in at_place if row.rule not in known}
    exact = {row.rule for row in at_place if row.line in lines}
    return bool(new | exact), any(row.is_error and row.rule in named for row in in_near)


def _reported(each: Ready, root: Path) -> list[Reported]:
    try:
        text, _, _ = each.run(root)
        return each.checker.read(text, root)
    except (ProcessError, ValueError, KeyError, TypeError):
        return []


def _pack(
    ready: dict[str, Ready],
    missing: dict[str, str],
    folder: Path,
    count: int,
    settings: Settings,
) -> list[Result]:
    """Measure CPU and wall seconds on a pack of so many skills."""
    root = make_pack(folder / f"pack-{count}", count)
    claude = make_pack(folder / f"claude-{count}", count, folder=".claude/skills")
    cpu: dict[str, list[float]] = {name: [] for name in ready}
    wall: dict[str, list[float]] = {name: [] for name in ready}
    memory = 0.0
    for _ in range(1 + min(3, settings.repetitions)):
        for name, each in ready.items():
            if name in missing or (wall[name] and wall[name][0] > LONG_S):
                continue
            try:
                _, usage, seconds = each.run(claude if name == "rulesync" else root)
            except ProcessError as error:
                missing.setdefault(name, str(error))
                continue
            cpu[name].append(usage.cpu_s)
            wall[name].append(seconds)
            memory = max(memory, usage.peak_mb) if name == OURS else memory
    own = _later(cpu[OURS])
    results = [
        Result(
            f"skills.wall.{count}",
            f"{count} skills, cold",
            _later(wall[OURS]),
            "s",
            is_higher_better=False,
            note=f"{own:.2f} CPU-s, at most {memory:.0f} MB",
        )
    ]
    for name, checker in CHECKERS.items():
        if name != OURS and cpu.get(name):
            results.append(
                Result(
                    f"skills.cpu.{count}.{name}",
                    f"{count} skills, cold",
                    own,
                    "CPU-s",
                    _later(cpu[name]),
                    checker.package,
                    is_higher_better=False,
                )
            )
    return [*results, *_warm(ready[OURS], root, count)]


def _warm(each: Ready, root: Path, count: int) -> list[Result]:
    """Measure a second run, and one after a skill was edited, with what the first remembered."""
    command = [sys.executable, "-m", "scaffold", "skills", "check", str(root)]
    kept = Checker("", lambda _place, _root: [command], lambda _text, _root: [])
    again = Ready(each.name, kept, each.place, each.scratch)
    again.run(root)
    _, same, _ = again.run(root)
    skill = next(iter(sorted(root.rglob("SKILL.md"))))
    skill.write_text(skill.read_text() + "\nOne more line.\n")
    _, edited, _ = again.run(root)
    return [
        Result(f"skills.again.{count}", f"{count} skills, nothing changed", same.cpu_s, "CPU-s"),
        Result(f"skills.edited.{count}", f"{count} skills, one edited", edited.cpu_s, "CPU-s"),
    ]


def _large(each: Ready, folder: Path, settings: Settings) -> list[Result]:
    """Measure a cold check in a large repository."""
    modules, files = (30, 60) if settings.is_quick else (10_000, 190_000)
    root = make_large(folder / "large", modules, files, 25)
    _, usage, seconds = each.run(root)
    what = f"25 skills beside {modules:,} modules and {files:,} other files, cold"
    return [
        Result("skills.large.wall", what, seconds, "s", note=f"{usage.cpu_s:.2f} CPU-s"),
        Result("skills.large.memory", what, usage.peak_mb, "MB"),
    ]


def _later(values: Sequence[float]) -> float:
    """Return the median without the first round, which warms caches."""
    return statistics.median(values[1:] or values)

"""A command at work on a target: the lock that it holds, and what it reports."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scaffold.report import Report
from scaffold.target.target import Target, describe
from scaffold.transaction.apply import Session, session
from scaffold.transaction.change import Change
from scaffold.transaction.leftovers import settled_warning
from scaffold.units.context import Options, reported_changes


@dataclass
class Work:
    """A command at work on a target; with ``--dry-run`` nothing is held and nothing written."""

    target: Target
    report: Report
    opened: Session | None
    options: Options

    @property
    def root(self) -> Path:
        return self.target.root

    def apply(self, changes: Sequence[Change]) -> None:
        """Write changes, in one step."""
        self.report.changes += reported_changes(changes)
        if self.opened is not None:
            self.opened.apply(changes, prune=True)


@contextmanager
def at_work(command: str, options: Options) -> Generator[Work]:
    """Hold the target's lock for a command, and collect what it reports."""
    target, settled = options.find_settled(command)
    report = Report(command.partition(" ")[0], describe(target), dry_run=options.dry_run)
    report.warnings += settled
    if options.dry_run:
        yield Work(target, report, None, options)
        return
    with session(target.root, command) as opened:
        report.warnings += settled_warning(opened.settled)
        yield Work(target, report, opened, options)

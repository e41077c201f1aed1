"""The command that verifies units, and its part in the commands that add some."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from scaffold.report import Report
from scaffold.units.context import (
    Options,
)
from scaffold.verify import verify_units


class Trial(NamedTuple):
    """How units are verified.

    Args:
        python: What ``--python`` named.
        allow_stub: Whether places that are left to the author are accepted.
        data: What ``--data`` named.
        completions: What ``--completions`` named.
        timeout_s: The limit of the tests and of the episodes of each unit.
        renews: Whether what is rendered from registries is written anew.
    """

    python: str | None = None
    allow_stub: bool = False
    data: str | None = None
    completions: str | None = None
    timeout_s: float = 300.0
    renews: bool = True


def run_verify(
    ids: Iterable[str], how: Trial, log: Callable[[str], None], options: Options
) -> Report:
    """Run what was made; see `scaffold.verify`."""
    return verify_units(
        options.find(),
        tuple(ids),
        python=how.python,
        allow_stub=how.allow_stub,
        log=log,
        data=None if how.data is None else options.folder / how.data,
        completions=None if how.completions is None else options.folder / how.completions,
        timeout_s=how.timeout_s,
        renews=how.renews,
    )


def verify_added(report: Report, log: Callable[[str], None], options: Options) -> None:
    """Verify what an add made, and put the verdict into the report of the add."""
    # The third word of `scaffold verify KIND/NAME`.
    verified = run_verify([report.check[0][2]], Trial(), log, options)
    report.text = report.to_text() + verified.to_text()
    report.ok = verified.ok
    report.unfinished = verified.unfinished
    report.warnings += verified.warnings
    report.extra |= verified.extra

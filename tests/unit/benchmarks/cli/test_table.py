"""The lines of the table: multiples of the base, their targets, and what is said of the missing."""

from __future__ import annotations

import pytest

from benchmarks.cli.rivals import RIVALS
from benchmarks.cli.scenes import Usage
from benchmarks.cli.table import BASE, WHAT, to_results
from benchmarks.results import Result
from benchmarks.settings import QUICK

MULTIPLES = {BASE: 1.0, "help": 5.5, "noop": 6.5, "add": 20.0, "add_files": 30.0}


def table(missing: dict[str, str] | None = None) -> dict[str, Result]:
    absent = missing or {}
    names = [BASE, *WHAT, *(name for name in RIVALS if name not in absent)]
    found = {name: [Usage(0.01 * MULTIPLES.get(name, 10.0), 9.0)] * 3 for name in names}
    return {row.key: row for row in to_results(found, absent, QUICK)}


def test_a_command_is_judged_as_a_multiple_of_the_base() -> None:
    rows = table()
    assert rows["cli.base"].ours == pytest.approx(10.0)
    assert (rows["cli.help"].ours, rows["cli.help"].verdict) == (pytest.approx(5.5), "FALLS SHORT")
    assert rows["cli.noop"].verdict == rows["cli.add"].verdict == "pass"


def test_a_large_repository_is_compared_with_a_small_one() -> None:
    row = table()["cli.add_files"]
    assert (row.ratio, row.verdict) == (pytest.approx(2 / 3), "FALLS SHORT")
    assert row.what == f"add-reward beside {QUICK.cli_files} files"


def test_other_generators_stand_beside_the_add() -> None:
    row = table()["cli.add.hygen"]
    assert (row.ours, row.reference) == (pytest.approx(20.0), pytest.approx(10.0))
    assert row.ratio == pytest.approx(0.5)


def test_a_generator_that_is_not_there_is_named_with_the_reason() -> None:
    row = table({"copier": "not installed: no network"})["cli.add.copier"]
    assert (row.reference, row.note) == (None, "not installed: no network")
    assert row.what == "add-reward, beside copier 9.6.0"

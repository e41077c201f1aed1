"""What became of units: many that share one table, and each that does not stand there as made."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.templating.manifests import builtin_catalogue, load_kind
from scaffold.units import status
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import read_units
from scaffold.units.project import new_project
from scaffold.units.status import unit_status

NAMES = ("early", "middle", "zebra")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    new_project(load_kind("project"), "my_rl", (), {"areal_source": ""}, Options(tmp_path))
    root = tmp_path / "my_rl"
    for name in NAMES:
        add_unit(load_kind("reward"), name, ("exact",), {}, Options(root, with_format=False))
    return root


def states(root: Path) -> dict[str, tuple[str, ...]]:
    units = read_units(root)
    catalogue = builtin_catalogue()
    return {unit.name: unit_status(root, unit, catalogue, units).states for unit in units}


def registry(root: Path) -> Path:
    return root / "my_rl" / "reward" / "__init__.py"


def test_a_table_is_read_once_for_all_its_units(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[str] = []
    real = status.read_entries

    def forbidden(*_: object) -> None:
        raise AssertionError("the table was searched for one unit")

    monkeypatch.setattr(
        status, "read_entries", lambda data, entry: readings.append(entry.file) or real(data, entry)
    )
    monkeypatch.setattr(status, "has_entry", forbidden)
    monkeypatch.setattr(status, "remove_entry", forbidden)
    status._entries.cache_clear()
    assert set(states(project).values()) == {("untouched",)}
    assert readings == ["my_rl/reward/__init__.py"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("middle_reward_fn", "other_fn", {"middle": ("unregistered",)}),
        ('"middle":', '"muddle":', {"middle": ("unregistered",)}),
        ('"middle": ', '"middle":  ', {}),
    ],
)
def test_a_line_that_changed_is_told_of_its_unit(
    project: Path, before: str, after: str, expected: dict[str, tuple[str, ...]]
) -> None:
    text = registry(project).read_text()
    assert text.count(before) == 1
    registry(project).write_text(text.replace(before, after))
    found = {name: each for name, each in states(project).items() if name in NAMES}
    assert found == dict.fromkeys(NAMES, ("untouched",)) | expected


def test_a_file_with_more_than_entries_added_is_edited(project: Path) -> None:
    assert states(project)["my_rl"] == ("untouched",)
    registry(project).write_text(registry(project).read_text() + "\nMORE = 1\n")
    assert states(project)["my_rl"] == ("edited",)
    assert states(project)["zebra"] == ("untouched",)


def test_entries_on_one_line_are_no_edit_either(project: Path) -> None:
    text = registry(project).read_text()
    rows = [row for row in text.splitlines() if row.strip().startswith(('"early', '"middle'))]
    assert len(rows) == 2
    joined = f"{rows[0]} {rows[1].strip()}"
    registry(project).write_text(text.replace("\n".join(rows), joined))
    assert states(project) == dict.fromkeys((*NAMES, "my_rl"), ("untouched",))

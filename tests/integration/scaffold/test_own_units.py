"""What this repository's own records hold is as it was made, and keeps the contract of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.ledger import read_units
from scaffold.verify.static import check_static

ROOT = Path(__file__).parents[3]
UNITS = {unit.id: unit for unit in read_units(ROOT)}


@pytest.mark.parametrize("unit_id", UNITS)
def test_a_unit_keeps_its_contract(unit_id: str) -> None:
    unit = UNITS[unit_id]
    contract = load_kind(unit.kind).verify["contract"]
    level = check_static(find_target(ROOT), unit, contract)
    assert level.status == "passed", level.reason

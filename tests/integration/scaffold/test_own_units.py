"""What this repository's own records hold is as it was made, and keeps the contract of its kind."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from areal.dataset import DATASETS
from areal.reward import REWARDS
from areal.workflow import WORKFLOWS
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.ledger import read_units
from scaffold.verify.registered import registered_unit
from scaffold.verify.static import check_static

ROOT = Path(__file__).parents[3]
UNITS = {unit.id: unit for unit in read_units(ROOT)}


@pytest.mark.parametrize("unit_id", UNITS)
def test_a_unit_keeps_its_contract(unit_id: str) -> None:
    unit = UNITS[unit_id]
    contract = load_kind(unit.kind).verify["contract"]
    level = check_static(find_target(ROOT), unit, contract)
    assert level.status == "passed", level.reason


BUILT_IN = [
    (kind, name)
    for kind, table in (("reward", REWARDS), ("dataset", DATASETS), ("workflow", WORKFLOWS))
    for name in table
]


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_a_built_in_unit_keeps_the_contract_that_authors_are_held_to(kind: str, name: str) -> None:
    target = find_target(ROOT)
    unit = registered_unit(target, f"{kind}/{name}")
    assert unit is not None
    level = check_static(target, unit, load_kind(kind).verify["contract"])
    assert level.status == "passed", level.reason


@pytest.mark.parametrize("kind", ["reward", "workflow"])
def test_built_in_units_import_only_what_the_skill_allows(kind: str) -> None:
    skill = (ROOT / f".agents/skills/add-{kind}/SKILL.md").read_text(encoding="utf-8")
    rule = re.search(r"- Of the package, import (.*?) alone", skill, re.DOTALL)
    assert rule
    allowed = tuple(re.findall(r"`(areal\.[\w.]+)`", rule[1]))
    for path in sorted((ROOT / "areal" / kind).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("areal."):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                wrong = [each for each in names if not f"{each}.".startswith(allowed)]
                assert not wrong, f"{path.name}: {wrong}"

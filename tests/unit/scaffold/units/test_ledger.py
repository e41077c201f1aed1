"""The ledger: what is written reads back, and what is wrong is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.edit.entry import Entry
from scaffold.errors import LedgerError
from scaffold.transaction.digest import digest
from scaffold.units.ledger import (
    LedgerFile,
    TemplateUse,
    Todo,
    Unit,
    dump_unit,
    find_unit,
    parse_unit,
    read_units,
    record_path,
)

UNIT = Unit(
    "reward",
    "math_sum",
    ("exact",),
    {"take": 'a"b\n\N{GRINNING FACE}', "count": 3, "flag": True, "scale": 0.5},
    (TemplateUse("reward/exact", 1),),
    (LedgerFile("areal/reward/math_sum.py", "source", digest(b"x")),),
    (Entry("areal/reward/__init__.py", "REWARDS", "dict", "math_sum", "a:b"),),
    (Todo("areal/reward/math_sum.py", "extract", "say how"),),
)


def save(root: Path, unit: Unit) -> None:
    path = root / record_path(unit.kind, unit.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_unit(unit))


def test_a_unit_reads_back():
    assert parse_unit(dump_unit(UNIT), "x.toml") == UNIT


def test_an_empty_unit_reads_back():
    unit = Unit("reward", "x", ("exact",), {})
    assert parse_unit(dump_unit(unit), "x.toml") == unit


def test_the_text_is_the_same_whatever_the_order_of_the_answers():
    shuffled = UNIT._replace(answers=dict(reversed(UNIT.answers.items())))
    assert dump_unit(shuffled) == dump_unit(UNIT)


def test_units_are_found_by_id_and_by_a_unique_name(tmp_path: Path):
    other = Unit("workflow", "debate", ("rlvr",), {})
    save(tmp_path, UNIT)
    save(tmp_path, other)
    assert read_units(tmp_path) == (UNIT, other)
    assert find_unit(tmp_path, "reward/math_sum") == find_unit(tmp_path, "math_sum") == UNIT
    save(tmp_path, Unit("workflow", "math_sum", ("rlvr",), {}))
    with pytest.raises(LedgerError, match="reward/math_sum, workflow/math_sum"):
        find_unit(tmp_path, "math_sum")
    with pytest.raises(LedgerError, match="did you mean 'workflow/debate'"):
        find_unit(tmp_path, "workflow/debat")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('kind = "reward"', ""), "key 'kind' is missing"),
        (("schema = 1", "schema ="), "x.toml"),
        (("areal/reward/math_sum.py", "../../etc/passwd"), "leads out of the target"),
        (("areal/reward/__init__.py", "/etc/passwd"), "leads out of the target"),
        (("areal/reward/__init__.py", ".git/config"), "git's or the tool's"),
        (("areal/reward/math_sum.py", "vendor/.git/hooks/pre-commit"), "git's or the tool's"),
        (('kind = "reward"', 'kind = "reward"\nowner = "me"'), "unknown key 'owner'"),
    ],
)
def test_a_damaged_record_is_refused_by_file(change: tuple[str, str], message: str):
    data = dump_unit(UNIT).decode().replace(*change).encode()
    with pytest.raises(LedgerError, match=r"x\.toml") as refusal:
        parse_unit(data, "x.toml")
    assert refusal.value.code == "ledger_invalid"
    assert message in refusal.value.message


def test_a_newer_record_asks_for_an_upgrade():
    data = dump_unit(UNIT).replace(b"schema = 1", b"schema = 2")
    with pytest.raises(LedgerError) as refusal:
        parse_unit(data, "x.toml")
    assert refusal.value.code == "target_newer"

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.units.todos import open_todos
from scaffold.verify.registered import registered_unit


def test_places_stay_open_without_the_record(project: Path) -> None:
    add_unit(load_kind("reward"), "sums", [], {}, Options(project))
    recorded = open_todos(project, find_unit(project, "reward/sums"))
    shutil.rmtree(project / ".scaffold")
    unit = registered_unit(find_target(project), "reward/sums")
    assert unit is not None
    assert {each.file for each in recorded} == {file.path for file in unit.files}
    assert open_todos(project, unit) == recorded


@pytest.mark.parametrize("text", ["def sums_reward_fn(:\n", "# YOURS: nothing below\n"])
def test_a_file_that_cannot_be_read_has_no_places(project: Path, text: str) -> None:
    add_unit(load_kind("reward"), "sums", ["math"], {}, Options(project))
    shutil.rmtree(project / ".scaffold")
    (project / "my_rl" / "reward" / "sums.py").write_text(text)
    unit = registered_unit(find_target(project), "sums")
    assert unit is not None
    assert unit.todos == ()

"""Is a model that is written from a design what we reviewed? Its whole folder, as real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.archon.codegen import write_model
from tests.unit.scaffold.archon.codegen import designs

TREES = Path(__file__).parent / "trees" / "archon"
DESIGNS = {
    "gemma2": designs.gemma2(),
    "modernbert": designs.modernbert(),
    "every_thing": designs.everything(),
}


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}


@pytest.mark.parametrize("folder", DESIGNS)
def test_models_are_as_reviewed(folder: str, request: pytest.FixtureRequest) -> None:
    golden = TREES / folder
    now = {path: text.encode() for path, text in write_model(DESIGNS[folder]).items()}
    if request.config.getoption("--update-golden"):
        for path in files_of(golden).keys() - now.keys():
            (golden / path).unlink()
        for path, data in now.items():
            (golden / path).parent.mkdir(parents=True, exist_ok=True)
            (golden / path).write_bytes(data)
    reviewed = files_of(golden)
    assert sorted(now) == sorted(reviewed)
    for path, data in now.items():
        assert data.decode() == reviewed[path].decode(), f"{path}: see --update-golden"

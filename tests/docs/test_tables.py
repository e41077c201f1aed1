"""Do the tables of the documents say what the code says? Each is compared with its source."""

from __future__ import annotations

import re
from pathlib import Path

from areal.api.config.defaults import DIFFERENT_DEFAULTS
from areal.api.config.presets import PRESETS
from areal.api.constants import MISSING
from areal.trainer import base, recover
from areal.trainer.ppo.trainer import CRITIC_FOLDER
from areal.trainer.report import diagnosis, records

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "docs" / "en" / "training.md"


def table(document: Path, heading: str) -> list[list[str]]:
    """Returns the body rows of the first table behind a heading."""
    _, _, rest = document.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert rest, f"{document} has no heading {heading!r}"
    rows = re.search(r"((?:^\|.*\n)+)", rest.split("\n## ")[0], flags=re.MULTILINE)
    assert rows, f"{heading!r} has no table"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]
    return cells[2:]


def as_text(value: object) -> str:
    """Returns a default as the table writes it."""
    if value == MISSING:
        return "required"
    return "`null`" if value is None else f"`{value}`"


def test_the_defaults_that_differ():
    expected = [
        [f"`{key}`", as_text(row.areal), as_text(row.ours), row.reason]
        for key, row in sorted(DIFFERENT_DEFAULTS.items())
    ]
    assert table(TRAINING, "Defaults that differ from AReaL's") == expected


def test_the_algorithms():
    assert [row[0] for row in table(TRAINING, "Algorithms")] == [f"`{name}`" for name in PRESETS]


def test_the_warnings():
    source = Path(diagnosis.__file__).read_text(encoding="utf-8")
    codes = sorted(re.findall(r'Finding\(\n\s+"(\w+)"', source))
    assert len(codes) == len(diagnosis.CHECKS)
    assert [row[0] for row in table(TRAINING, "What a run shows")] == [f"`{c}`" for c in codes]


def test_the_files_of_a_run():
    named = [row[0].strip("`") for row in table(TRAINING, "What a run leaves behind")]
    files = [records.STATS_FILE, records.EPISODES_FILE, records.RUN_FILE, "config.yaml"]
    models = [base.MODEL_FOLDER, f"{base.MODEL_FOLDER}_{CRITIC_FOLDER}"]
    folders = [*models, base.CHECKPOINT_FOLDER, recover.RECOVER_FOLDER, "tensorboard"]
    assert named == ["report.html", "reward.png", *files, *(f"{folder}/" for folder in folders)]

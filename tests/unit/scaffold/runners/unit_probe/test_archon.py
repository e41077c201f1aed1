"""Runs the proof of a model that is in a target, with a fault put in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[5]
PROBE = ROOT / "scaffold" / "runners" / "unit_probe"
SPOILED = """
from dataclasses import replace

from areal.experimental.models.archon.qwen3.spec import QWEN3_SPEC


class Scaled(QWEN3_SPEC.model_class):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for layer in self.layers.values():
            layer.attention.core.scale *= 1.02


SPEC = replace(QWEN3_SPEC, model_class=Scaled)
"""


@pytest.mark.heavy
def test_where_a_model_differs_is_told_for_people(tmp_path: Path) -> None:
    (tmp_path / "spoiled.py").write_text(SPOILED)
    asked = {"symbol": "spoiled:SPEC", "answers": {"model_type": "qwen3", "fast": True}}
    rows = prove(tmp_path, asked)

    (place,) = [row["message"] for row in rows if row.get("check") == "first difference"]
    theirs, _, ours = place.partition("\n+++ ")
    assert theirs.startswith("default: first difference in the output of layers.0.attention")
    assert "def forward" in theirs
    assert "def forward" in ours, "the source of both sides is told"


def prove(folder: Path, asked: dict[str, Any]) -> list[dict[str, Any]]:
    request, result = folder / "request.json", folder / "result.jsonl"
    request.write_text(json.dumps(asked))
    subprocess.run(
        [sys.executable, str(PROBE), "archon", str(request), str(result)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return [json.loads(line) for line in result.read_text().splitlines()]

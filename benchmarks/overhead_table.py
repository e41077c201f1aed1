"""The figures of ``overhead.py``, which runs as a script, as lines of the common table."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import run_to_end
from benchmarks.results import Result
from benchmarks.settings import ROOT, Settings
from benchmarks.targets import Target


def run(settings: Settings) -> list[Result]:
    """Measure what the machinery around an episode costs; its targets stand in that script."""
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        out = Path(scratch) / "figures.json"
        script = ROOT / "benchmarks" / "overhead.py"
        command = [sys.executable, str(script), "--no-fail", "--json", str(out)]
        run_to_end(command + ["--quick"] * settings.is_quick, Path(scratch))
        return to_results(json.loads(out.read_text()))


def to_results(figures: list[dict[str, Any]]) -> list[Result]:
    """Translate figures; one without a name is another number of the figure before it."""
    results = []
    name = ""
    for figure in figures:
        name = figure["name"] or name
        bound, is_ceiling = figure["target"], figure["is_ceiling"]
        results.append(
            Result(
                key=f"overhead.{len(results)}",
                what=name,
                ours=figure["value"],
                unit=figure["unit"],
                reference=float(figure["areal"].replace(",", "")) if figure["areal"] else None,
                reference_name="AReaL 2.0.0",
                is_higher_better=not is_ceiling,
                given_target=None
                if bound is None
                else Target("measured", "<=" if is_ceiling else ">=", bound),
            )
        )
    return results

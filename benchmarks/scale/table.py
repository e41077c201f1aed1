"""Rollouts from servers and training on several ranks: the lines of the group ``scale``."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.clock import use_one_thread
from benchmarks.reference_model import make_reference
from benchmarks.results import Result, format_number
from benchmarks.scale import client, controllers, faults, launched, simulate, weights
from benchmarks.settings import Settings


def run(settings: Settings) -> list[Result]:
    """Measure everything; what is simulated is named in the line.

    A part that fails costs its own lines alone. Each line is on stderr as soon as it is known.
    """
    use_one_thread()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        for name, part in _parts(settings, Path(scratch)).items():
            try:
                for result in part():
                    results.append(result)
                    number = "-" if result.ours is None else format_number(result.ours)
                    print(f"  {result.key}: {number} {result.unit}", file=sys.stderr, flush=True)
            except Exception as error:
                traceback.print_exc()
                note = f"{type(error).__name__}: {error}"
                results.append(Result(f"scale.{name}", f"{name} FAILED", None, "", note=note))
    return results


def _parts(settings: Settings, folder: Path) -> dict[str, Callable[[], Iterator[Result]]]:
    shared, tokenizer = make_reference()
    model = folder / "model"
    shared.lm.write(model, tokenizer)
    return {
        "simulation": simulate.results,
        "controllers": lambda: controllers.measure(settings, folder / "controllers"),
        "throughput": lambda: client.throughput(settings, folder / "throughput"),
        "request cost": lambda: client.request_cost(settings, folder / "cost"),
        "weights": lambda: weights.measure(settings, shared, tokenizer, model, folder / "weights"),
        "kills": lambda: faults.kills(settings, model, folder / "kills"),
        "launched runs": lambda: launched.launched(settings, model, folder / "launched"),
    }

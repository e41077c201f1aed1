"""Rollouts from servers and training on several ranks: the lines of the group ``scale``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import use_one_thread
from benchmarks.reference_model import make_reference
from benchmarks.results import Result
from benchmarks.scale import client, controllers, faults, launched, simulate, weights
from benchmarks.settings import Settings


def run(settings: Settings) -> list[Result]:
    """Measure everything; what is simulated is named in the line."""
    use_one_thread()
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        return list(_results(settings, Path(scratch)))


def _results(settings: Settings, folder: Path) -> Iterator[Result]:
    shared, tokenizer = make_reference()
    model = folder / "model"
    shared.lm.write(model, tokenizer)
    yield from weights.measure(settings, shared, tokenizer, model, folder / "weights")
    yield from client.throughput(settings, folder / "throughput")
    yield from client.request_cost(settings, folder / "cost")
    yield from faults.kills(settings, model, folder / "kills")
    yield from launched.launched(settings, model, folder / "launched")
    yield from controllers.measure(settings, folder / "controllers")
    yield from simulate.results()

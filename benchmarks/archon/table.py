"""Archon models against Hugging Face's: forward and backward, memory, checkpoints."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from areal.engine.model.cpu_kernels import multiplies_slowly
from benchmarks.archon import cuda
from benchmarks.archon.sides import (
    LABELS,
    OPTIONS,
    SIDES,
    Batch,
    Sizes,
    Step,
    check_same_loss,
    make_batch,
    num_real_tokens,
    warm_up,
)
from benchmarks.clock import interleaved_rates, ratio_spread, use_one_thread
from benchmarks.processes import run_for_json
from benchmarks.results import Result
from benchmarks.settings import Settings

FILLS = {"fill_30": 0.3, "fill_100": 1.0}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Batches of different lengths, so that no side sees the same shape every time.
NUM_BATCHES = 3
_ADAPTER = "benchmarks.archon.adapter"


def run(settings: Settings) -> list[Result]:
    """Measure real tokens per CPU second, peak memory, checkpoints, and CUDA where there is."""
    use_one_thread()
    results: list[Result] = []
    for name, dtype in DTYPES.items():
        sizes = _sizes(dtype, settings)
        results += _speed(name, dtype, sizes, settings)
        if not (settings.is_quick and name == "bf16"):
            results += _memory(name, dtype, sizes, settings)
        if name == "fp32" and not settings.is_quick:
            results += _options(name, dtype, sizes, settings)
    if importlib.util.find_spec(_ADAPTER) is not None:
        results += importlib.import_module(_ADAPTER).run(settings)
    return results + cuda.run(settings)


def _sizes(dtype: torch.dtype, settings: Settings) -> Sizes:
    if settings.is_quick:
        return Sizes(32, 64, 2, 2, 1, 16, 64, 4, 32)
    if multiplies_slowly(dtype):
        # transformers' products take a hundred times as long then.
        return dataclasses.replace(Sizes(), vocab_size=256, num_sequences=4, padded_length=64)
    return Sizes()


def _speed(name: str, dtype: torch.dtype, sizes: Sizes, settings: Settings) -> list[Result]:
    cpu = torch.device("cpu")
    steps = {side: make(sizes, dtype, cpu) for side, make in SIDES.items()}
    results = []
    for key, fill in FILLS.items():
        batches = [make_batch(sizes, fill, seed, cpu) for seed in range(NUM_BATCHES)]
        losses = {side: warm_up(step, batches) for side, step in steps.items()}
        difference = check_same_loss(losses, dtype)
        rates = interleaved_rates(_works(steps, batches), settings.repetitions)
        results += [
            Result(
                f"archon.{name}.{key}.{side}",
                f"{name}, forward and backward, {fill:.0%} of {sizes.num_sequences} x "
                f"{sizes.padded_length} is real",
                statistics.median(rates["archon"]),
                "tok/CPU-s",
                statistics.median(rates[side]),
                label,
                note=f"{ratio_spread(rates['archon'], rates[side])}; losses {difference:.0e} apart",
            )
            for side, label in LABELS.items()
        ]
    return results


def _works(steps: Mapping[str, Step], batches: list[Batch]) -> dict[str, object]:
    count = num_real_tokens(batches)

    def work(step: Step) -> int:
        for batch in batches:
            step(batch)
        return count

    return {side: lambda step=step: work(step) for side, step in steps.items()}


def _memory(name: str, dtype: torch.dtype, sizes: Sizes, settings: Settings) -> list[Result]:
    sides = ["archon", "hf_padded"] if settings.is_quick else list(SIDES)
    results = []
    for key, fill in FILLS.items():
        peak = {side: _peak_mb(side, dtype, fill, sizes) for side in sides}
        results += [
            Result(
                f"archon.{name}.{key}.memory.{side}",
                f"{name}, peak memory of forward and backward, {fill:.0%} real",
                peak["archon"],
                "MB",
                peak[side],
                label,
                is_higher_better=False,
            )
            for side, label in LABELS.items()
            if side in peak
        ]
    return results


def _options(name: str, dtype: torch.dtype, sizes: Sizes, settings: Settings) -> list[Result]:
    """Measure what recomputing and compiling cost and save, beside the model without."""
    cpu, fill = torch.device("cpu"), FILLS["fill_100"]
    makers = {"archon": SIDES["archon"], **OPTIONS}
    steps = {side: make(sizes, dtype, cpu) for side, make in makers.items()}
    # One shape: each new one is compiled anew.
    batches = [make_batch(sizes, fill, 0, cpu)]
    check_same_loss({side: warm_up(step, batches) for side, step in steps.items()}, dtype)
    rates = interleaved_rates(_works(steps, batches), settings.repetitions)
    plain = _peak_mb("archon", dtype, fill, sizes)
    results = []
    for side in OPTIONS:
        what = f"{name}, {side.replace('_', ' ')}, {fill:.0%} real"
        speed = statistics.median(rates[side])
        peak = _peak_mb(side, dtype, fill, sizes)
        results += [
            Result(
                f"archon.{name}.{side}",
                what,
                speed,
                "tok/CPU-s",
                statistics.median(rates["archon"]),
                "without",
                note=ratio_spread(rates[side], rates["archon"]),
            ),
            Result(
                f"archon.{name}.{side}.memory",
                f"peak memory, {what}",
                peak,
                "MB",
                plain,
                "without",
                is_higher_better=False,
            ),
        ]
    return results


def _peak_mb(side: str, dtype: torch.dtype, fill: float, sizes: Sizes) -> float:
    arguments = [side, str(dtype).removeprefix("torch."), str(fill)]
    arguments.append(json.dumps(dataclasses.asdict(sizes)))
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as folder:
        return float(run_for_json("benchmarks.archon.memory", arguments, Path(folder))["mb"])

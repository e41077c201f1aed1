"""The model that GRPO starts from, made by a short supervised warm-up."""

from __future__ import annotations

from pathlib import Path

from benchmarks.processes import run_to_end, train_command
from benchmarks.settings import Settings


def warm_up(settings: Settings, folder: Path, seed: int, steps: int | None) -> tuple[Path, float]:
    """Train a small model from random weights with the warm-up configuration.

    Args:
        settings: For the configuration.
        folder: Takes the run.
        seed: Of weights, data and their order.
        steps: Optimiser steps; None leaves the configuration's.

    Returns:
        The folder of the model, and the wall time in seconds.
    """
    overrides: dict[str, object] = {
        **run_place(folder, "sft"),
        "seed": seed,
        "run.model.seed": seed,
        "train_dataset.dataset_kwargs.seed": seed,
    }
    if steps is not None:
        overrides["total_train_steps"] = steps
    seconds = run_to_end(train_command(settings.sft_config, overrides), folder / "sft_process")
    return folder / "benchmark" / "sft" / "model", seconds


def run_place(folder: Path, trial: str) -> dict[str, object]:
    """Return the overrides that put a run into ``folder/benchmark/trial``."""
    return {"cluster.fileroot": folder, "experiment_name": "benchmark", "trial_name": trial}

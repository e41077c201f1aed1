"""The same sides on a CUDA device: tokens per second, model FLOPs utilisation, memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.archon.sides import (
    Batch,
    Sizes,
    Step,
    archon_step,
    check_same_loss,
    hf_padded_step,
    hf_positions_step,
    make_batch,
    make_hf,
    num_parameters,
    num_real_tokens,
    warm_up,
)
from benchmarks.results import Result
from benchmarks.settings import Settings

# The shape of Qwen3-0.6B.
SIZES = Sizes(1024, 3072, 28, 16, 8, 128, 151_936, 16, 2048)
FILLS = {"fill_30": 0.3, "fill_100": 1.0}
NUM_BATCHES = 2
_MATRIX = 8192  # side of the matrices whose product says what the device can do
_FLASH = "flash_attention_2"


def run(settings: Settings) -> list[Result]:
    """Measure bf16 on the first CUDA device; nothing where there is none."""
    if not torch.cuda.is_available():
        return []
    device = torch.device("cuda", 0)
    steps = {name: make(SIZES, torch.bfloat16, device) for name, make in _sides().items()}
    peak_flops = _measured_flops(device)
    results: list[Result] = []
    for key, fill in FILLS.items():
        batches = [make_batch(SIZES, fill, seed, device) for seed in range(NUM_BATCHES)]
        check_same_loss(
            {name: warm_up(step, batches) for name, step in steps.items()}, torch.bfloat16
        )
        rates = {name: _rate(step, batches, settings.repetitions) for name, step in steps.items()}
        memory = {name: _peak_gb(step, batches[0], device) for name, step in steps.items()}
        flops = _flops_per_token(batches)
        mfu = {name: f"MFU {rate * flops / peak_flops:.0%}" for name, rate in rates.items()}
        results += [
            result
            for name in rates
            if name != "archon"
            for result in _rows(key, fill, name, rates, memory, mfu)
        ]
    return results


def _sides() -> dict[str, Callable[..., Step]]:
    from transformers.utils import is_flash_attn_2_available

    sides: dict[str, Callable[..., Step]] = {
        "archon": archon_step,
        "HF padded, sdpa": hf_padded_step,
        "HF packed by position ids, sdpa": hf_positions_step,
    }
    if is_flash_attn_2_available():
        sides["HF packed by position ids, flash"] = partial(hf_positions_step, attention=_FLASH)
    return sides


def _rows(
    key: str,
    fill: float,
    name: str,
    rates: dict[str, float],
    memory: dict[str, float],
    mfu: dict[str, str],
) -> list[Result]:
    note = f"{mfu['archon']} against {mfu[name]} of a measured bf16 matrix product"
    what = f"CUDA bf16, forward and backward, {fill:.0%} real"
    stem = f"archon.cuda.{key}.{name}"
    return [
        Result(stem, what, rates["archon"], "tok/s", rates[name], name, note=note),
        Result(
            f"{stem}.memory",
            f"{what}, peak memory",
            memory["archon"],
            "GB",
            memory[name],
            name,
            is_higher_better=False,
        ),
    ]


def _rate(step: Step, batches: list[Batch], repetitions: int) -> float:
    """Return the median of real tokens per second."""
    rates = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for batch in batches:
            step(batch)
        torch.cuda.synchronize()
        rates.append(num_real_tokens(batches) / (time.perf_counter() - started))
    return statistics.median(rates)


def _peak_gb(step: Step, batch: Batch, device: torch.device) -> float:
    """Return the peak of one pass above what lay there before, in GB of 2**30 bytes."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step(batch)
    return (torch.cuda.max_memory_allocated(device) - before) / 2**30


def _flops_per_token(batches: list[Batch]) -> float:
    """Return the operations of forward and backward for a real token.

    Source:
        Chowdhery et al. 2022, arXiv:2204.02311, appendix B: 6 for each weight, and
        12 x layers x heads x head size x length for attention, of which a causal mask needs half.
    """
    with torch.device("meta"):
        model = make_hf(SIZES, torch.bfloat16, torch.device("meta"), "sdpa")
    embedding = SIZES.vocab_size * SIZES.hidden_size  # a look-up is no product
    weights = num_parameters(model) - embedding
    lengths = torch.cat([batch["attention_mask"].sum(1) for batch in batches]).double()
    mean_length = float((lengths * lengths).sum() / lengths.sum())
    attention = 6 * SIZES.num_layers * SIZES.num_heads * SIZES.head_dim * mean_length
    return 6 * weights + attention


def _measured_flops(device: torch.device) -> float:
    """Return what a large matrix product reaches, in operations per second."""
    a = torch.randn(_MATRIX, _MATRIX, dtype=torch.bfloat16, device=device)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
    return 10 * 2 * _MATRIX**3 / (time.perf_counter() - started)

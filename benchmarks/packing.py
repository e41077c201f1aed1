"""Training on packed sequences: the train engine beside a padded batch in plain transformers.

Shape letters: B sequences, L padded length, V vocabulary.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.cli_args import OptimizerConfig, TrainEngineConfig
from areal.api.io_struct import FinetuneSpec
from areal.engine.model.lora import LoraCausalLM, make_config
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.trainer.sft import num_loss_tokens, sft_loss_fn
from benchmarks.clock import interleaved_rates, ratio_spread, use_one_thread
from benchmarks.reference_model import make_reference, plain_transformers_copy
from benchmarks.results import Result
from benchmarks.settings import Settings

NUM_SEQUENCES = 32
PADDED_LENGTH = 256
LEARNING_RATE = 1e-4
LORA_RANK = 32
IGNORED_LABEL = -100  # what transformers leaves out of its loss
# Batches of different lengths, so that no side sees the same shape every time.
NUM_BATCHES = 4
FILLS = {"fill_30": 0.3, "fill_100": 1.0}


def run(settings: Settings) -> list[Result]:
    """Measure real tokens per CPU second of whole steps: of all weights, and of an adapter."""
    use_one_thread()
    weights, tokenizer = make_reference()
    theirs = plain_transformers_copy(weights.module)
    step = _packed_step(weights)
    padded_step = _padded_step(theirs)
    results = []
    for key, fill in FILLS.items():
        batches = [make_batch(fill, len(tokenizer), seed) for seed in range(NUM_BATCHES)]
        num_tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
        rates = interleaved_rates(
            {
                "packed": lambda b=batches, n=num_tokens: _train_on(step, b, n),
                "padded": lambda b=batches, n=num_tokens: _train_on(padded_step, b, n),
            },
            settings.repetitions,
        )
        results.append(
            Result(
                f"packing.{key}",
                f"training step, {fill:.0%} of a {NUM_SEQUENCES} x {PADDED_LENGTH} batch is real",
                statistics.median(rates["packed"]),
                "tok/CPU-s",
                statistics.median(rates["padded"]),
                "padded batch in transformers",
                note=ratio_spread(rates["packed"], rates["padded"]),
            )
        )
    # The last batches: full ones.
    adapted, _ = make_reference()
    adapted.lm = LoraCausalLM(adapted.module, make_config("run.model", LORA_RANK, LORA_RANK, []))
    adapted_step = _packed_step(adapted)
    rates = interleaved_rates(
        {
            "adapter": lambda: _train_on(adapted_step, batches, num_tokens),
            "all weights": lambda: _train_on(step, batches, num_tokens),
        },
        settings.repetitions,
    )
    results.append(
        Result(
            "packing.lora",
            f"training step of a LoRA adapter, rank {LORA_RANK}, the same full batch",
            statistics.median(rates["adapter"]),
            "tok/CPU-s",
            statistics.median(rates["all weights"]),
            "all weights",
            note=ratio_spread(rates["adapter"], rates["all weights"]),
        )
    )
    return results


def _train_on(
    step: Callable[[dict[str, Tensor]], Any], batches: list[dict[str, Tensor]], num_tokens: int
) -> int:
    for batch in batches:
        step(batch)
    return num_tokens


def make_batch(fill: float, vocab_size: int, seed: int) -> dict[str, Tensor]:
    """Make a right-padded batch: one row is full, the share ``fill`` of all places is real.

    Returns:
        ``input_ids``, ``attention_mask`` and ``loss_mask`` [B, L]; the loss is on every token that
        has a successor, at the place that predicts it.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths_B = _row_lengths(fill, generator)
    column_L = torch.arange(PADDED_LENGTH)
    mask_BL = column_L < lengths_B[:, None]
    ids_BL = torch.randint(3, vocab_size, mask_BL.shape, generator=generator, dtype=torch.int32)
    return {
        "input_ids": ids_BL * mask_BL,
        "attention_mask": mask_BL,
        "loss_mask": (column_L < lengths_B[:, None] - 1).int(),
    }


def _row_lengths(fill: float, generator: torch.Generator) -> Tensor:
    """Return lengths [B]: one is the longest, the others scatter around what the fill needs."""
    if fill == 1.0:
        return torch.full((NUM_SEQUENCES,), PADDED_LENGTH)
    others = NUM_SEQUENCES - 1
    mean = (fill * NUM_SEQUENCES - 1) * PADDED_LENGTH / others
    even = torch.linspace(0.1 * mean, 1.9 * mean, others).round().long()
    shuffled = even[torch.randperm(others, generator=generator)]
    return torch.cat([torch.tensor([PADDED_LENGTH]), shuffled])


def _packed_step(weights: SharedWeights) -> Callable[[dict[str, Tensor]], Any]:
    optimizer = OptimizerConfig(lr=LEARNING_RATE, lr_scheduler_type="constant")
    engine = HFTrainEngine(TrainEngineConfig(backend="fsdp:d1", optimizer=optimizer), weights)
    engine.initialize(
        None, FinetuneSpec(total_train_epochs=1, dataset_size=1000, train_batch_size=1)
    )
    engine.train()
    return lambda batch: engine.train_batch(batch, sft_loss_fn, num_loss_tokens)


def _padded_step(model: Any) -> Callable[[dict[str, Tensor]], Any]:
    """Return a step as one writes it by hand: padded batch, mask, the model's own loss."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(batch: dict[str, Tensor]) -> float:
        ids_BL, mask_BL = batch["input_ids"].long(), batch["attention_mask"]
        labels_BL = ids_BL.masked_fill(~mask_BL, IGNORED_LABEL)
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids_BL, attention_mask=mask_BL, labels=labels_BL).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step

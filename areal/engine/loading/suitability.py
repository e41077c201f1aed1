"""Which models the engines compute faithfully; others are refused at the start."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.engine.local.slots import DecodePlan, PrefillPlan, SlotCache
from areal.engine.model.causal_lm import CausalLM

# Anything else (convolutions, state spaces, chunks) mixes tokens in ways that no plan controls.
_KNOWN_LAYER_TYPES = {"full_attention", "sliding_attention"}
# Two, so that a leak from one into the other is seen; not of one length, so that padding is.
_TRIAL_LENGTHS = (6, 4)
# Share of the logits' norm that may differ: rounding is 1e-6 in fp32, and in 16 bits another
# expert may be chosen.
_TOLERANCE_FP32 = 1e-4
_TOLERANCE_16_BIT = 0.1


def check_declared(model: Any) -> None:
    """Refuse a model by what it says of itself.

    Raises:
        ConfigError: Its attention cannot be replaced from outside, or it has layers of other kinds.
    """
    name = type(model).__name__
    if not getattr(model, "_supports_attention_backend", False):
        raise ConfigError(
            f"{name} does not take an attention function from outside, which the embedded engine "
            "needs; transformers' models with _supports_attention_backend do"
        )
    config = model.config.get_text_config()
    unknown = sorted(set(getattr(config, "layer_types", None) or ()) - _KNOWN_LAYER_TYPES)
    if unknown:
        raise ConfigError(
            f"{name} has layers of type {', '.join(unknown)}; the engine runs models whose "
            f"layers are all {' or '.join(sorted(_KNOWN_LAYER_TYPES))}"
        )


@torch.no_grad()
def own_logits(model: Any) -> Tensor:
    """Return the logits [T, V] of a trial as a Hugging Face model itself computes them."""
    embedding = model.get_input_embeddings().weight
    trial = _trial(len(embedding), embedding.device)
    rows = [model(input_ids=ids[None], use_cache=False).logits[0] for ids in trial]
    return torch.cat(rows).float()


@torch.no_grad()
def apart_logits(lm: CausalLM) -> Tensor:
    """Return the logits [T, V] of the trial, one sequence at a time and without a plan."""
    rows = [
        lm.logits(ids, torch.arange(len(ids), device=lm.device), [len(ids)])
        for ids in _trial(lm.num_embeddings, lm.device)
    ]
    return torch.cat(rows).float()


@torch.no_grad()
def planned_logits(lm: CausalLM) -> Tensor:
    """Return the same by the plans: a packed prefill of all but the last tokens, then a decode."""
    trial, device = _trial(lm.num_embeddings, lm.device), lm.device
    cache = SlotCache(lm.num_layers, device)
    lengths = [len(ids) - 1 for ids in trial]
    first = lm.logits(
        torch.cat([ids[:-1] for ids in trial]),
        torch.cat([torch.arange(n) for n in lengths]).to(device),
        lengths,
        PrefillPlan(cache, lengths, range(len(lengths)), 0),
    )
    positions = torch.tensor(lengths, device=device)
    columns = max(lengths) + 1
    cache.reserve(len(lengths), columns)
    last = lm.logits(
        torch.stack([ids[-1] for ids in trial]),
        positions,
        [1] * len(trial),
        DecodePlan(cache, positions, columns),
    )
    pairs = zip(first.split(lengths), last, strict=True)
    return torch.cat([torch.cat([rows, row[None]]) for rows, row in pairs]).float()


def check_equal(
    model: nn.Module,
    own: Tensor,
    found: Tensor,
    where: str = "in the embedded engine",
    why: str = "some layer of it mixes tokens in a way of its own",
) -> None:
    """Refuse a model that computes something else in an engine than by itself.

    Args:
        model: The model.
        own: What it computes by itself, [T, V].
        found: What it computes in the engine.
        where: The engine, for the message.
        why: What the reason may be, for the message.

    Raises:
        ConfigError: The logits differ by more than rounding.
    """
    is_fp32 = next(model.parameters()).dtype == torch.float32
    tolerance = _TOLERANCE_FP32 if is_fp32 else _TOLERANCE_16_BIT
    difference = float((own - found).norm() / own.norm())
    if difference > tolerance:  # false for NaN: weights that are not finite are another problem
        raise ConfigError(
            f"{type(model).__name__} computes other logits {where} than by itself, "
            f"sequence by sequence (relative difference {difference:.1e}): {why}"
        )


def _trial(num_embeddings: int, device: torch.device) -> list[Tensor]:
    """Return a few sequences of token ids."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(num_embeddings, (sum(_TRIAL_LENGTHS),), generator=generator)
    return list(ids.to(device).split(_TRIAL_LENGTHS))

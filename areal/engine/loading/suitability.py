"""Which models the engines compute faithfully; others are refused at the start."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.engine.local.slots import DecodePlan, PrefillPlan, SlotCache
from areal.engine.model.causal_lm import CausalLM, PackedInputs
from areal.engine.model.image_text import ImageTextLM
from areal.utils.hf_utils import ordinary_token_ids
from areal.utils.image import VisionPrompt, process_vision_prompt

# Anything else (convolutions, state spaces, chunks) mixes tokens in ways that no plan controls.
_KNOWN_LAYER_TYPES = {"full_attention", "sliding_attention"}
# Two, so that a leak from one into the other is seen; not of one length, so that padding is.
_TRIAL_LENGTHS = (6, 4)
# Share of the logits' norm that may differ: rounding is 1e-6 in fp32, and in 16 bits another
# expert may be chosen.
_TOLERANCE_FP32 = 1e-4
_TOLERANCE_16_BIT = 0.1


def check_declared(model: Any) -> None:
    """Refuse a model by its own configuration.

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
        DecodePlan(cache, positions),
    )
    pairs = zip(first.split(lengths), last, strict=True)
    return torch.cat([torch.cat([rows, row[None]]) for rows, row in pairs]).float()


@torch.no_grad()
def compare_images(lm: ImageTextLM, processor: Any) -> None:
    """Refuse a model that computes something else of images in an engine than by itself.

    Args:
        lm: The model.
        processor: Its own.

    Raises:
        ConfigError: The logits of a trial with an image differ, or one of both fails.
    """
    model: Any = lm.module
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    was_training = model.training
    model.eval()
    try:
        text = processor.tokenizer.decode(ordinary_token_ids(processor.tokenizer, 6))
        shown = process_vision_prompt(
            processor, f"{processor.image_token}{text}", [Image.fromarray(noise)]
        )
        own = _own_image_logits(lm, shown)
        found = _planned_image_logits(lm, shown)
    # Anything, as the code of a hundred models runs here for the first time.
    except Exception as error:
        raise ConfigError(
            f"{type(model).__name__} does not run with images in the embedded engine: "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        model.train(was_training)
    check_equal(
        model,
        own,
        found,
        why="its images need what the engines do not have, such as tokens that "
        "attend to later ones",
    )


def _own_image_logits(lm: ImageTextLM, shown: VisionPrompt) -> Tensor:
    """Return the logits [L, V] of a prompt with an image as the model itself computes them."""
    model: Any = lm.module
    text = model.config.get_text_config()
    planned, text._attn_implementation = text._attn_implementation, "sdpa"
    try:
        ids = torch.tensor([shown.input_ids], device=lm.device)
        inputs = {name: x.to(lm.device) for name, x in shown.features.items()}
        inputs["mm_token_type_ids"] = torch.tensor([shown.mm_token_type_ids], device=lm.device)
        taken = inspect.signature(model.forward).parameters
        inputs = {name: x for name, x in inputs.items() if name in taken}
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].to(lm.dtype)
        logits: Tensor = model(input_ids=ids, use_cache=False, **inputs).logits[0]
        return logits.float()
    finally:
        text._attn_implementation = planned


def _planned_image_logits(lm: ImageTextLM, shown: VisionPrompt) -> Tensor:
    """Return the same by the plans, in a batch with a sequence of text."""
    device, image_ids = lm.device, torch.tensor(shown.input_ids, device=lm.device)
    rows = [_trial(lm.num_embeddings, device)[0], image_ids]
    rows[0] = rows[0].masked_fill(torch.isin(rows[0], torch.tensor(lm.placeholders)), 0)
    cache = SlotCache(lm.num_layers, device)
    lengths = [len(ids) - 1 for ids in rows]
    sight = lm.see(shown.input_ids, shown.features)
    assert sight is not None
    batch = PackedInputs(
        torch.cat([ids[:-1] for ids in rows]),
        torch.cat([torch.arange(n) for n in lengths]).to(device),
        lengths,
        torch.arange(sum(lengths), device=device),
        [None, sight],
    )
    first = lm.packed_logits(batch, PrefillPlan(cache, lengths, range(len(lengths)), 0))
    columns = torch.tensor(lengths, device=device)
    cache.reserve(len(lengths), max(lengths) + 1)
    last = lm.logits(
        torch.stack([ids[-1] for ids in rows]),
        columns + torch.tensor([0, sight.shift], device=device),
        [1] * len(rows),
        DecodePlan(cache, columns),
    )
    return torch.cat([first[lengths[0] :], last[1:]]).float()


def check_equal(
    model: nn.Module,
    own: Tensor,
    found: Tensor,
    where: str = "in the embedded engine",
    why: str = "some layer of it mixes tokens in its own way",
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

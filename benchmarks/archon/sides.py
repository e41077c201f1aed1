"""One model trained in four ways that must give one loss.

Shape letters: B sequences, L padded length, T packed tokens, N positions that carry loss, V
vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.cli_args import ArchonEngineConfig, MicroBatchSpec, TrainEngineConfig
from areal.engine.loading.archon import build_archon_model, prepare_archon_model
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.archon import ArchonTrainEngine
from areal.engine.training.engine import HFTrainEngine, PackedTrainEngine
from areal.utils.data import pack_mb_list, split_padded_tensor_dict_into_mb_list
from areal.utils.functional import gather_logprobs

IGNORED_LABEL = -100  # what transformers leaves out of its loss

Batch = dict[str, Tensor]
Step = Callable[[Batch], Tensor]


@dataclass(frozen=True)
class Sizes:
    """Describes a Qwen3 model and the batches it is trained on."""

    hidden_size: int = 256
    intermediate_size: int = 768
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    vocab_size: int = 2048
    num_sequences: int = 16
    padded_length: int = 256


def make_hf(sizes: Sizes, dtype: torch.dtype, device: torch.device, attention: str) -> Any:
    """Make transformers' model with the same random weights every time."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    config = Qwen3Config(
        hidden_size=sizes.hidden_size,
        intermediate_size=sizes.intermediate_size,
        num_hidden_layers=sizes.num_layers,
        num_attention_heads=sizes.num_heads,
        num_key_value_heads=sizes.num_kv_heads,
        head_dim=sizes.head_dim,
        vocab_size=sizes.vocab_size,
        max_position_embeddings=sizes.padded_length,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    return model.to(device).train()


def archon_step(
    sizes: Sizes,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig | None = None,
    *,
    is_recomputed: bool = False,
) -> Step:
    """Return a pass of the Archon model in its train engine.

    Args:
        sizes: Of the model.
        dtype: Of its parameters.
        device: Where it is.
        options: Of the engine.
        is_recomputed: Whether activations are computed again, as the options name.
    """
    options = options or ArchonEngineConfig()
    theirs = make_hf(sizes, dtype, device, "sdpa")
    config = copy.deepcopy(theirs.config)
    lm = build_archon_model(config, dtype, device, options, "the benchmark")
    state = lm.module.state_dict()
    with torch.no_grad():
        for name, tensor in lm.adapter.from_hf(dict(theirs.state_dict())).items():
            state[name].copy_(tensor)
    weights = SharedWeights(prepare_archon_model(lm))
    engine_config = TrainEngineConfig(
        backend="archon:d1", archon=options, gradient_checkpointing=is_recomputed
    )
    engine = ArchonTrainEngine(engine_config, weights)
    engine.initialize()
    return _engine_step(engine)


def hf_packed_step(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> Step:
    """Return a pass of transformers' model in this package's train engine."""
    model = prepare_model(make_hf(sizes, dtype, device, "sdpa"), device)
    config = TrainEngineConfig(backend="fsdp:d1")
    return _engine_step(HFTrainEngine(config, SharedWeights(model)))


def _engine_step(engine: PackedTrainEngine) -> Step:
    engine.train()

    def step(batch: Batch) -> Tensor:
        losses: list[Tensor] = []
        mb_list = split_padded_tensor_dict_into_mb_list(batch, MicroBatchSpec())
        engine.module.zero_grad(set_to_none=True)

        def loss_fn(logits_NV: Tensor, mb: dict[str, Any]) -> Tensor:
            keep_N = mb["loss_mask"].nonzero().squeeze(1)
            labels_N = mb["input_ids"].roll(-1)[keep_N]
            loss = -gather_logprobs(logits_NV, labels_N).mean()
            losses.append(loss.detach())
            return loss

        engine.forward_backward_batch(pack_mb_list(mb_list), loss_fn)
        return losses[0]

    return step


def hf_positions_step(
    sizes: Sizes, dtype: torch.dtype, device: torch.device, attention: str = "sdpa"
) -> Step:
    """Return a pass over a packed row whose sequences transformers finds by their positions."""
    model = make_hf(sizes, dtype, device, attention)

    def step(batch: Batch) -> Tensor:
        mask_BL = batch["attention_mask"].bool()
        positions_BL = torch.arange(mask_BL.shape[1], device=mask_BL.device).expand_as(mask_BL)
        labels_BL = batch["input_ids"].long().clone()
        labels_BL[:, 0] = IGNORED_LABEL  # nothing predicts the first token of a sequence
        model.zero_grad(set_to_none=True)
        loss: Tensor = model(
            input_ids=batch["input_ids"].long()[mask_BL][None],
            position_ids=positions_BL[mask_BL][None],
            labels=labels_BL[mask_BL][None],
            use_cache=False,
        ).loss
        loss.backward()
        return loss.detach()

    return step


def hf_padded_step(
    sizes: Sizes, dtype: torch.dtype, device: torch.device, attention: str = "sdpa"
) -> Step:
    """Return a pass over a padded batch, as one writes it by hand."""
    model = make_hf(sizes, dtype, device, attention)

    def step(batch: Batch) -> Tensor:
        ids_BL, mask_BL = batch["input_ids"].long(), batch["attention_mask"]
        model.zero_grad(set_to_none=True)
        loss: Tensor = model(
            input_ids=ids_BL,
            attention_mask=mask_BL,
            labels=ids_BL.masked_fill(~mask_BL.bool(), IGNORED_LABEL),
            use_cache=False,
        ).loss
        loss.backward()
        return loss.detach()

    return step


def _option_step(**fields: Any) -> Callable[..., Step]:
    options = ArchonEngineConfig(**fields)
    return partial(archon_step, options=options, is_recomputed=not options.enable_compile)


OPTIONS: dict[str, Callable[..., Step]] = {
    "ac_full": _option_step(ac_mode="full"),
    "ac_selective": _option_step(ac_mode="selective"),
    "compile": _option_step(enable_compile=True),
}
"""The Archon model with an option of its engine, each beside the model without."""

SIDES: dict[str, Callable[..., Step]] = {
    "archon": archon_step,
    "hf_packed": hf_packed_step,
    "hf_padded": hf_padded_step,
    "hf_positions": hf_positions_step,
}
LABELS = {
    "hf_packed": "HF packed, planned attention",
    "hf_padded": "HF padded",
    "hf_positions": "HF packed by position ids, sdpa",
}


def make_batch(sizes: Sizes, fill: float, seed: int, device: torch.device) -> Batch:
    """Make a right-padded batch: one row is full, the share ``fill`` of all places is real.

    Returns:
        ``input_ids``, ``attention_mask`` and ``loss_mask`` [B, L]; the loss is on every token that
        has a successor, at the place that predicts it.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths_B = _lengths(sizes, fill, generator)
    column_L = torch.arange(sizes.padded_length)
    mask_BL = column_L < lengths_B[:, None]
    ids_BL = torch.randint(0, sizes.vocab_size, mask_BL.shape, generator=generator)
    batch = {
        "input_ids": (ids_BL * mask_BL).int(),
        "attention_mask": mask_BL,
        "loss_mask": (column_L < lengths_B[:, None] - 1).int(),
    }
    return {name: tensor.to(device) for name, tensor in batch.items()}


def _lengths(sizes: Sizes, fill: float, generator: torch.Generator) -> Tensor:
    """Return lengths [B]: one is the longest, the others scatter around what the fill needs."""
    count, longest = sizes.num_sequences, sizes.padded_length
    if fill == 1.0:
        return torch.full((count,), longest)
    mean = max(2.0, (fill * count - 1) * longest / (count - 1))
    even = torch.linspace(0.3 * mean, 1.7 * mean, count - 1).round().long().clamp(2, longest)
    return torch.cat(
        [torch.tensor([longest]), even[torch.randperm(count - 1, generator=generator)]]
    )


def check_same_loss(losses: dict[str, Tensor], dtype: torch.dtype) -> float:
    """Return the largest relative difference of the losses of all sides.

    Raises:
        ArithmeticError: They are not one loss: speed would be compared between different things.
    """
    values = {name: float(loss.float()) for name, loss in losses.items()}
    low, high = min(values.values()), max(values.values())
    difference = (high - low) / high
    if not difference < (1e-4 if dtype == torch.float32 else 2e-2):
        raise ArithmeticError(f"the sides disagree: {values}")
    return difference


def num_real_tokens(batches: list[Batch]) -> int:
    """Return how many tokens are not padding."""
    return sum(int(batch["attention_mask"].sum()) for batch in batches)


def num_parameters(module: nn.Module) -> int:
    """Return the number of weights that take part in products."""
    return sum(p.numel() for p in module.parameters() if p.ndim > 1)


def warm_up(step: Step, batches: list[Batch]) -> Tensor:
    """Run all batches once and returns the loss of the first."""
    first, *_ = [step(batch) for batch in batches]
    return first

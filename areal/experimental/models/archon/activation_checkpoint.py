"""Activation checkpointing: what a block keeps, and what its backward computes again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch._functorch.config as functorch_config
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from areal.api.errors import ConfigError

MODES = ("none", "full", "selective", "memory_budget")

# Results that cost much to compute for the memory they take. Names, because not every build of
# PyTorch has each.
_WORTH_KEEPING = (
    "aten.mm.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "_c10d_functional.reduce_scatter_tensor.default",
    "_c10d_functional.all_to_all_single.default",
)


@dataclass
class ActivationCheckpointConfig:
    """What is computed again in the backward.

    Attributes:
        mode: "none"; "full", every block; "selective", see the next; "memory_budget", which the
            compiler decides.
        selective_ac_option: "op" keeps the costly results and every second matrix product of a
            block; a number n checkpoints every n-th block as a whole.
        memory_budget: For that mode: share of the activations that may be kept, 0 to 1.
        preserve_rng_state: Whether dropout draws the same again; costs a synchronisation.
        debug: Whether PyTorch records where a mismatch comes from.

    Raises:
        ConfigError: A value is unknown or out of range.
    """

    mode: str = "selective"
    selective_ac_option: str = "op"
    memory_budget: float = 0.5
    preserve_rng_state: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"unknown mode {self.mode!r}; known: {', '.join(MODES)}")
        option = self.selective_ac_option
        if option != "op" and not (option.isdigit() and int(option) > 0):
            raise ConfigError(f"selective_ac_option is 'op' or a positive number, found {option!r}")
        if not 0 <= self.memory_budget <= 1:
            raise ConfigError(f"memory_budget must lie in [0, 1], found {self.memory_budget}")


def apply_ac(
    model: nn.Module,
    ac_config: ActivationCheckpointConfig | None,
    *,
    model_compile_enabled: bool = False,
    op_sac_save_list: set[Any] | None = None,
) -> None:
    """Wrap the blocks of a model by the mode.

    Args:
        model: Has ``layers``.
        ac_config: None is no checkpointing.
        model_compile_enabled: Whether the blocks will be compiled.
        op_sac_save_list: For the "op" option: the operators whose results are kept.

    Raises:
        ConfigError: "memory_budget" without compilation, which is what decides there.
    """
    if ac_config is None or ac_config.mode == "none":
        return
    if ac_config.mode == "memory_budget":
        if not model_compile_enabled:
            raise ConfigError("ac_mode 'memory_budget' is decided by the compiler: enable_compile")
        functorch_config.activation_memory_budget = ac_config.memory_budget
        # Distributed parameters bring their device mesh into the graph, which holds no activations.
        functorch_config.unsafe_treat_script_objects_as_zero_size = True
        return
    saved = default_save_list() if op_sac_save_list is None else op_sac_save_list
    for number, (name, block) in enumerate(model.layers.items()):
        model.layers[name] = _wrap(block, number, ac_config, saved)


def default_save_list() -> set[Any]:
    """Return the operators whose results the "op" option keeps."""
    found = set()
    for name in _WORTH_KEEPING:
        operator: Any = torch.ops
        for part in name.split("."):
            operator = getattr(operator, part, None)
            if operator is None:
                break
        if operator is not None:
            found.add(operator)
    return found


def _wrap(
    block: nn.Module, number: int, config: ActivationCheckpointConfig, saved: set[Any]
) -> nn.Module:
    options: dict[str, Any] = {
        "preserve_rng_state": config.preserve_rng_state,
        "debug": config.debug,
    }
    if config.mode == "selective":
        if config.selective_ac_option == "op":
            options["context_fn"] = partial(_selective_contexts, saved)
        elif (number + 1) % int(config.selective_ac_option):
            return block
    return checkpoint_wrapper(block, **options)


def _selective_contexts(saved: set[Any]) -> Any:
    """Keep what is in ``saved``, of matrix products every second one.

    Source: torchtitan's selective checkpointing keeps every second ``mm``.
    """
    seen: dict[bool, int] = defaultdict(int)

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        keep = operator in saved
        if operator == torch.ops.aten.mm.default:
            seen[context.is_recompute] += 1
            keep = keep and seen[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)

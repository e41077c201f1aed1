"""Compare the sizes of a full configuration, which tiny models may hide by rounding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from archon_probe.measure.random_weights import build_model
from archon_probe.proof.build import read_args


def compare_sizes(spec: Any, real: PretrainedConfig, tiny: PretrainedConfig) -> str:
    """Return how many parameters a model lacks or has too many under a configuration; "" for none.

    A size that is rounded to a multiple, or that only small configurations share with another one,
    is right in every tiny model and wrong in the real one. Nothing is allocated.

    Args:
        spec: Of the Archon model.
        real: The configuration as it was given.
        tiny: One in which both models are known to be the same; what transformers has beside, such
            as heads of other tasks, shows there.
    """
    text = real.get_text_config(decoder=True)
    found, wanted = _counts(spec, text)
    if found is None or wanted is None:
        return ""
    beside = _counts(spec, tiny)
    # Parameters that nothing computes with grow with the configuration.
    if beside[0] != beside[1] or found == wanted:
        return ""
    return f"the full configuration has {wanted:,} parameters in transformers and {found:,} here"


def _counts(spec: Any, config: PretrainedConfig) -> tuple[int | None, int | None]:
    args, refusal = read_args(spec, config)
    if refusal is not None:
        return None, None
    with torch.device("meta"):
        archon = spec.model_class(args)
        reference = build_model(config)
    return _count(archon), _count(reference)


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())

"""Compare the sizes of a full configuration, which tiny models may hide by rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PretrainedConfig

from archon_probe.measure.random_weights import build_model
from archon_probe.measure.variations import error_text
from archon_probe.proof.build import read_args


class Sizes(NamedTuple):
    """What counting has shown.

    Attributes:
        differ: Whether the model has other sizes than that of transformers.
        text: The counts, or why nothing was counted.
    """

    differ: bool
    text: str


def compare_sizes(spec: Any, real: PretrainedConfig, tiny: PretrainedConfig) -> Sizes:
    """Count the parameters that a model has under a configuration, here and in transformers.

    A size that is rounded to a multiple, or that only small configurations share with another one,
    is right in every tiny model and wrong in the real one. Nothing is allocated.

    Args:
        spec: Of the Archon model.
        real: The configuration as it was given.
        tiny: One in which both models are known to be the same; what transformers has beside, such
            as heads of other tasks, shows there.
    """
    text = real.get_text_config(decoder=True)
    try:
        wanted = _count(build_model, text)
    except Exception as error:
        # The defaults of some classes are no model's: whatever their code raises.
        return Sizes(False, f"not counted: transformers does not build it: {error_text(error)}")
    try:
        args, refusal = read_args(spec, text)
    except TypeError as error:
        # Some defaults are None, which transformers asks for when the model runs and not before.
        return Sizes(False, f"not counted: a field has no value: {error_text(error)}")
    if refusal is not None:
        return Sizes(False, f"not counted: {refusal}")
    found = _count(spec.model_class, args)
    if found == wanted:
        return Sizes(False, f"{found:,} parameters, as in transformers")
    counts = f"{wanted:,} parameters in transformers and {found:,} here"
    beside, _ = read_args(spec, tiny)
    # Parameters that nothing computes with grow with the configuration.
    if _count(spec.model_class, beside) != _count(build_model, tiny):
        return Sizes(False, f"{counts}, as tiny models have parameters beside, too")
    return Sizes(True, counts)


def _count(build: Any, config: Any) -> int:
    with torch.device("meta"):
        model: nn.Module = build(config)
    return sum(parameter.numel() for parameter in model.parameters())

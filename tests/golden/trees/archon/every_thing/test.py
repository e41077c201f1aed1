"""Is EveryThing what transformers computes?"""

from __future__ import annotations

import torch

from areal.experimental.models.archon.every_thing.spec import EVERY_THING_SPEC


def test_default_arguments_make_a_model() -> None:
    args = EVERY_THING_SPEC.model_args_class()
    with torch.device("meta"):
        model = EVERY_THING_SPEC.model_class(args)
    assert len(model.layers) == args.n_layers

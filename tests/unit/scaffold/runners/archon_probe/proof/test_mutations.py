"""A proof can fail: mistakes made on purpose in models that are right are caught."""

from __future__ import annotations

from typing import Any

import pytest
from archon_probe.measure.tiny import tiny_config
from archon_probe.proof.prove import load_spec

from areal.experimental.models.archon import ARCHON_MODELS
from tests.unit.scaffold.runners.archon_probe.proof import mutations

WINDOWED = {
    "attention_bias": True,
    "tie_word_embeddings": True,
    "use_sliding_window": True,
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
EXPECTED = {
    "rope dropped",
    "rope pairing flipped",
    "rope base x1.1",
    "attention scale x1.02",
    "future tokens seen",
    "window off by +1",
    "window off by -1",
    "window ignored",
    "norm: eps x10",
    "attention_norm: eps x10",
    "q_norm: missing",
    "wq: no bias",
    "w1 and w3 swapped",
    "output not tied",
    "sequences see each other",
    "padding token without gradient",
}


def missed(model_type: str, **options: Any) -> tuple[set[str], set[str]]:
    """Returns the names of the mistakes that were made, and of those that were not caught."""
    config = tiny_config(model_type)
    config = type(config)(**{**config.to_dict(), **options})
    found = mutations.check_mutations(load_spec(ARCHON_MODELS[model_type]), config)
    return {c.name for c in found}, {c.name for c in found if c.is_exact and not c.is_caught}


# What such a model computes all the same.
WITHOUT_EFFECT = {
    # Its experts gate by a function of their own, and their weights sum to 1 as they are.
    "gpt_oss": {"another activation", "experts: route_norm inverted"},
}


# Under which option a mistake shows that the default hides: there the stream is large beside eps.
SHOWN_BY: dict[str, dict[str, Any]] = {"gemma3_text": {"rms_norm_eps": 1e-3}}


# Experts, windows, and two plain ones; `make test-full` takes all.
SHORT = {"deepseek_v3", "gemma3_text", "llama", "olmo2"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "model_type",
    [
        pytest.param(each, marks=() if each in SHORT else pytest.mark.slow)
        for each in sorted(ARCHON_MODELS)
    ],
)
def test_every_mistake_in_a_registered_model_is_caught(model_type: str) -> None:
    made, not_caught = missed(model_type, **SHOWN_BY.get(model_type, {}))

    assert len(made) > 10
    assert not_caught <= WITHOUT_EFFECT.get(model_type, set())


def test_mistakes_in_options_are_caught() -> None:
    made, not_caught = missed("qwen3", **WINDOWED)

    assert made >= EXPECTED
    assert not not_caught


def test_what_is_right_is_not_called_a_mistake() -> None:
    config = tiny_config("qwen3")
    nothing = mutations.Mutation("nothing", lambda model: None)

    assert not mutations.check(load_spec(ARCHON_MODELS["qwen3"]), config, [nothing])[0].is_caught

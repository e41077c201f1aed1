"""What cannot be made small is refused before it is built, by the name of its size."""

from __future__ import annotations

import pytest
import torch
from archon_probe.design.derive import tiny_model
from archon_probe.errors import ProbeError
from archon_probe.measure import random_weights, size
from archon_probe.measure.tiny import tiny_config
from transformers import CONFIG_MAPPING


def test_a_size_that_no_rule_makes_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_values(*_: object) -> None:
        raise AssertionError("its parameters got values")

    monkeypatch.setattr(random_weights, "randomise", no_values)
    field = r"vision_config\.hidden_size=768"
    with pytest.raises(ProbeError, match=rf"parameters are left where 4,194,304.*{field}"):
        tiny_model(CONFIG_MAPPING["git"]())


def test_a_size_may_be_the_product_of_two_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"vocab_size": 8, "hidden_size": 20, "intermediate_size": 16, "num_hidden_layers": 1}
    config = CONFIG_MAPPING["llama"](**sizes, head_dim=14, num_attention_heads=10)
    monkeypatch.setattr(size, "MOST_PARAMETERS", 10)
    with pytest.raises(ProbeError, match="head_dim=14 times num_attention_heads=10 gives"):
        size.check_size(config, config)


@pytest.mark.parametrize("model_type", ["luke", "inkling_text", "gemma3n_text"])
def test_sizes_of_other_inputs_and_of_some_layers_are_made_small(model_type: str) -> None:
    with torch.device("meta"):
        model = random_weights.build_model(tiny_config(model_type))
    assert sum(p.numel() for p in model.parameters()) < size.MOST_PARAMETERS / 4


def test_fields_that_differ_by_layer_are_named() -> None:
    with pytest.raises(ProbeError, match=r"its layers differ in head_dim \(256, 512\)"):
        tiny_model(CONFIG_MAPPING["gemma4_text"]())


def test_what_cannot_be_built_without_values_is_left_to_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny_config("llama")
    monkeypatch.setattr(size, "MOST_PARAMETERS", 10)
    with pytest.raises(ProbeError, match=r"a size of 96 gives .* the shape"):
        size.check_size(config, CONFIG_MAPPING["llama"]())
    monkeypatch.setattr(size, "build_model", lambda _: torch.ones(1, device="meta").item())
    size.check_size(config, CONFIG_MAPPING["llama"]())

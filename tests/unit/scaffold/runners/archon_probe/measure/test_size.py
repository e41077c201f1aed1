"""What cannot be made small is refused before it is built, by the name of its size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING

RUNNERS = str(Path(__file__).parents[6] / "scaffold" / "runners")
if RUNNERS not in sys.path:
    sys.path.append(RUNNERS)

from archon_probe.design.derive import tiny_model  # noqa: E402
from archon_probe.errors import ProbeError  # noqa: E402
from archon_probe.measure import random_weights, size  # noqa: E402
from archon_probe.measure.tiny import tiny_config  # noqa: E402


@pytest.mark.parametrize(
    ("model_type", "field"),
    [
        ("luke", "entity_vocab_size=500000"),
        ("inkling_text", "swa_head_dim=128 times swa_num_attention_heads=64"),
    ],
)
def test_a_size_that_no_rule_makes_small_is_named(
    model_type: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_values(*_: object) -> None:
        raise AssertionError("its parameters got values")

    monkeypatch.setattr(random_weights, "randomise", no_values)
    with pytest.raises(ProbeError, match=rf"parameters are left where 4,194,304.*{field}"):
        tiny_model(CONFIG_MAPPING[model_type]())


def test_a_config_with_a_smaller_size_is_measured() -> None:
    config = CONFIG_MAPPING["luke"](entity_vocab_size=50, entity_emb_size=8)
    small, model = tiny_model(config)
    assert small.entity_vocab_size == 50
    assert sum(p.numel() for p in model.parameters()) < size.MOST_PARAMETERS


def test_what_cannot_be_built_without_values_is_left_to_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny_config("llama")
    monkeypatch.setattr(size, "MOST_PARAMETERS", 10)
    with pytest.raises(ProbeError, match=r"a size of 96 gives .* the shape"):
        size.check_size(config, CONFIG_MAPPING["llama"]())
    monkeypatch.setattr(size, "build_model", lambda _: torch.ones(1, device="meta").item())
    size.check_size(config, CONFIG_MAPPING["llama"]())

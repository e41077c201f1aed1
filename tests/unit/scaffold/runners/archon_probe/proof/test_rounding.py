"""Are layers below fp32 compared bit by bit, and is what differs named and bounded?"""

from __future__ import annotations

import pytest
from archon_probe.measure.tiny import tiny_config
from archon_probe.proof.rounding import measure_rounding

from areal.experimental.models.archon import ARCHON_MODELS, get_model_spec
from areal.experimental.models.archon.layers.norms import RMSNorm


@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_every_layer_of_a_registered_model_rounds_as_that_of_transformers(model_type: str) -> None:
    found = measure_rounding(get_model_spec(model_type), tiny_config(model_type))
    for dtype, rounding in found.items():
        assert rounding.problem == ""
        assert rounding.layers >= 4
        if (model_type, dtype) == ("gpt_oss", "float16"):
            # Biases of its experts are added after a product is rounded, and not with it.
            assert rounding.error < 2e-4
            assert rounding.modules.keys() == {"moe"}
        else:
            assert rounding.equal == rounding.layers, (dtype, rounding.modules)


def test_a_norm_that_rounds_at_another_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = RMSNorm.__init__

    def late(self: RMSNorm, *args: object, **options: object) -> None:
        plain(self, *args, **{**options, "weight_in_fp32": True})

    monkeypatch.setattr(RMSNorm, "__init__", late)
    found = measure_rounding(get_model_spec("llama"), tiny_config("llama"))["bfloat16"]
    assert found.equal < found.layers
    assert {"attention_norm", "ffn_norm"} <= found.modules.keys()
    # One rounding of bf16 is 2**-8 of a number of order one, and few are above four.
    assert 0 < found.modules["ffn_norm"] < 0.05
    assert "attention.wq" not in found.modules


def test_what_cannot_be_compared_says_why() -> None:
    config = tiny_config("llama")
    config.is_causal = False
    assert "is_causal" in measure_rounding(get_model_spec("llama"), config)["float16"].problem

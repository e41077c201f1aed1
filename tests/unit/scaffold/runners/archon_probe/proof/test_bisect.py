"""The first module that differs is found, whatever it is called on either side."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from archon_probe.measure.tiny import tiny_config
from archon_probe.proof.bisect import bisect
from archon_probe.proof.build import load_spec

from areal.api.errors import ConfigError

QWEN3 = load_spec("areal.experimental.models.archon.qwen3.spec:QWEN3_SPEC")


def spoiled(change: Callable[[Any], None]) -> Any:
    """Returns the spec of a model that is changed after it is built."""

    class Spoiled(QWEN3.model_class):  # type: ignore[misc, name-defined]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            change(self)

    return SimpleNamespace(
        model_class=Spoiled,
        model_args_class=QWEN3.model_args_class,
        state_dict_adapter_class=QWEN3.state_dict_adapter_class,
    )


def eps_of_layer_2(model: Any) -> None:
    model.layers["2"].ffn_norm.eps = 1e-4


def scale_of_layer_1(model: Any) -> None:
    model.layers["1"].attention.core.scale *= 1.02


def detached_layer_1(model: Any) -> None:
    forward = model.layers["1"].feed_forward.forward
    model.layers["1"].feed_forward.forward = lambda x: forward(x.detach())


NORM = ("model.layers.2.post_attention_layernorm", "layers.2.ffn_norm")
PROJECTION = ("model.layers.1.self_attn.o_proj", "layers.1.attention.wo")


@pytest.mark.parametrize(
    ("change", "names", "input_differs"),
    [(eps_of_layer_2, NORM, False), (scale_of_layer_1, PROJECTION, True)],
)
def test_the_first_module_that_differs_is_named(
    change: Callable[[Any], None], names: tuple[str, str], input_differs: bool
) -> None:
    found = bisect(spoiled(change), tiny_config("qwen3"), "default")

    assert (found["hf"]["module"], found["archon"]["module"]) == names
    assert (found["tensor"], found["input_differs"]) == ("output", input_differs)
    assert "def forward" in found["hf"]["source"]
    assert found["hf"]["file"].endswith("modeling_qwen3.py")
    assert "def forward" in found["archon"]["source"]
    assert names[0] in found["text"]


def test_a_wrong_gradient_behind_right_logits_is_found() -> None:
    found = bisect(spoiled(detached_layer_1), tiny_config("qwen3"), "default")

    assert found["tensor"] == "gradient of the output"
    assert found["archon"]["module"] == "layers.1.ffn_norm"


def test_a_module_that_runs_in_pieces_keeps_its_gradients() -> None:
    def in_pieces(model: Any) -> None:
        forward = model.layers["3"].feed_forward.forward
        model.layers["3"].feed_forward.forward = lambda x: torch.cat(
            [forward(piece) for piece in x.split([13, x.shape[1] - 13], dim=1)], dim=1
        )
        detached_layer_1(model)

    found = bisect(spoiled(in_pieces), tiny_config("qwen3"), "default")

    assert found["archon"]["module"] == "layers.1.ffn_norm"


def test_the_same_model_has_no_difference() -> None:
    found = bisect(QWEN3, tiny_config("qwen3"), "default")

    assert found["unknown"] == "all modules that could be paired agree"


def test_what_cannot_be_run_says_why() -> None:
    class Refusing:
        @staticmethod
        def from_hf_config(config: Any) -> Any:
            raise ConfigError("no such option")

    spec = SimpleNamespace(model_args_class=Refusing)
    assert "no such option" in bisect(spec, tiny_config("qwen3"), "x")["unknown"]

    def fail(model: Any) -> None:
        model.layers["0"].forward = None

    assert "its forward fails" in bisect(spoiled(fail), tiny_config("qwen3"), "x")["unknown"]


def test_a_wrong_embedding_is_found_behind_whole_numbers() -> None:
    def scaled(model: Any) -> None:
        forward = model.tok_embeddings.forward
        model.tok_embeddings.forward = lambda tokens: 1.01 * forward(tokens)

    found = bisect(spoiled(scaled), tiny_config("qwen3"), "default")

    assert found["archon"]["module"] == "tok_embeddings"
    assert found["input_differs"] is False

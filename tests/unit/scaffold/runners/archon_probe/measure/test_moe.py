"""The probe of experts: what it finds of transformers' layers, and what it says of others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from archon_probe.measure import moe as moe_probe
from archon_probe.measure import moe_memory
from archon_probe.measure.moe import observe_moe
from torch import Tensor, nn

from areal.experimental.models.archon.moe import MoE, MoEArgs
from tests.unit.experimental.archon.moe.hf_layers import DIM, HIDDEN, LAYERS, tensors_of

# Named otherwise in the table of layers, where several mean the same.
SAME = {"num_shared_experts", "shared_expert_intermediate_size", "shared_activation"}


def found_of(layer: nn.Module) -> dict[str, Any]:
    """Returns what the probe finds."""
    return observe_moe(layer, torch.zeros(1, 4, DIM))


@pytest.mark.parametrize("kind", LAYERS)
def test_findings_make_the_same_layer(kind: str) -> None:
    layer = LAYERS[kind].build()
    before = copy.deepcopy(tensors_of(layer))
    found = found_of(layer)
    moe = MoE(MoEArgs(**found["args"]), DIM, found["hidden_dim"]).eval()
    moe.init_buffers("cpu")
    moe.load_state_dict(found["tensors"])
    x = torch.randn(1, 64, DIM, generator=torch.Generator().manual_seed(4))
    expected = layer(x.clone())
    expected = expected[0] if isinstance(expected, tuple) else expected
    error = ((moe(x) - expected.reshape(x.shape)).norm() / expected.norm()).item()

    assert found["unknown"] == []
    assert found["hidden_dim"] == HIDDEN
    assert error < 1e-6
    after = tensors_of(layer)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("kind", LAYERS)
def test_findings_are_the_layers_options(kind: str) -> None:
    args = LAYERS[kind].args
    found = found_of(LAYERS[kind].build())["args"]
    dtype = found.pop("router_dtype")
    assert isinstance(found.pop("weights_in_fp32"), bool)

    assert dtype == args.get("router_dtype", dtype)
    wanted = {**vars(MoEArgs(**args)), "num_experts": 8}
    # An epsilon this small is in several layers and shows in no ordinary number.
    wanted["route_norm_eps"] = found.get("route_norm_eps", 0.0)
    differing = {n: v for n, v in found.items() if n not in SAME and wanted[n] != v}
    assert differing == {}
    missing = set(args) - set(found) - SAME
    # A slope stands for the activation.
    assert missing <= {"activation", "router_dtype"}
    assert bool(found["num_shared_experts"]) == bool(wanted["num_shared_experts"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("softmax of all, biased choice, least norm", "float32"),
        ("sigmoid, groups by their best two", "float32"),
        ("softmax of all", None),
        ("sparsemixer", None),
    ],
)
def test_dtype_of_the_router(kind: str, expected: str | None) -> None:
    assert found_of(LAYERS[kind].build())["args"]["router_dtype"] == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("softmax of all, normed", True), ("gated shared expert", False)]
)
def test_dtype_of_the_weights_of_experts(kind: str, expected: bool) -> None:
    assert found_of(LAYERS[kind].build())["args"]["weights_in_fp32"] is expected


def test_what_does_not_matter_is_left_out() -> None:
    found = found_of(LAYERS["softmax of the chosen, limits and biases"].build())["args"]
    missing = {"route_norm", "route_norm_eps", "num_limited_groups", "shared_bias", "activation"}

    assert missing & set(found) == set()
    assert found["num_shared_experts"] == 0


def test_experts_that_compute_nothing_are_counted_and_have_no_weights() -> None:
    from transformers.models.longcat_flash.configuration_longcat_flash import LongcatFlashConfig
    from transformers.models.longcat_flash.modeling_longcat_flash import LongcatFlashMoE

    config = LongcatFlashConfig(
        hidden_size=DIM, n_routed_experts=4, expert_ffn_hidden_size=8, moe_topk=2, zero_expert_num=2
    )
    config.router_bias = True
    found = found_of(LongcatFlashMoE(config).eval())

    assert found["args"]["num_zero_experts"] == 2
    assert found["tensors"]["experts.w1"].shape == (4, 8, DIM)


class _WithMore(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + x.square()


def test_what_is_added_in_another_way_is_said() -> None:
    layer = _WithMore(LAYERS["softmax of all, normed"].build())

    assert "is not a sum of" in found_of(layer)["unknown"][0]


def test_a_module_without_experts_is_said() -> None:
    assert "experts" in found_of(nn.Linear(DIM, DIM))["unknown"][0]


def test_experts_of_another_kind_are_said() -> None:
    layer = LAYERS["softmax of all, normed"].build()
    kind = type(layer.experts)

    class Strange(kind):
        def forward(self, *args: Any) -> Tensor:
            return super().forward(*args).sin()

    layer.experts.__class__ = Strange
    assert "layout and activation" in found_of(layer)["unknown"][0]


def test_a_router_that_is_not_known_is_said() -> None:
    layer = LAYERS["softmax of all, normed"].build()
    gate = layer.gate
    kind = type(gate)

    class Strange(kind):
        def forward(self, hidden_states: Tensor) -> Any:
            logits, weights, index = super().forward(hidden_states)
            return logits, weights.square(), index

    gate.__class__ = Strange
    assert "router" in found_of(layer)["unknown"][0]


def looks(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """Returns the modules that the probe looks at from now on, and lets it forget the others."""
    seen: list[nn.Module] = []
    look = moe_probe._look

    def watched(bench: Any) -> Any:
        seen.append(bench.module)
        return look(bench)

    monkeypatch.setattr(moe_probe, "_look", watched)
    monkeypatch.setattr(moe_memory, "_findings", {})
    return seen


def test_a_layer_like_another_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    first = LAYERS["softmax of the chosen, limits and biases"].build()
    second = LAYERS["softmax of the chosen, limits and biases"].build()
    with torch.no_grad():
        second.experts.gate_up_proj.mul_(2)
    found = [found_of(layer) for layer in (first, second)]

    assert len(seen) == 1
    assert found[0]["args"] == found[1]["args"]
    assert torch.equal(found[1]["tensors"]["experts.w3"], 2 * found[0]["tensors"]["experts.w3"])
    assert torch.equal(found[1]["tensors"]["experts.b2"], second.experts.down_proj_bias)


def test_a_layer_that_is_set_up_otherwise_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    first = LAYERS["sigmoid, capped logits"].build()
    second = LAYERS["sigmoid, capped logits"].build()
    second.gate.router_logit_softcapping = 0.5
    found = [found_of(layer)["args"]["router_softcap"] for layer in (first, second)]

    assert found == [1.5, 0.5]
    assert len(seen) == 2


def test_a_field_of_the_config_that_a_layer_reads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)

    def scaled(factor: float) -> nn.Module:
        layer = LAYERS["softmax of all, normed"].build()
        layer.config = copy.copy(layer.experts.config)
        layer.experts.config = layer.config
        layer.config.factor, layer.config.other = factor, factor
        layer.__class__ = _Scaled
        return layer

    class _Scaled(type(LAYERS["softmax of all, normed"].build())):
        def forward(self, hidden_states: Tensor) -> Tensor:
            return super().forward(hidden_states) * self.config.factor

    found = [found_of(scaled(f))["args"]["route_scale"] for f in (2.0, 3.0, 2.0)]

    assert found == [2.0, 3.0, 2.0]
    assert len(seen) == 2


def test_experts_in_a_latent_space_are_said_to_be_so() -> None:
    from transformers.models.nemotron_h.configuration_nemotron_h import NemotronHConfig
    from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHMoE

    sizes = {"n_routed_experts": 4, "moe_intermediate_size": 8, "moe_latent_size": 8}
    config = NemotronHConfig(
        hidden_size=DIM, moe_shared_expert_intermediate_size=8, num_experts_per_tok=2, **sizes
    )
    config._experts_implementation = "eager"
    found = found_of(NemotronHMoE(config).eval())
    assert found["unknown"] == [f"experts that work on 8 features where the stream has {DIM}"]

"""A proof says what is proven, what is refused and what is wrong, and never mixes them up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from archon_probe.measure.random_weights import random_model
from archon_probe.measure.tiny import tiny_config
from archon_probe.measure.variations import Variation
from archon_probe.proof import prove as proofs
from archon_probe.proof.full_size import Sizes
from archon_probe.proof.reference import Reference, Run, make_batch, reference
from torch import Tensor

from scaffold.archon.proof_report import proof_lines
from tests.unit.scaffold.archon.ports import Port, PortAdapter, port


def outcome(spec: Any, **options: Any) -> proofs.Outcome:
    config = tiny_config("qwen3")
    config = type(config)(**{**config.to_dict(), **options})
    with proofs._quiet():
        return proofs.prove_one(spec, Variation("flip", "", None, config), is_default=not options)


def test_what_is_the_same_is_proven() -> None:
    found = outcome(port())

    assert (found.status, found.message) == ("proven", "")
    assert found.forward.ok
    assert found.backward.ok
    assert found.weights.ok
    assert found.backward.tensor  # the worst is named even when it is good


def test_a_refused_variation_is_not_proven() -> None:
    found = outcome(port(), tie_word_embeddings=True)

    assert (found.status, found.message) == ("refused", "this port has no ties")
    assert not found.forward.ok


class Scaled(Port):
    """Is off by 0.1 per mille."""

    def forward(self, *args: Any) -> Tensor:
        return super().forward(*args) * 1.0001


class Detached(Port):
    """Gives the right logits and a wrong gradient."""

    def forward(self, *args: Any) -> Tensor:
        bias = self.hf.model.norm.weight
        return super().forward(*args) + (bias - bias.detach()).sum()


class Broken(Port):
    """Cannot be run."""

    def forward(self, *args: Any) -> Tensor:
        raise RuntimeError("no kernel")


class Lossy(PortAdapter):
    """Loses a tensor on the way back."""

    def to_hf(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: t for n, t in super().to_hf(state).items() if n != "lm_head.weight"}


class Rounding(PortAdapter):
    """Rounds weights on the way in and back."""

    def from_hf(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: t.bfloat16().float() for n, t in super().from_hf(state).items()}


class Renaming(PortAdapter):
    """Gives single tensors another name than all of them together."""

    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        return [(name, tensor)]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"model_class": Scaled}, "forward: logits differ by"),
        ({"model_class": Detached}, "backward: the gradient of model.norm.weight"),
        ({"model_class": Broken}, "RuntimeError: no kernel"),
        ({"state_dict_adapter_class": Lossy}, "missing keys: ['lm_head.weight']"),
        ({"state_dict_adapter_class": Rounding}, "forward: logits differ by"),
        ({"state_dict_adapter_class": Renaming}, "weights: one by one: missing keys"),
    ],
)
def test_what_is_wrong_fails_and_says_where(parts: dict[str, Any], text: str) -> None:
    found = outcome(port(**parts))

    assert found.status == "failed"
    assert text in found.message


def test_a_default_that_is_refused_fails() -> None:
    with proofs._quiet():
        config = type(tiny_config("qwen3"))(tie_word_embeddings=True)
        flip = Variation("default", "", None, tiny_config(config))
        assert proofs.prove_one(port(), flip, is_default=True).status == "failed"


def test_the_summary_names_what_is_refused() -> None:
    proven = proofs.Outcome("default", "", None, "proven", "")
    refused = proofs.Outcome("is_causal=False", "is_causal", False, "refused", "no decoder")

    found = proofs.report("qwen3", [proven, refused], None)

    assert found["summary"].endswith("of 2 configurations; refused: is_causal=False")


def test_the_model_of_the_package_is_proven() -> None:
    spec = "areal.experimental.models.archon.qwen3.spec:QWEN3_SPEC"

    found = proofs.prove({"model_type": "qwen3", "spec": spec, "fast": True})

    assert found["ok"], found["summary"]
    assert found["counts"]["proven"] > 4
    assert found["bisection"] is None


def test_a_wrong_size_of_the_full_configuration_is_a_failure_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proofs, "load_spec", lambda path: port())
    monkeypatch.setattr(
        proofs, "prove_all", lambda *_: [proofs.Outcome("default", "", None, "proven", "")]
    )
    monkeypatch.setattr(proofs, "compare_sizes", lambda *_: Sizes(True, "2 there and 3 here"))
    found = proofs.prove({"model_type": "qwen3", "spec": "a:B"})

    assert not found["ok"]
    assert found["bisection"] is None
    assert found["refusals"] == []
    assert "full configuration: 2 there and 3 here" in proof_lines(found)


def test_a_proof_says_first_where_a_port_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "load_spec", lambda path: port(model_class=Scaled))

    found = proofs.prove({"model_type": "qwen3", "spec": "a:B"})

    assert not found["ok"]
    assert found["summary"] == "qwen3: 1 failed of 1 configurations"
    assert found["bisection"]["variation"] == "default"


def test_sequences_are_not_mixed_up() -> None:
    """A port that runs the packed row as one sequence."""

    class Unpacked(Port):
        def forward(self, tokens: Tensor, *rest: Any) -> Tensor:
            return self.hf(input_ids=tokens, use_cache=False).logits

    found = outcome(port(model_class=Unpacked))

    assert "first at token 13" in found.message  # the first of the second sequence
    assert torch.isfinite(torch.tensor(found.forward.error))


def test_wrong_options_are_told_as_conditions_to_refuse() -> None:
    class Biased(Port):
        """Is wrong where attention has biases."""

        def forward(self, *args: Any) -> Tensor:
            scale = 1.01 if self.hf.config.attention_bias else 1.0
            return super().forward(*args) * scale

    with proofs._quiet():
        config = tiny_config("qwen3")
        flips = [("attention_bias", True), ("head_dim", 24)]
        made = [Variation(n, n, v, type(config)(**{**config.to_dict(), n: v})) for n, v in flips]
        found = [proofs.prove_one(port(model_class=Biased), flip) for flip in made]
        refusals = proofs.suggest_refusals(found, config, type(config)())

    assert [o.name for o in found if o.status == "failed"] == ["attention_bias"]
    assert [r["condition"] for r in refusals] == ["hf_config.attention_bias is True"]


def gradient_is_right(off: float, noise: float | None, size: float = 1e-3) -> bool:
    """Return whether a gradient of a size below the average, 1, passes.

    Args:
        off: Norm of what it is off by.
        noise: The same of what transformers is off from itself in double precision, if it runs so.
        size: Of each of its four numbers.
    """
    wanted = torch.full((4,), size)
    exact = None if noise is None else Run(torch.zeros(1), {"w": wanted.double() + noise / 2})
    truth = Reference(torch.zeros(1), {"w": wanted}, 1.0, lambda: None, lambda: exact)
    error, limit = proofs.gradient_error(wanted + off / 2, wanted, truth, "w")
    return error <= limit


def test_a_gradient_that_cancels_may_be_off_by_its_own_rounding_only() -> None:
    assert gradient_is_right(1e-5, noise=5e-6)
    assert not gradient_is_right(1e-5, noise=2e-6)  # five times what rounding does
    assert not gradient_is_right(1e-5, noise=None)  # nobody knows what it does
    assert not gradient_is_right(3e-5, noise=1.0)  # as much as the tolerance of an average one
    assert not gradient_is_right(3e-5, noise=1.0, size=1.0)


def test_a_recurrence_may_be_off_by_what_transformers_is_off() -> None:
    # Both as shares of the norm, which is 2.
    assert gradient_is_right(1.2e-4, noise=5e-5, size=1.0)
    assert not gradient_is_right(1.2e-4, noise=2e-5, size=1.0)
    assert not gradient_is_right(6e-4, noise=3e-4, size=1.0)  # nothing is that inexact


@pytest.mark.parametrize(("name", "expected"), [("layers.0.w", True), ("layers.0.u", False)])
def test_a_gradient_may_be_off_by_what_its_like_in_other_layers_are(
    name: str, expected: bool
) -> None:
    wanted = {n: torch.ones(4) for n in (name, "layers.1.w", "layers.2.w")}
    exact = Run(torch.zeros(1), {n: g.double() * (1 + 2e-5) for n, g in wanted.items()})
    exact.gradients[name] = wanted[name].double()  # rounded well by chance
    truth = Reference(torch.zeros(1), wanted, 1.0, lambda: None, lambda: exact)
    error, limit = proofs.gradient_error(wanted[name] * (1 + 4e-5), wanted[name], truth, name)
    assert (error <= limit) is expected


@pytest.mark.parametrize(
    ("off", "own", "expected"),
    [(9e-6, 0.0, True), (3e-5, 1.5e-5, True), (3e-5, 5e-6, False), (2e-4, 1e-4, False)],
)
def test_logits_may_be_off_by_the_rounding_of_transformers(
    off: float, own: float, expected: bool
) -> None:
    logits = torch.tensor([[-1.0, 0.0, 1.0]])
    exact = Run(logits.double() + own, {})
    truth = Reference(logits, {}, 1.0, lambda: None, lambda: exact)
    assert proofs.compare_logits(Run(logits + off, {}), truth).ok is expected


@pytest.mark.parametrize(
    ("own", "error", "expected"),
    [
        (3e-4, 1e-3, True),  # transformers' own gradients are rounded away
        (5e-5, 1.2e-4, True),
        (3e-5, 1.2e-4, False),  # rounding is bounded, and this is more
        (1e-5, 4e-5, True),  # rounding is rarely more than three times what it is there
        (3e-6, 4e-5, False),  # there is none to speak of
    ],
)
def test_a_difference_that_may_be_rounding_is_drawn_again(
    own: float, error: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"w": torch.ones(4), "bias": torch.full((4,), 1e-6)}  # a bias that cancels
    exact = Run(torch.zeros(1), {n: g.double() * (1 + own) for n, g in wanted.items()})
    exact.gradients["bias"] += 1.0
    truth = Reference(torch.zeros(1), wanted, 1.0, lambda: None, lambda: exact)
    seeds: list[int] = []

    def compare(outcome: proofs.Outcome, *rest: Any) -> Reference:
        seeds.append(rest[-2])
        outcome.forward.ok = outcome.weights.ok = True
        outcome.backward = proofs.Verdict(rest[-2] == 2, error, "w", "")
        return truth

    monkeypatch.setattr(proofs, "_compare_into", compare)
    config = tiny_config("qwen3")
    outcome = proofs.prove_one(
        proofs.load_spec("areal.experimental.models.archon.qwen3.spec:QWEN3_SPEC"),
        Variation("default", "", None, config),
    )
    assert (seeds, outcome.status) == (([0, 1, 2], "proven") if expected else ([0], "failed"))


def test_double_precision_tells_what_rounding_does() -> None:
    """One expert whose output is normed: the norm takes the router's gradient away again."""
    with proofs._quiet():
        config = tiny_config("flex_olmo")
        config.num_experts_per_tok = 1
        truth = reference(random_model(config), make_batch(config.vocab_size))

    router, other = (f"model.layers.0.{n}.weight" for n in ("mlp.gate", "self_attn.q_proj"))

    assert truth.rounding(router) > 1e-4
    assert 0 < truth.rounding(other) < 1e-5


def test_a_wrong_size_is_no_condition() -> None:
    config = tiny_config("qwen3")
    wrong = proofs.Outcome("head_dim=24", "head_dim", 24, "failed", "logits differ")

    assert proofs.suggest_refusals([wrong], config, type(config)()) == []


def test_a_wrong_rotation_is_no_condition() -> None:
    config = tiny_config("qwen3")
    rope = {**config.rope_parameters, "partial_rotary_factor": 0.5}
    wrong = proofs.Outcome("rope_parameters=half", "rope_parameters", rope, "failed", "differs")

    assert proofs.suggest_refusals([wrong], config, type(config)()) == []


def test_only_the_wrong_value_of_a_field_is_refused() -> None:
    config = tiny_config("deepseek_v3")
    found = [
        proofs.Outcome("n_shared_experts=2", "n_shared_experts", 2, "proven", ""),
        proofs.Outcome("n_shared_experts=0", "n_shared_experts", 0, "failed", "12 unknown"),
    ]

    refusals = proofs.suggest_refusals(found, config, type(config)())

    assert [r["condition"] for r in refusals] == ["hf_config.n_shared_experts == 0"]


def test_a_list_is_refused_by_its_kinds_though_others_are_right() -> None:
    config = tiny_config("gemma2")
    full = ["full_attention"] * config.num_hidden_layers
    near = ["sliding_attention"] * config.num_hidden_layers
    found = [
        proofs.Outcome("layer_types=near", "layer_types", near, "proven", ""),
        proofs.Outcome("layer_types=full", "layer_types", full, "failed", "differs"),
    ]

    refusals = proofs.suggest_refusals(found, config, type(config)())

    condition = "set(map(str, hf_config.layer_types or [])) == {'full_attention'}"
    assert [r["condition"] for r in refusals] == [condition]


def test_a_key_of_rotations_that_one_model_knows_is_refused_beside_a_kind_that_is_right() -> None:
    config = tiny_config("hunyuan_v1_dense")
    dynamic = {**config.rope_parameters, "rope_type": "dynamic", "factor": 4.0}
    value = [dynamic, 1.7]
    field = "rope_parameters + rope_parameters.alpha"
    wrong = proofs.Outcome("alpha", field, value, "failed", "logits differ")
    (refusal,) = proofs.suggest_refusals([wrong], config, type(config)())
    stated = type(config)(rope_parameters={**dynamic, "alpha": 1000.0})
    assert eval(refusal["condition"], {"hf_config": stated})
    assert not eval(refusal["condition"], {"hf_config": config})
    # A rotation itself is computed, so that a difference there is a fault.
    wrong = proofs.Outcome("dynamic", "rope_parameters", dynamic, "failed", "logits differ")
    assert proofs.suggest_refusals([wrong], config, type(config)()) == []

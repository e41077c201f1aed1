"""Rules found by values: every layout of weights that transformers has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from archon_probe.weight_rules.find import find_rules
from archon_probe.weight_rules.merge import merge_rules

from tests.unit.scaffold.archon.checkpoints import LAYOUTS, fill_distinct, hub_tensors

_FIELDS = ("rule", "groups", "axis", "transposed")
SIZES = {"n_heads": 6, "n_kv_heads": 2, "head_dim": 8, "dim": 56}
# Rules other than Rename and Tied, by the last words of the name on the Hub.
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    "qwen3_moe": {
        "{e}.gate_proj.weight": {"rule": "Stacked"},
        "{e}.up_proj.weight": {"rule": "Stacked"},
        "{e}.down_proj.weight": {"rule": "Stacked"},
    },
    "mixtral": {
        "{e}.w1.weight": {"rule": "Stacked"},
        "{e}.w2.weight": {"rule": "Stacked"},
        "{e}.w3.weight": {"rule": "Stacked"},
    },
    "ernie4_5_moe": {
        "{e}.gate_proj.weight": {"rule": "Stacked"},
        "{e}.up_proj.weight": {"rule": "Stacked"},
        "{e}.down_proj.weight": {"rule": "Stacked"},
        "e_score_correction_bias": {"rule": "Unsqueezed"},
    },
    "longcat_flash": {
        "{e}.gate_proj.weight": {"rule": "Stacked"},
        "{e}.up_proj.weight": {"rule": "Stacked"},
        "{e}.down_proj.weight": {"rule": "Stacked"},
    },
    "granitemoe": {"input_linear.weight": {"rule": "Fused", "groups": 1, "axis": 1}},
    "gpt_oss": {
        "gate_up_proj": {"rule": "Fused", "groups": "rows", "axis": 1, "transposed": True},
        "gate_up_proj_bias": {"rule": "Fused", "groups": "rows", "axis": 1},
        "down_proj": {"rule": "Transposed"},
    },
    "llama4_text": {
        "gate_up_proj": {"rule": "Fused", "groups": 1, "axis": 1, "transposed": True},
        "experts.down_proj": {"rule": "Transposed"},
    },
    "phi3": {
        "qkv_proj.weight": {"rule": "Fused", "groups": 1},
        "gate_up_proj.weight": {"rule": "Fused", "groups": 1},
    },
    "glm4": {"gate_up_proj.weight": {"rule": "Fused", "groups": 1}},
    "gpt_neox": {
        "query_key_value.weight": {"rule": "Fused", "groups": "n_heads"},
        "query_key_value.bias": {"rule": "Fused", "groups": "n_heads"},
    },
    "bloom": {
        "query_key_value.weight": {"rule": "Fused", "groups": "n_heads"},
        "query_key_value.bias": {"rule": "Fused", "groups": "n_heads"},
    },
    "falcon multi query": {"query_key_value.weight": {"rule": "Fused", "groups": 1}},
    "falcon many heads": {"query_key_value.weight": {"rule": "Fused", "groups": "n_heads"}},
    "falcon new": {"query_key_value.weight": {"rule": "Fused", "groups": "n_kv_heads"}},
    "codegen": {"qkv_proj.weight": {"rule": "Fused", "groups": 4}},
    "gpt2": {
        "c_attn.weight": {"rule": "Fused", "groups": 1, "transposed": True},
        "c_attn.bias": {"rule": "Fused", "groups": 1},
        "attn.c_proj.weight": {"rule": "Transposed"},
        "mlp.c_fc.weight": {"rule": "Transposed"},
        "mlp.c_proj.weight": {"rule": "Transposed"},
    },
    "gpt_bigcode": {
        "c_attn.weight": {"rule": "Fused", "groups": 1},
        "c_attn.bias": {"rule": "Fused", "groups": 1},
    },
    "dbrx": {
        "Wqkv.weight": {"rule": "Fused", "groups": 1},
        "mlp.w1": {"rule": "Flattened"},
        "mlp.v1": {"rule": "Flattened"},
        "mlp.w2": {"rule": "Flattened", "transposed": True},
    },
    "deepseek_v3": {
        "{e}.gate_proj.weight": {"rule": "Stacked"},
        "{e}.up_proj.weight": {"rule": "Stacked"},
        "{e}.down_proj.weight": {"rule": "Stacked"},
        "kv_b_proj.weight": {"rule": "Fused", "groups": "n_heads"},
    },
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers.logging.disable_progress_bar()


def _found(layout: str, sizes: dict[str, Any] = SIZES) -> tuple[list[Any], list[Any]]:
    model = LAYOUTS[layout].make()
    fill_distinct(model.state_dict().values())
    return find_rules(
        LAYOUTS[layout].archon(model),
        hub_tensors(model),
        sizes,
        tied=model.all_tied_weights_keys,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_explained(layout: str) -> None:
    rules, problems = _found(layout)
    assert problems == []
    special = {r["hub"]: r for r in rules if r["rule"] not in ("Rename", "Tied", "Unused")}
    expected = EXPECTED.get(layout, {})
    for end, fields in expected.items():
        hub = next(name for name in special if name.endswith(end))
        kept = {k: v for k, v in special.pop(hub).items() if k in _FIELDS}
        assert kept == fields, hub
    assert special == {}


def test_parts_of_a_fused_tensor_stand_in_its_order() -> None:
    rules, _ = _found("codegen")
    fused = next(rule for rule in rules if rule["rule"] == "Fused")
    assert [part.rpartition(":")[2] for part in fused["archon"]] == ["q", "v", "k"]


def test_rules_come_in_the_order_of_the_model() -> None:
    rules, _ = _found("qwen3")
    hubs = [rule["hub"] for rule in rules]
    assert (hubs[0], hubs[-2:]) == (
        "model.embed_tokens.weight",
        ["model.norm.weight", "lm_head.weight"],
    )


def test_a_tied_head_gets_a_name_and_a_tie() -> None:
    rules, problems = _found("qwen2 tied")
    assert problems == []
    assert {
        "rule": "Tied",
        "hub": "lm_head.weight",
        "source": "model.embed_tokens.weight",
    } in rules


def test_number_of_groups_is_the_name_that_fits_every_config() -> None:
    sizes = {
        "falcon multi query": {"n_heads": 6, "n_kv_heads": 1},
        "falcon many heads": {"n_heads": 6, "n_kv_heads": 6},
        "falcon new": {"n_heads": 6, "n_kv_heads": 2},
    }
    findings = [(_found(layout, s)[0], {"x": layout} | s) for layout, s in sizes.items()]
    rules, problems = merge_rules(findings)
    assert problems == []
    fused = [rule for rule in rules if rule["rule"] == "Fused"]
    assert [rule["groups"] for rule in fused] == ["n_kv_heads"]


def test_a_bias_of_one_config_follows_the_groups_of_its_weight() -> None:
    weight = {"rule": "Fused", "hub": "w", "archon": ["q.weight", "k.weight"]}
    bias = {"rule": "Fused", "hub": "b", "archon": ["q.bias", "k.bias"]}
    rules, problems = merge_rules(
        [
            ([weight | {"candidates": [1, "n_kv_heads"]}], {"n_kv_heads": 1}),
            (
                [
                    weight | {"candidates": [1, "n_kv_heads"]},
                    bias | {"candidates": [1, "n_kv_heads"]},
                ],
                {"n_kv_heads": 1},
            ),
            ([weight | {"candidates": ["n_kv_heads", 2]}], {"n_kv_heads": 2}),
        ]
    )
    assert problems == []
    assert {rule["hub"]: rule["groups"] for rule in rules} == {"w": "n_kv_heads", "b": "n_kv_heads"}


def test_groups_are_called_by_an_argument_that_exists() -> None:
    rule = {"rule": "Fused", "hub": "a", "archon": ["b", "c"]}
    found = rule | {"candidates": ["n_kv_heads", "n_heads", 6]}
    [merged], _ = merge_rules([([found], {"n_heads": 6})])
    assert merged["groups"] == "n_heads"


def test_layers_with_the_same_problem_are_counted() -> None:
    hub = {f"h.{i}.extra": torch.rand(3) for i in range(4)}
    _, problems = find_rules({"a": torch.rand(2)}, hub, {})
    assert [(p["name"], p.get("count")) for p in problems] == [("h.{}.extra", 4), ("a", None)]


def test_no_name_for_the_groups_of_every_config_is_a_problem() -> None:
    rule = {"rule": "Fused", "hub": "a", "archon": ["b", "c"], "groups": 1}
    _, problems = merge_rules(
        [([rule | {"candidates": [1]}], {}), ([rule | {"candidates": [2]}], {})]
    )
    assert [problem["name"] for problem in problems] == ["a"]


def _one(hub: str, archon: str) -> dict[str, Any]:
    return {"rule": "Rename", "hub": hub, "archon": archon}


def test_tensors_that_exclude_each_other_get_the_argument_that_tells() -> None:
    rules, problems = merge_rules(
        [([_one("a", "n")], {"dim": 8, "new": False}), ([_one("b", "n")], {"dim": 8, "new": True})]
    )
    assert problems == []
    assert {rule["hub"]: rule["when"] for rule in rules} == {"a": "not new", "b": "new"}


def test_tensors_that_exclude_each_other_without_a_reason_are_a_problem() -> None:
    _, problems = merge_rules([([_one("a", "n")], {"dim": 8}), ([_one("b", "n")], {"dim": 8})])
    assert "exclude each other" in problems[0]["why"]


def test_the_name_of_a_head_in_an_untied_checkpoint_replaces_the_assumed_one() -> None:
    assumed = _one("lm_head.weight", "output.weight") | {"assumed": True}
    tie = {"rule": "Tied", "hub": "lm_head.weight", "source": "e"}
    rules, problems = merge_rules(
        [([assumed, tie], {}), ([_one("embed_out.weight", "output.weight")], {})]
    )
    assert problems == []
    assert _one("embed_out.weight", "output.weight") in rules
    assert {"rule": "Tied", "hub": "embed_out.weight", "source": "e"} in rules
    assert "lm_head.weight" not in [rule["hub"] for rule in rules]


CONV = "layers.0.mixer.inner.conv1d.weight"
SPLIT_HUB = [f"h.{{}}.{part}_conv1d.weight" for part in "qkv"]


def _split(*rows: int) -> tuple[Any, Any]:
    whole = torch.rand(sum(rows), 1, 4)
    whole[0, 0, 0] = whole[-1, 0, 0]  # values may meet by chance
    names = [name.replace("{}", "0") for name in SPLIT_HUB]
    return {CONV: whole}, dict(zip(names, whole.split(rows), strict=True))


@pytest.mark.parametrize("rows", [(8, 8, 8), (7, 7, 6)])
def test_tensors_that_stand_in_one_parameter_are_a_split_of_it(rows: tuple[int, ...]) -> None:
    """OLMo-Hybrid's Hub has three convolutions where transformers runs one over all channels."""
    rules, problems = find_rules(*_split(*rows), {})
    assert problems == []
    assert rules == [
        {"rule": "Split", "hub": SPLIT_HUB, "archon": CONV.replace("0", "{}")},
    ]
    assert merge_rules([(rules, {"a": 1}), (rules, {"a": 2})]) == (rules, [])


def test_a_split_that_is_not_even_is_a_problem() -> None:
    rules, problems = find_rules(*_split(8, 4, 9), {})
    assert rules == []
    assert [problem["name"] for problem in problems] == [str(SPLIT_HUB)]
    assert "not even" in problems[0]["why"]


def test_a_split_that_lacks_rows_is_a_problem() -> None:
    archon, hub = _split(8, 8, 8)
    del hub["h.0.k_conv1d.weight"]
    _, problems = find_rules(archon, hub, {})
    assert ("archon", CONV) in [(problem["side"], problem["name"]) for problem in problems]


def test_what_no_rule_says_is_named_with_the_nearest_candidate() -> None:
    archon = {"norm.weight": torch.tensor([0.5, 0.25, 2.0]), "a.weight": torch.rand(4, 2)}
    hub = {"norm.weight": archon["norm.weight"] - 1, "b.weight": archon["a.weight"][[0, 2, 3, 1]]}
    rules, problems = find_rules(archon, hub, {})
    assert rules == []
    found = {(problem["side"], problem["name"]): problem for problem in problems}
    assert found.keys() == {("hub", n) for n in hub} | {("archon", n) for n in archon}
    norm = found["hub", "norm.weight"]
    assert (norm["nearest"], norm["shape"]) == ("norm.weight", [3])
    assert norm["why"] == "it is -1 from it everywhere"
    assert found["hub", "b.weight"]["nearest"] == "a.weight"
    assert "shares values" in found["hub", "b.weight"]["why"]


def test_constants_that_repeat_in_every_layer_find_their_twin() -> None:
    archon = {f"layers.{i}.act.{n}": torch.tensor(v) for i in (0, 1) for n, v in _CONSTANTS.items()}
    hub = {f"h.{i}.act_fn.{n}": torch.tensor(v) for i in (0, 1) for n, v in _CONSTANTS.items()}
    rules, problems = find_rules(archon, hub, {})
    assert problems == []
    assert {rule["hub"]: rule["archon"] for rule in rules} == {
        "h.{}.act_fn.beta": "layers.{}.act.beta",
        "h.{}.act_fn.eps": "layers.{}.act.eps",
    }


_CONSTANTS = {"beta": 0.5, "eps": -1e-6}


def test_constant_parameters_are_a_problem() -> None:
    _, problems = find_rules(
        {"norm.weight": torch.ones(4), "b.weight": torch.ones(4)},
        {"norm.weight": torch.ones(4)},
        {},
    )
    assert "not distinct" in problems[0]["why"]


def test_an_expert_that_no_tensor_gives_is_a_problem() -> None:
    experts = torch.rand(3, 4, 2)
    hub = {f"h.0.experts.{e}.w": experts[e] for e in (0, 2)}
    _, problems = find_rules({"layers.0.moe.w1": experts}, hub, {})
    assert [(problem["side"], problem["name"]) for problem in problems] == [
        ("archon", "layers.0.moe.w1")
    ]


def test_buffers_on_the_hub_can_be_left_out() -> None:
    archon = {"a.weight": torch.rand(3)}
    hub = {"a.weight": archon["a.weight"], "h.0.inv_freq": torch.ones(2)}
    rules, problems = find_rules(archon, hub, {}, ignorable={"h.0.inv_freq"})
    assert problems == []
    assert {"rule": "Ignored", "hub": "h.{}.inv_freq"} in rules
    assert [p["name"] for p in find_rules(archon, hub, {})[1]] == ["h.0.inv_freq"]


def test_distinct_values_are_distinct() -> None:
    first, second = torch.empty(1000), torch.empty(30, 40)
    fill_distinct([first, second, second])
    values = torch.cat([first, second.flatten()])
    assert values.unique().numel() == values.numel()
    assert values.abs().max() < 1


def test_a_checkpoint_with_tensors_of_no_parameter_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archon_probe.design import derive
    from archon_probe.measure.model_source import resolve

    def only_cross_attention(config: Any) -> list[Any]:
        return [v for v in every(config) if v.name == "add_cross_attention=True"]

    every = derive.variations
    monkeypatch.setattr(derive, "variations", only_cross_attention)
    design = derive.derive(resolve({"model_type": "gpt2", "config": None}))
    assert [r["condition"] for r in design["refusals"]] == ["hf_config.add_cross_attention is True"]
    assert "crossattention" in design["refusals"][0]["message"]
    assert not any("cross" in rule["hub"] for rule in design["weights"])

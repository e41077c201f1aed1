"""The adapter: names and bits both ways, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import transformers
from archon_probe.weight_rules.find import find_rules

from areal.api.errors import ConfigError
from areal.experimental.models.archon.qwen3.model.state_dict_adapter import Qwen3StateDictAdapter
from areal.experimental.models.archon.state_dict import (
    Fused,
    Ignored,
    Rename,
    Reordered,
    Split,
    Stacked,
    Tied,
    Unused,
)
from tests.unit.experimental.archon.state_dict.small_models import (
    SmallArgs,
    adapter_of,
    as_objects,
    hub_shapes,
    random_tensors,
    tiny_qwen3,
    write_shards,
)
from tests.unit.scaffold.archon.checkpoints import LAYOUTS, fill_distinct, hub_tensors

NORM = Rename("model.norm.weight", "norm.weight")
QKV = Fused("h.{}.qkv", ("layers.{}.wq", "layers.{}.wk", "layers.{}.wv"), groups="n_kv_heads")
QKV_SHAPES = {"layers.0.wq": (12, 5), "layers.0.wk": (4, 5), "layers.0.wv": (4, 5)}
EXPERTS = Stacked("h.{}.experts.{e}.up.weight", "layers.{}.moe.w1")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_comes_back_with_every_key_and_bit(layout: str) -> None:
    transformers.logging.disable_progress_bar()
    model = LAYOUTS[layout].make()
    fill_distinct(model.state_dict().values())
    archon, hub = LAYOUTS[layout].archon(model), hub_tensors(model)
    tied = model.all_tied_weights_keys
    rules, problems = find_rules(archon, hub, {"n_heads": 6, "n_kv_heads": 2}, tied=tied)
    assert problems == []
    args = SmallArgs(enable_weight_tying=bool(tied))
    adapter = adapter_of(as_objects(rules), {n: t.shape for n, t in archon.items()}, args)
    loaded = adapter.from_hf(hub)
    assert loaded.keys() == archon.keys()
    assert all(torch.equal(loaded[name], archon[name]) for name in archon)
    saved = adapter.to_hf(loaded)
    assert saved.keys() == hub.keys()
    assert bool(adapter.unused_names) == (layout == "longcat_flash")
    for name in adapter.unused_names:
        hub[name].zero_()  # nothing computes with it
    assert all(torch.equal(saved[name], hub[name]) for name in hub)
    assert all(saved[name].is_contiguous() for name in hub)
    single = dict(pair for n, t in archon.items() for pair in adapter.convert_single_to_hf(n, t))
    assert single.keys() == hub.keys()
    assert all(torch.equal(single[name], hub[name]) for name in hub)


def test_missing_unknown_and_misshapen_tensors_are_named_at_once() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    tensors = random_tensors(hub_shapes(adapter))
    tensors["model.norm.weight"] = torch.zeros(3)
    for name in ("model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.q_norm.weight"):
        del tensors[name]
    tensors["model.layers.2.mlp.up_proj.weight"] = torch.zeros(1)
    with pytest.raises(ConfigError) as caught:
        adapter.from_hf(tensors)
    message = str(caught.value)
    for found in (
        "2 missing: model.layers.0.self_attn.q_norm.weight, model.layers.1.mlp.up_proj.weight",
        "1 unknown: model.layers.2.mlp.up_proj.weight",
        "1 of another shape: model.norm.weight (3,) instead of (32,)",
    ):
        assert found in message


def test_unknown_parameters_are_refused_on_the_way_back() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    with pytest.raises(ConfigError, match=r"unknown layers\.9\.x; of another shape norm\.weight"):
        adapter.to_hf({"layers.9.x": torch.zeros(1), "norm.weight": torch.zeros(2)})


def test_part_of_a_state_dict_is_allowed_but_no_torn_tensor() -> None:
    adapter = adapter_of([QKV, NORM], QKV_SHAPES | {"norm.weight": (5,)})
    state = random_tensors(QKV_SHAPES)
    assert list(adapter.to_hf(state)) == ["h.0.qkv"]
    with pytest.raises(ConfigError, match=r"h\.0\.qkv needs layers\.0\.wk"):
        adapter.to_hf({name: t for name, t in state.items() if name != "layers.0.wk"})
    with pytest.raises(ConfigError, match=r"1 missing: model\.norm\.weight"):
        adapter.from_hf(adapter.to_hf(state))
    assert adapter.from_hf(adapter.to_hf(state), partial=True).keys() == state.keys()


def test_a_part_of_the_experts_is_no_parameter() -> None:
    adapter = adapter_of([EXPERTS], {"layers.0.moe.w1": (3, 4, 2)})
    with pytest.raises(ConfigError, match=r"misses h\.0\.experts\.1\.up\.weight"):
        adapter.from_hf(
            {f"h.0.experts.{e}.up.weight": torch.zeros(4, 2) for e in (0, 2)}, partial=True
        )


def test_parts_of_one_tensor_wait_for_each_other() -> None:
    adapter = adapter_of([QKV], QKV_SHAPES)
    state = random_tensors(QKV_SHAPES)
    whole = adapter.to_hf(state)["h.0.qkv"]
    for _ in range(2):  # a second update of the weights starts afresh
        assert adapter.convert_single_to_hf("layers.0.wv", state["layers.0.wv"]) == []
        assert adapter.convert_single_to_hf("layers.0.wq", state["layers.0.wq"]) == []
        [(name, tensor)] = adapter.convert_single_to_hf("layers.0.wk", state["layers.0.wk"])
        assert name == "h.0.qkv"
        assert torch.equal(tensor, whole)


CONV = Split(("h.{}.q", "h.{}.k", "h.{}.v"), "layers.{}.conv")


def _rows(tensors: dict[str, torch.Tensor]) -> list[int]:
    return [len(tensors[f"h.0.{part}"]) for part in "qkv"]


@pytest.mark.parametrize("rows", [(5, 5, 4), (3, 3, 8)])
def test_one_parameter_may_be_several_tensors_of_the_hub(rows: tuple[int, ...]) -> None:
    """Checkpoints divide it as their authors did, and transformers saves equal shares."""
    adapter = adapter_of([CONV, NORM], {"layers.0.conv": (14, 1, 3), "norm.weight": (5,)})
    state = {"layers.0.conv": torch.randn(14, 1, 3), "norm.weight": torch.randn(5)}
    assert _rows(adapter.to_hf(state)) == [5, 5, 4]
    parts = zip("qkv", state["layers.0.conv"].split(rows), strict=True)
    hub = {f"h.0.{part}": tensor for part, tensor in parts}
    hub["model.norm.weight"] = state["norm.weight"]
    loaded = adapter.from_hf(hub)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
    saved = adapter.to_hf(loaded)
    assert saved.keys() == hub.keys()
    assert all(torch.equal(saved[name], tensor) for name, tensor in hub.items())
    single = dict(adapter.convert_single_to_hf("layers.0.conv", state["layers.0.conv"]))
    assert all(torch.equal(tensor, hub[name]) for name, tensor in single.items())
    assert _rows(single) == list(rows)


@pytest.mark.parametrize("rows", [(5, 5, 5), (5, 5)])
def test_a_split_that_does_not_add_up_is_refused(rows: tuple[int, ...]) -> None:
    adapter = adapter_of([CONV], {"layers.0.conv": (14, 3)})
    hub = {f"h.0.{part}": torch.zeros(n, 3) for part, n in zip("qkv", rows, strict=False)}
    with pytest.raises(ConfigError, match=r"h\.0\.v"):
        adapter.from_hf(hub)


def test_names_lose_the_wrappers_of_checkpointing_and_compilation() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    name = "layers.1._checkpoint_wrapped_module._orig_mod.attention.q_norm.weight"
    tensor = torch.randn(8)
    assert adapter.convert_single_to_hf(name, tensor) == [
        ("model.layers.1.self_attn.q_norm.weight", tensor)
    ]
    assert list(adapter.to_hf({name: tensor})) == ["model.layers.1.self_attn.q_norm.weight"]
    assert list(adapter.to_hf({"_orig_mod.norm.weight": torch.zeros(32)})) == ["model.norm.weight"]


def test_a_tied_head_is_left_out_and_comes_back() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3(tie_word_embeddings=True))
    tensors = random_tensors(hub_shapes(adapter))
    assert "lm_head.weight" not in tensors
    state = adapter.from_hf(tensors)
    assert torch.equal(state["output.weight"], tensors["model.embed_tokens.weight"])
    assert "lm_head.weight" not in adapter.to_hf(state)
    assert adapter.convert_single_to_hf("output.weight", state["output.weight"]) == []
    spelled_out = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"]}
    assert adapter.from_hf(spelled_out).keys() == state.keys()


def test_without_tying_the_head_is_required() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    tensors = random_tensors(hub_shapes(adapter))
    del tensors["lm_head.weight"]
    with pytest.raises(ConfigError, match=r"1 missing: lm_head\.weight"):
        adapter.from_hf(tensors)


def test_a_critic_keeps_its_score() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3(), is_critic=True)
    tensors = random_tensors(hub_shapes(adapter))
    assert tensors["score.weight"].shape == (1, 32)
    assert "lm_head.weight" not in tensors
    saved = adapter.to_hf(adapter.from_hf(tensors))
    assert torch.equal(saved["score.weight"], tensors["score.weight"])


def test_a_score_shows_that_a_state_is_a_critics() -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    tensors = random_tensors(hub_shapes(adapter))
    del tensors["lm_head.weight"]
    tensors["score.weight"] = torch.randn(3, 32)
    state = adapter.from_hf(tensors)
    assert state["score.weight"].shape == (3, 32)
    assert adapter.to_hf(state).keys() == tensors.keys()
    [(name, _)] = adapter.convert_single_to_hf("score.weight", state["score.weight"])
    assert name == "score.weight"


def test_a_critic_from_a_language_model_gets_a_new_head() -> None:
    critic = Qwen3StateDictAdapter(tiny_qwen3(), is_critic=True)
    tensors = random_tensors(hub_shapes(Qwen3StateDictAdapter(tiny_qwen3())))
    state = critic.from_hf(tensors)
    assert state["score.weight"].std() > 0
    assert torch.equal(state["score.weight"], critic.from_hf(tensors)["score.weight"])
    assert "output.weight" not in state


def test_ignored_tensors_may_be_there() -> None:
    adapter = adapter_of(
        [NORM, Ignored("model.layers.{}.rotary_emb.inv_freq")], {"norm.weight": (5,)}
    )
    tensors = {"model.norm.weight": torch.ones(5)}
    buffer = {"model.layers.11.rotary_emb.inv_freq": torch.ones(2)}
    assert list(adapter.from_hf(tensors | buffer)) == ["norm.weight"]
    assert adapter.from_hf_map["model.layers.{}.rotary_emb.inv_freq"] is None


def test_maps_show_both_directions() -> None:
    adapter = adapter_of([QKV, NORM], QKV_SHAPES | {"norm.weight": (5,)})
    assert adapter.from_hf_map == {
        "h.{}.qkv": ("layers.{}.wq", "layers.{}.wk", "layers.{}.wv"),
        "model.norm.weight": "norm.weight",
        # Whether the model is a critic shows in its state.
        "score.weight": "score.weight",
        "score.bias": "score.bias",
    }
    assert adapter.to_hf_map["layers.{}.wk"] == "h.{}.qkv"


def test_rules_that_leave_a_parameter_out_are_refused_with_all_names() -> None:
    with pytest.raises(ConfigError, match=r"without a rule: a\.x, b\.y"):
        _ = adapter_of([NORM], {"a.x": (1,), "b.y": (1,), "norm.weight": (1,)}).plan
    with pytest.raises(ConfigError, match=r"several rules: norm\.weight"):
        _ = adapter_of([NORM, Rename("n", "norm.weight")], {"norm.weight": (1,)}).plan
    with pytest.raises(ConfigError, match=r"holds layers\.0\.wv, which the model does not have"):
        _ = adapter_of([QKV], {"layers.0.wq": (12, 5), "layers.0.wk": (4, 5)}).plan
    with pytest.raises(ConfigError, match="do not divide into 5 groups"):
        _ = adapter_of([QKV], QKV_SHAPES, SmallArgs(n_kv_heads=5)).plan


@pytest.mark.parametrize(("is_critic", "hub"), [(True, "b"), (False, "a")])
def test_a_condition_chooses_between_rules(is_critic: bool, hub: str) -> None:
    rules = [Rename("a", "n", when="not is_critic"), Rename("b", "n", when="is_critic")]
    adapter = adapter_of(rules, {"n": (2,)}, SmallArgs(is_critic=is_critic))
    assert list(adapter.plan.tensors) == [hub]


def test_a_condition_may_compare() -> None:
    rules = [Rename("a", "n", when="n_heads == 6"), Rename("b", "n", when="not n_heads == 6")]
    assert list(adapter_of(rules, {"n": (2,)}).plan.tensors) == ["a"]
    assert list(adapter_of(rules, {"n": (2,)}, SmallArgs(n_heads=4)).plan.tensors) == ["b"]
    with pytest.raises(ConfigError, match="no field 'nothing'"):
        _ = adapter_of([Rename("a", "n", when="nothing")], {"n": (2,)}).plan


def test_rows_in_another_order() -> None:
    rule = Reordered("q", "wq", shape=("n_kv_heads", 2, "n_heads // 2"), order=(0, 2, 1))
    adapter = adapter_of([rule], {"wq": (12, 5)})
    state = random_tensors({"wq": (12, 5)})
    saved = adapter.to_hf(state)
    assert torch.equal(saved["q"][1], state["wq"][2])
    assert torch.equal(adapter.from_hf(saved)["wq"], state["wq"])


def test_experts_that_compute_nothing_are_not_read_and_are_written_as_zeros() -> None:
    shapes = {"layers.0.moe.w1": (2, 4, 3), "layers.0.moe.gate": (5, 3)}
    unused = Unused("h.{}.experts.{e}.up.weight", ("layers.{}.moe.w1", "layers.{}.moe.gate"))
    adapter = adapter_of([EXPERTS, Rename("h.{}.gate", "layers.{}.moe.gate"), unused], shapes)
    saved = adapter.to_hf(random_tensors(shapes))
    names = [f"h.0.experts.{e}.up.weight" for e in range(5)]
    assert set(saved) == {*names, "h.0.gate"}
    assert [bool(saved[name].any()) for name in names] == [True, True, False, False, False]
    without = {name: t for name, t in saved.items() if name not in names[2:]}
    assert adapter.from_hf(without).keys() == adapter.from_hf(saved).keys() == shapes.keys()
    assert list(adapter.to_hf({"layers.0.moe.gate": torch.zeros(5, 3)})) == ["h.0.gate"]


@pytest.mark.parametrize("layout", ["qwen3_moe", "deepseek_v3"])
def test_experts_may_be_packed_as_in_memory(layout: str) -> None:
    transformers.logging.disable_progress_bar()
    model = LAYOUTS[layout].make()
    fill_distinct(model.state_dict().values())
    archon = LAYOUTS[layout].archon(model)
    names = {":w1": "w1", ":w3": "w3", "experts.down_proj": "w2"}
    for name in list(archon):
        if part := next((p for end, p in names.items() if name.endswith(end)), None):
            archon[f"{name.partition('experts')[0]}experts.{part}"] = archon.pop(name)
    rules, problems = find_rules(archon, hub_tensors(model), {"n_heads": 6})
    assert problems == []
    adapter = adapter_of(as_objects(rules), {n: t.shape for n, t in archon.items()})
    state = adapter.from_hf(model.state_dict())
    assert all(torch.equal(state[name], archon[name]) for name in archon)
    assert adapter.to_hf(state).keys() == hub_tensors(model).keys()
    packed = next(name for name in model.state_dict() if name.endswith("gate_up_proj"))
    with pytest.raises(ConfigError, match=f"1 missing: {packed}"):
        adapter.from_hf({n: t for n, t in model.state_dict().items() if n != packed})


def test_a_tie_to_an_absent_tensor_changes_nothing() -> None:
    rules = [NORM, Tied("lm_head.weight", "model.embed_tokens.weight")]
    adapter = adapter_of(rules, {"norm.weight": (2,)}, SmallArgs(enable_weight_tying=True))
    assert list(adapter.from_hf({"model.norm.weight": torch.ones(2)})) == ["norm.weight"]


def test_the_index_says_which_shard_has_what(tmp_path: Path) -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3())
    assert adapter.fqn_to_index_mapping is None
    tensors = random_tensors(hub_shapes(adapter))
    write_shards(tmp_path, tensors, num_shards=2)
    mapping = Qwen3StateDictAdapter(tiny_qwen3(), tmp_path).fqn_to_index_mapping
    assert mapping == {name: 1 + i % 2 for i, name in enumerate(tensors)}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_a_checkpoint_through_the_adapter(tmp_path: Path) -> None:
    adapter = Qwen3StateDictAdapter(tiny_qwen3(), tmp_path)
    tensors = random_tensors(hub_shapes(adapter))
    write_shards(tmp_path, tensors)
    target = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    dcp.load(target, storage_reader=adapter.get_hf_storage_reader(tmp_path), no_dist=True)
    assert all(torch.equal(target[name], tensors[name]) for name in tensors)

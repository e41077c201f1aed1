"""Checkpoints into models and back: what is checked first, what is copied, what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from areal.api.errors import ConfigError
from areal.experimental.models.archon.qwen3.model.args import Qwen3ModelArgs
from areal.experimental.models.archon.qwen3.model.model import Qwen3Model
from areal.experimental.models.archon.qwen3.model.state_dict_adapter import Qwen3StateDictAdapter
from areal.experimental.models.archon.state_dict import (
    Fused,
    Rename,
    Stacked,
    Unused,
    load_checkpoint,
    save_checkpoint,
)
from tests.unit.experimental.archon.state_dict.small_models import (
    adapter_of,
    hub_shapes,
    module_of,
    random_tensors,
    tiny_qwen3,
    write_shards,
)
from tests.unit.scaffold.archon.checkpoints import LAYOUTS

INDEX = "model.safetensors.index.json"
# A tied tensor whose parameter lies in another pipeline stage has memory of its own.
MIXED_SHAPES = {
    "layers.0.wq": (12, 5),
    "layers.0.wk": (4, 5),
    "layers.0.wv": (4, 5),
    "layers.0.moe.w1": (3, 4, 2),
    "layers.0.moe.gate": (4, 5),
    "norm.weight": (5,),
}
MIXED_RULES = [
    Fused("h.{}.qkv", ("layers.{}.wq", "layers.{}.wk", "layers.{}.wv"), groups="n_kv_heads"),
    Stacked("h.{}.experts.{e}.up.weight", "layers.{}.moe.w1"),
    Unused("h.{}.experts.{e}.up.weight", ("layers.{}.moe.w1", "layers.{}.moe.gate")),
    Rename("h.{}.gate", "layers.{}.moe.gate"),
    Rename("norm.weight", "norm.weight"),
]


def _qwen3(
    folder: Path | None = None, is_critic: bool = False, **changes: Any
) -> tuple[Qwen3Model, Qwen3StateDictAdapter, dict[str, Tensor]]:
    """Returns a model of zeros, its adapter and the random tensors that the folder gets."""
    config = tiny_qwen3(**changes)
    model = Qwen3Model(Qwen3ModelArgs.from_hf_config(config, is_critic=is_critic))
    adapter = Qwen3StateDictAdapter(config, is_critic=is_critic)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tensors = random_tensors(hub_shapes(adapter))
    if folder is not None:
        write_shards(folder, tensors)
    return model, adapter, tensors


def _assert_untouched(model: nn.Module) -> None:
    assert all(not parameter.any() for parameter in model.parameters())


def test_a_model_of_transformers_comes_back_with_the_same_logits(tmp_path: Path) -> None:
    transformers.logging.disable_progress_bar()
    theirs = LAYOUTS["qwen3"].make().eval()
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="100KB")
    args = Qwen3ModelArgs.from_hf_config(theirs.config)
    model, adapter = Qwen3Model(args), Qwen3StateDictAdapter(theirs.config)
    report = load_checkpoint(model, tmp_path / "theirs", adapter)
    assert (report.initialised, report.left_out) == ((), ())
    save_checkpoint(model, tmp_path / "ours", adapter, max_shard_bytes=50_000)
    theirs.config.save_pretrained(tmp_path / "ours")
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    tokens = torch.arange(3, 20)[None]
    assert torch.equal(back(tokens).logits, theirs(tokens).logits)


def test_parameters_stay_where_they_are(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3(tmp_path)
    places = {name: p.data_ptr() for name, p in model.named_parameters()}
    report = load_checkpoint(model, tmp_path, adapter)
    assert report.num_tensors == len(tensors)
    assert places == {name: p.data_ptr() for name, p in model.named_parameters()}
    saved = adapter.to_hf(model.state_dict())
    assert all(torch.equal(saved[name], tensors[name]) for name in tensors)


def test_every_kind_of_rule_streams_both_ways(tmp_path: Path) -> None:
    adapter, model = adapter_of(MIXED_RULES, MIXED_SHAPES), module_of(MIXED_SHAPES)
    tensors = random_tensors(hub_shapes(adapter))
    write_shards(tmp_path, tensors)
    load_checkpoint(model, tmp_path, adapter)
    save_checkpoint(model, tmp_path / "back", adapter, max_shard_bytes=200)
    saved = {
        n: t for f in (tmp_path / "back").glob("*.safetensors") for n, t in load_file(f).items()
    }
    assert not saved.pop("h.0.experts.3.up.weight").any()
    assert saved.keys() == tensors.keys()
    assert all(torch.equal(saved[name], tensors[name]) for name in tensors)


def test_shards_keep_to_their_size_and_stand_in_the_index(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3()
    save_checkpoint(model, tmp_path, adapter, max_shard_bytes=10_000)
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(t.numel() * 4 for t in tensors.values())
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == len(set(index["weight_map"].values())) > 3
    for file in files:
        assert sum(t.numel() * 4 for t in load_file(file).values()) <= 10_000
        assert all(index["weight_map"][name] == file.name for name in load_file(file))


def test_a_small_model_is_one_file(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3()
    save_checkpoint(model, tmp_path, adapter)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    load_checkpoint(model, tmp_path, adapter)


def test_a_folder_with_weights_is_not_written_to(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ConfigError, match="already has"):
        save_checkpoint(model, tmp_path, adapter)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_types_change_where_asked(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3(tmp_path)
    load_checkpoint(model, tmp_path, adapter, torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert torch.equal(model.norm.weight, tensors["model.norm.weight"].bfloat16())
    save_checkpoint(model, tmp_path / "back", adapter, dtype=torch.float16)
    saved = load_file(tmp_path / "back" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float16}


def test_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3()
    with pytest.raises(ConfigError, match=r"no \*\.safetensors"):
        load_checkpoint(model, tmp_path, adapter)


def test_a_truncated_shard_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3(tmp_path)
    last = sorted(tmp_path.glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-4])
    with pytest.raises(ConfigError, match=f"cannot read {last.name}.*is the file complete"):
        load_checkpoint(model, tmp_path, adapter)
    _assert_untouched(model)


def test_a_missing_shard_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3(tmp_path)
    last = sorted(tmp_path.glob("*.safetensors"))[-1]
    last.unlink()
    with pytest.raises(ConfigError, match=f"lacks {last.name}"):
        load_checkpoint(model, tmp_path, adapter)
    _assert_untouched(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("model.norm.weight"), "does not place model.norm.weight in"),
        (lambda m: m.update({"x": next(iter(m.values()))}), "lacks x, which"),
    ],
)
def test_index_and_shards_must_agree(tmp_path: Path, change: Any, message: str) -> None:
    model, adapter, _ = _qwen3(tmp_path)
    index = json.loads((tmp_path / INDEX).read_text())
    change(index["weight_map"])
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ConfigError, match=message):
        load_checkpoint(model, tmp_path, adapter)
    _assert_untouched(model)


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    model, adapter, _ = _qwen3(tmp_path)
    (tmp_path / INDEX).write_text("{")
    with pytest.raises(ConfigError, match="is not an index of a checkpoint"):
        load_checkpoint(model, tmp_path, adapter)


def test_all_that_does_not_fit_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3()
    del tensors["model.layers.0.mlp.up_proj.weight"], tensors["model.norm.weight"]
    tensors["model.extra"] = torch.zeros(2)
    tensors["lm_head.weight"] = torch.zeros(5, 32)
    write_shards(tmp_path, tensors)
    with pytest.raises(ConfigError) as caught:
        load_checkpoint(model, tmp_path, adapter)
    for found in (
        "2 missing: model.layers.0.mlp.up_proj.weight, model.norm.weight",
        "1 unknown: model.extra",
        "1 of another shape: lm_head.weight (5, 32) instead of (64, 32)",
    ):
        assert found in str(caught.value)
    _assert_untouched(model)


def test_a_critic_from_a_language_model_reports_its_new_head(tmp_path: Path) -> None:
    _qwen3(tmp_path)
    model, adapter, _ = _qwen3(is_critic=True)
    report = load_checkpoint(model, tmp_path, adapter)
    assert report.initialised == ("score.weight",)
    assert report.left_out == ("lm_head.weight",)
    assert model.score.weight.std() > 0
    save_checkpoint(model, tmp_path / "critic", adapter)
    again, adapter, _ = _qwen3(is_critic=True)
    assert load_checkpoint(again, tmp_path / "critic", adapter).initialised == ()
    assert torch.equal(again.score.weight, model.score.weight)


def test_a_language_model_does_not_take_a_critic(tmp_path: Path) -> None:
    _qwen3(tmp_path, is_critic=True)
    model, adapter, _ = _qwen3()
    with pytest.raises(ConfigError, match=r"1 missing: lm_head\.weight; 1 unknown: score\.weight"):
        load_checkpoint(model, tmp_path, adapter)


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("language_model.model.", "language_model."),
        ("model.language_model.", ""),
        ("model.language_model.model.", "model.language_model."),
    ],
)
def test_a_composite_checkpoint_is_taken_apart_when_asked(
    tmp_path: Path, base: str, head: str, is_tied: bool
) -> None:
    model, adapter, tensors = _qwen3(tie_word_embeddings=is_tied)
    moved = {
        (base + n.removeprefix("model.") if n.startswith("model.") else head + n): t
        for n, t in tensors.items()
    }
    vision = {"vision_tower.layers.0.attn.weight": torch.ones(3), "projector.weight": torch.ones(1)}
    write_shards(tmp_path, moved | vision)
    with pytest.raises(ConfigError, match=r"composite.*2 tensors.*projector\.weight, vision_tower"):
        load_checkpoint(model, tmp_path, adapter)
    _assert_untouched(model)
    report = load_checkpoint(model, tmp_path, adapter, text_only=True)
    assert report.left_out == tuple(sorted(vision))
    saved = adapter.to_hf(model.state_dict())
    assert all(torch.equal(saved[name], tensors[name]) for name in tensors)


def test_text_only_leaves_out_towers_but_no_layers(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3()
    vision = {"model.vision_tower.layers.0.weight": torch.ones(3)}
    write_shards(tmp_path, tensors | vision)
    with pytest.raises(ConfigError, match=r"1 unknown: .*text_only=True leaves out"):
        load_checkpoint(model, tmp_path, adapter)
    assert load_checkpoint(model, tmp_path, adapter, text_only=True).left_out == tuple(vision)
    write_shards(tmp_path, tensors | vision | {"model.layers.2.norm.weight": torch.ones(3)})
    with pytest.raises(ConfigError, match=r"1 unknown: model\.layers\.2\.norm\.weight"):
        load_checkpoint(model, tmp_path, adapter, text_only=True)


def test_text_only_changes_nothing_for_a_plain_checkpoint(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3(tmp_path)
    assert load_checkpoint(model, tmp_path, adapter, text_only=True).left_out == ()
    assert torch.equal(model.norm.weight, tensors["model.norm.weight"])


def test_a_stage_of_a_pipeline_takes_its_own(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3(tmp_path, tie_word_embeddings=True)
    # The last stage: its head is no longer the embedding's tensor.
    model.output.weight = nn.Parameter(torch.zeros_like(model.output.weight))
    model.tok_embeddings = None
    del model.layers["0"]
    load_checkpoint(model, tmp_path, adapter)
    assert torch.equal(model.output.weight, tensors["model.embed_tokens.weight"])
    assert torch.equal(
        model.layers["1"].attention.wq.weight, tensors["model.layers.1.self_attn.q_proj.weight"]
    )
    with pytest.raises(ConfigError, match=r"not all of a model: .*tok_embeddings"):
        save_checkpoint(model, tmp_path / "back", adapter)


def test_a_stage_checks_the_whole_checkpoint(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3()
    model.tok_embeddings = None
    del tensors["model.embed_tokens.weight"]
    write_shards(tmp_path, tensors)
    with pytest.raises(ConfigError, match=r"1 missing: model\.embed_tokens\.weight"):
        load_checkpoint(model, tmp_path, adapter)


def test_a_model_on_meta_is_refused(tmp_path: Path) -> None:
    _, adapter, _ = _qwen3(tmp_path)
    with torch.device("meta"):
        model = Qwen3Model(Qwen3ModelArgs.from_hf_config(tiny_qwen3()))
    with pytest.raises(ConfigError, match="on meta"):
        load_checkpoint(model, tmp_path, adapter)


def test_another_models_adapter_is_refused(tmp_path: Path) -> None:
    _, adapter, _ = _qwen3(tmp_path)
    with pytest.raises(ConfigError, match=r"it has no layers\.0\.moe\.gate"):
        load_checkpoint(module_of(MIXED_SHAPES), tmp_path, adapter)


def test_files_without_an_index_are_taken_together(tmp_path: Path) -> None:
    model, adapter, tensors = _qwen3()
    names = sorted(tensors)
    save_file({n: tensors[n] for n in names[::2]}, tmp_path / "a.safetensors")
    save_file({n: tensors[n] for n in names[1::2]}, tmp_path / "b.safetensors")
    load_checkpoint(model, tmp_path, adapter)
    assert torch.equal(model.norm.weight, tensors["model.norm.weight"])
    save_file({names[0]: tensors[names[0]]}, tmp_path / "c.safetensors")
    with pytest.raises(ConfigError, match=f"in several shards: {names[0]}"):
        load_checkpoint(model, tmp_path, adapter)


def test_loading_takes_no_more_memory_than_one_tensor(tmp_path: Path) -> None:
    rows = 2048  # 8 MiB each, so that what Python itself needs does not count
    shapes = {f"layers.{i}.{name}": (rows, 1024) for i in range(4) for name in ("w1", "w3")}
    rules = [Fused("h.{}.gate_up", ("layers.{}.w1", "layers.{}.w3"))]
    adapter, model = adapter_of(rules, shapes), module_of(shapes)
    save_checkpoint(model, tmp_path, adapter)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1)
    before = _resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from now
    load_checkpoint(model, tmp_path, adapter)
    assert _resident_mb("VmHWM") - before < 1.5 * 2 * rows * 1024 * 4 / 2**20


def _resident_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

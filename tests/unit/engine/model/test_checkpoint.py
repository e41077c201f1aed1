"""Files: complete or absent whatever happens, and errors that say what does not fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from areal.api.errors import ConfigError
from areal.engine.model import checkpoint
from areal.engine.model.attention import IMPLEMENTATION
from areal.engine.model.checkpoint import atomic_folder, load_hf_weights, save_hf_model
from tests.fakes import tiny_tokenizer
from tests.tiny_models import tiny_model

# --- complete or absent -----------------------------------------------------------------------


def content(folder: Path) -> dict[str, str] | None:
    if not folder.exists():
        return None
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def write(target: Path, text: str) -> None:
    with atomic_folder(target) as folder:
        (folder / "sub").mkdir()
        for name in ("a", "sub/b", "sub/c"):
            (folder / name).write_text(f"{name} {text}")


def expected(text: str) -> dict[str, str]:
    return {name: f"{name} {text}" for name in ("a", "sub/b", "sub/c")}


class Killed(BaseException):
    """Takes the place of the end of the process."""


@contextmanager
def killed_at(call: int, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> Iterator[list[str]]:
    """Lets the n-th file operation and all after it not happen, like those of a killed process."""
    done: list[str] = []

    def guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if len(done) >= call:
                raise Killed
            done.append(name)
            return function(*args, **kwargs)

        return guarded

    with monkeypatch.context() as patch:
        for name in ("replace", "rename", "mkdir", "unlink", "rmdir", "fsync"):
            patch.setattr(os, name, guard(name, getattr(os, name)))
        exchange = checkpoint._exchange if exchanges else lambda *_: False
        patch.setattr(checkpoint, "_exchange", guard("exchange", exchange))
        yield done


@pytest.mark.parametrize("has_old", [False, True])
@pytest.mark.parametrize("exchanges", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_old: bool, exchanges: bool
) -> None:
    seen = []
    for call in range(100):
        target = tmp_path / str(call) / "target"
        if has_old:
            write(target, "old")
        is_killed = True
        with killed_at(call, monkeypatch, exchanges):
            try:
                write(target, "new")
                is_killed = False
            except Killed:
                pass
        found = content(target)
        allowed = [expected("new"), expected("old") if has_old else None]
        if has_old and not exchanges:
            allowed.append(None)  # set aside, for a moment
        assert found in allowed, call
        seen.append(found)
        # The next writer clears what is left, and a reader that looks first gets the old one back.
        checkpoint.clear_leftovers(target)
        assert content(target) in allowed[:2], call
        write(target, "newer")
        assert content(target) == expected("newer")
        assert os.listdir(target.parent) == ["target"]
        if not is_killed:
            break
    else:
        pytest.fail("the write never ended")
    assert seen[0] == allowed[1]
    assert seen[-1] == expected("new")


def test_an_error_leaves_the_old_and_no_traces(tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(target, "old")
    with pytest.raises(FileNotFoundError), atomic_folder(target) as folder:
        (folder / "no such folder" / "a").write_text("half")
    assert content(target) == expected("old")
    assert os.listdir(tmp_path) == ["target"]


def test_writers_of_other_targets_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".model-2.staged-1"
    other.mkdir()
    write(tmp_path / "model", "x")
    assert sorted(os.listdir(tmp_path)) == [".model-2.staged-1", "model"]


def test_a_model_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"
    save_hf_model(tiny_model(), target, tiny_tokenizer())
    assert (target / "tokenizer.json").is_file()
    save_hf_model(tiny_model(), target)
    assert sorted(os.listdir(target)) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
    ]


def test_a_saved_configuration_names_nothing_of_this_package(tmp_path: Path) -> None:
    model: Any = tiny_model()
    model.set_attn_implementation(IMPLEMENTATION)
    save_hf_model(model, tmp_path / "m")
    assert IMPLEMENTATION not in (tmp_path / "m" / "config.json").read_text()


# --- what fits ----------------------------------------------------------------------------------


def states(*models: nn.Module) -> list[dict[str, torch.Tensor]]:
    return [{name: value.clone() for name, value in m.state_dict().items()} for m in models]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_hf_model(tiny_model("llama"), tmp_path / "m")
    return tmp_path / "m"


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def shard(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, keys in parts.items():
        save_file({key: tensors[key] for key in keys}, folder / file, {"format": "pt"})
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def test_shards_are_put_together(saved: Path) -> None:
    shard(saved)
    model = tiny_model("llama", seed=4)
    load_hf_weights(model, saved)
    found, wanted = states(model, tiny_model("llama"))
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


UP = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: edit(f, lambda t: t.pop(UP)), UP),
        (lambda f: edit(f, lambda t: t.update({"odd.weight": torch.zeros(2)})), "odd.weight"),
        (lambda f: edit(f, lambda t: t.update({UP: torch.zeros(2, 2)})), UP),
        (lambda f: (f / "model.safetensors").unlink(), "no *.safetensors"),
        (lambda f: os.truncate(f / "model.safetensors", 5000), "complete"),
        (lambda f: os.truncate(f / "model.safetensors", 3), "complete"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 999), "complete"),
        (lambda f: (shard(f), (f / "model-2.safetensors").unlink()), "model-2.safetensors"),
    ],
)
def test_a_damaged_checkpoint_changes_nothing_and_is_named(
    saved: Path, damage: Callable[[Path], Any], words: str
) -> None:
    damage(saved)
    model = tiny_model("llama", seed=4)
    (before,) = states(model)
    with pytest.raises(ConfigError) as caught:
        load_hf_weights(model, saved)
    assert words in str(caught.value)
    assert str(saved) in str(caught.value)
    (after,) = states(model)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_experts_are_read_back_from_their_own_spelling(tmp_path: Path) -> None:
    save_hf_model(tiny_model("qwen3_moe"), tmp_path / "m")
    model = tiny_model("qwen3_moe", seed=4)
    load_hf_weights(model, tmp_path / "m")
    found, wanted = states(model, tiny_model("qwen3_moe"))
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    edit(tmp_path / "m", lambda t: t.pop("model.layers.1.mlp.experts.2.up_proj.weight"))
    with pytest.raises(ConfigError, match="cannot load"):
        load_hf_weights(model, tmp_path / "m")

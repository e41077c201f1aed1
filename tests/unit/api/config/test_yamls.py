"""Single-node YAML files in AReaL's schema load with every leaf at the file's value."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from areal.api.cli_args import (
    BaseExperimentConfig,
    DPOConfig,
    GRPOConfig,
    RWConfig,
    SchedulingSpec,
    SFTConfig,
    choose_config_class,
    load_expr_config,
    save_config,
)

YAMLS = Path(__file__).parent / "yamls"
CLASSES: dict[str, type[BaseExperimentConfig]] = {
    "gsm8k_grpo": GRPOConfig,
    "gsm8k_multi_turn": GRPOConfig,
    "gsm8k_sft": SFTConfig,
    "hhrlhf_dpo": DPOConfig,
    "hhrlhf_rw": RWConfig,
}
INHERITED = {"experiment_name", "trial_name", "fileroot"}


def load(name: str, *overrides: str) -> Any:
    path = str(YAMLS / f"{name}.yaml")
    config, returned = load_expr_config(["--config", path, *overrides], CLASSES[name])
    assert returned == path
    return config


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{key}.{index}")
    else:
        yield key, tree


def at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        if isinstance(tree, list | tuple):
            tree = tree[int(part)]
        elif isinstance(tree, dict):
            tree = tree[part]
        else:
            tree = getattr(tree, part)
    return tree


def resolved(tree: Any, value: Any) -> Any:
    """Replaces interpolations in the plain YAML, without OmegaConf."""
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = re.fullmatch(r"\$\{([\w.]+)\}", value)
    if whole:
        return resolved(tree, at(tree, whole[1]))
    return re.sub(r"\$\{([\w.]+)\}", lambda found: str(resolved(tree, at(tree, found[1]))), value)


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def holds(found: Any, written: Any) -> bool:
    """Compares a configuration's value with YAML's, which reads 1e-5 as text and on as a bool."""
    if isinstance(found, dict) and isinstance(written, dict):
        return all(name in found and holds(found[name], value) for name, value in written.items())
    if isinstance(found, list) and isinstance(written, list):
        return len(found) == len(written) and all(map(holds, found, written))
    if isinstance(found, float) and not isinstance(written, bool):
        return found == float(written)
    if isinstance(found, str) and isinstance(written, bool):
        return found == str(written)
    return type(found) is type(written) and found == written


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_leaf_has_the_files_value(name: str) -> None:
    config = load(name)
    tree = yaml.safe_load((YAMLS / f"{name}.yaml").read_text(encoding="utf-8"))
    written = dict(leaves(tree))
    assert len(written) > 40
    for key, value in written.items():
        found, wanted = plain(at(config, key)), resolved(tree, value)
        assert holds(found, wanted), f"{key}: {found!r} is not {wanted!r}"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_other_leaf_has_its_default(name: str) -> None:
    config = load(name)
    tree = yaml.safe_load((YAMLS / f"{name}.yaml").read_text(encoding="utf-8"))
    untouched = 0
    sections = {"", *(key.rpartition(".")[0] for key, _ in leaves(tree))}
    for section in sections:
        instance = at(config, section) if section else config
        if not dataclasses.is_dataclass(instance):
            continue
        written = at(tree, section) if section else tree
        defaults = default_section(type(config)(), section) or type(instance)()
        for field in dataclasses.fields(instance):
            has_made_default = field.name in INHERITED or field.name == "eval_gconfig"
            default = getattr(defaults, field.name)
            if (written and field.name in written) or has_made_default or is_section(default):
                continue
            assert getattr(instance, field.name) == default, f"{section}.{field.name}"
            untouched += 1
    assert untouched > 60


def default_section(config: Any, section: str) -> Any:
    """Returns what is there before anything is written; None if that is null."""
    try:
        found = at(config, section) if section else config
    except AttributeError:  # below a section that is null by default
        return None
    if section.rpartition(".")[2].isdigit():  # a written list replaces the default one
        return None
    return found if is_section(found) else None


def is_section(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_class_follows_from_the_dataset(name: str) -> None:
    assert choose_config_class(["-c", str(YAMLS / f"{name}.yaml")]) is CLASSES[name]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_saved_configuration_loads_as_the_same(name: str, tmp_path: Path) -> None:
    config = load(name)
    save_config(config, tmp_path / "logs" / "config.yaml")
    again, _ = load_expr_config(["-c", str(tmp_path / "logs" / "config.yaml")], type(config))
    assert again == config


def test_sections_are_dataclass_instances() -> None:
    config = load("gsm8k_grpo")
    assert type(config) is GRPOConfig
    assert config.actor.scheduling_spec == (
        SchedulingSpec(gpu=1, cmd="python3 -m areal.infra.rpc.rpc_server"),
    )
    assert config.ref.scheduling_spec == config.rollout.scheduling_spec
    assert isinstance(config.ref.scheduling_spec[0], SchedulingSpec)
    assert config.actor.optimizer.lr == 1.7e-5
    assert config.ref.optimizer is None
    assert config.actor.rejection_sampling.upper == 5.0
    assert config.eval_gconfig == config.gconfig
    assert config.eval_gconfig is not config.gconfig


def test_overrides_come_after_the_file_and_before_interpolation() -> None:
    config = load(
        "gsm8k_grpo",
        "gconfig.n_samples=16",
        "actor.optimizer.lr=3e-6",
        "++actor.path=/models/small",
        "valid_dataset=null",
        "gconfig.stop=[a, b]",
        "actor.archon={attn_type: sdpa}",
    )
    assert config.actor.reward_norm.group_size == 16
    assert config.actor.optimizer.lr == 3e-6
    assert config.actor.optimizer.weight_decay == 0.017
    assert config.ref.path == config.tokenizer_path == config.vllm.model == "/models/small"
    assert config.valid_dataset is None
    assert config.gconfig.stop == ["a", "b"]
    assert config.actor.archon.attn_type == "sdpa"

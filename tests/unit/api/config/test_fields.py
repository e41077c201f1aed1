"""Every field has AReaL's name, type and default, but for the documented differences."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from areal.api import cli_args, constants
from areal.api.config.defaults import DIFFERENT_DEFAULTS

EXPERIMENTS = ["GRPOConfig", "PPOConfig", "SFTConfig", "RWConfig", "DPOConfig"]
OUR_CLASSES = {"ModelSpecConfig", "RunConfig", "VisionSpecConfig"}
# Declared here for their defaults, too; AReaL inherits them.
OUR_FIELDS = {"BaseExperimentConfig": {"run"}, "PPOCriticConfig": {"is_critic"}}
# Which class a key of the table of differences belongs to.
CLASS_OF_SECTION = {
    "actor": "TrainEngineConfig",
    "cluster": "ClusterSpecConfig",
    "critic": "PPOCriticConfig",
    "recover": "RecoverConfig",
    "rollout": "InferenceEngineConfig",
    "scheduler": "SchedulerConfig",
    "stats_logger.tensorboard": "TensorBoardConfig",
}


def read_facts() -> dict[str, tuple[str, dict[str, tuple[str, str]]]]:
    facts: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
    fields: dict[str, tuple[str, str]] = {}
    text = (Path(__file__).parent / "areal_fields.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            name, _, base = line.strip("[]").partition(" < ")
            fields = {}
            facts[name] = (base, fields)
        elif line and not line.startswith("#"):
            declaration, _, default = line.partition(" = ")
            field_name, _, annotation = declaration.partition(": ")
            fields[field_name] = (annotation, default)
    return facts


FACTS = read_facts()
NAMES = {
    **vars(cli_args),
    **vars(constants),
    "Any": Any,
    "required": constants.MISSING,
}
DIFFERENT = {
    (CLASS_OF_SECTION[key.rpartition(".")[0]], key.rpartition(".")[2]): difference
    for key, difference in DIFFERENT_DEFAULTS.items()
}


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def test_facts_were_read() -> None:
    assert len(FACTS) == 42
    assert sum(len(fields) for _, fields in FACTS.values()) == 421
    assert set(FACTS) | OUR_CLASSES | {"SchedulingStrategyType"} == {
        name for name in cli_args.__all__ if isinstance(getattr(cli_args, name), type)
    }


@pytest.mark.parametrize("name", sorted(FACTS))
def test_fields_are_areals(name: str) -> None:
    base, expected = FACTS[name]
    cls = getattr(cli_args, name)
    if base:
        assert issubclass(cls, getattr(cli_args, base))
    own = set(inspect.get_annotations(cls))
    assert own - OUR_FIELDS.get(name, set()) == set(expected)
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key, (annotation, default) in expected.items():
        assert hints[key] == eval(annotation, dict(NAMES)), key
        value = eval(default, dict(NAMES))
        if (name, key) in DIFFERENT:
            difference = DIFFERENT[name, key]
            assert difference.areal == value, key
            value = difference.ours
        assert default_of(fields[key]) == value, key


def test_every_documented_difference_is_one() -> None:
    for (name, key), difference in DIFFERENT.items():
        owner = name
        while key not in FACTS[owner][1]:
            owner = FACTS[owner][0]
            assert owner, f"{name}.{key} is no field of AReaL's"
        fields = {field.name: field for field in dataclasses.fields(getattr(cli_args, name))}
        assert difference.areal == eval(FACTS[owner][1][key][1], dict(NAMES))
        assert difference.ours == default_of(fields[key]) != difference.areal
        assert difference.reason


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_omegaconf_takes_the_class_as_a_schema(name: str) -> None:
    cls = getattr(cli_args, name)
    node = OmegaConf.structured(cls)
    assert set(node) == {field.name for field in dataclasses.fields(cls)}
    assert OmegaConf.get_type(node) is cls


@pytest.mark.parametrize("name", sorted(FACTS))
def test_every_class_can_be_made_in_python(name: str) -> None:
    cls = getattr(cli_args, name)
    first, second = cls(), cls()
    assert first == second
    for field in dataclasses.fields(cls):
        value = getattr(first, field.name)
        if isinstance(value, list | dict) or dataclasses.is_dataclass(value):
            assert value is not getattr(second, field.name), f"{field.name} is shared"

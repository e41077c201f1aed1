"""Configurations of new projects in a strict loader over the dataclasses that AReaL documents."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from areal.api import constants
from tests.unit.api.config.test_fields import FACTS

PROJECT = Path(__file__).parents[3] / "golden" / "trees" / "project"
CLASSES = {"dpo": "DPOConfig", "grpo": "GRPOConfig", "rw": "RWConfig", "sft": "SFTConfig"}
# What AReaL's loader wants in each section, and ours takes from the run and the machine.
NAMES = {"experiment_name", "trial_name", "fileroot", "backend"}


def documented_classes() -> dict[str, type]:
    """Make AReaL's dataclasses from their documented fields, types and defaults."""
    known: dict[str, Any] = {**vars(constants), "Any": Any, "required": constants.MISSING}
    for name, (base, fields) in FACTS.items():
        declared = [
            (key, eval(kind, known), dataclasses.field(default_factory=_default(value, known)))
            for key, (kind, value) in fields.items()
        ]
        known[name] = dataclasses.make_dataclass(
            name, declared, bases=(known[base],) if base else ()
        )
    return known


def _default(value: str, known: dict[str, Any]) -> Any:
    return lambda: eval(value, known)


AREAL = documented_classes()


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_areal_takes_the_configuration_of_a_new_project(name: str) -> None:
    schema = OmegaConf.structured(AREAL[CLASSES[name]])
    merged = OmegaConf.merge(schema, OmegaConf.load(PROJECT / f"{name}.yaml"))
    missing = {key.rpartition(".")[2] for key in OmegaConf.missing_keys(merged)}
    assert missing <= NAMES

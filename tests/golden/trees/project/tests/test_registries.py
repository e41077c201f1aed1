"""Every registered component can be imported, and the tables stay sorted."""

from __future__ import annotations

import importlib

import pytest
from areal.api.errors import UnknownNameError
from areal.experimental.models.archon import get_model_spec

from my_rl.dataset import DATASETS, get_loader
from my_rl.models import ARCHON_MODELS
from my_rl.reward import REWARDS, get_reward_fn
from my_rl.workflow import WORKFLOWS, get_workflow


def test_every_reward_is_a_function() -> None:
    assert all(callable(get_reward_fn(name)) for name in REWARDS)


def test_every_workflow_has_episodes() -> None:
    for workflow in map(get_workflow, WORKFLOWS):
        is_agent = hasattr(workflow, "run")
        assert callable(workflow.run if is_agent else workflow.arun_episode)


def test_every_dataset_has_a_loader() -> None:
    for name, module in DATASETS.items():
        loaders = [each for each in dir(importlib.import_module(module)) if f"get_{name}_" in each]
        assert loaders, f"{module} defines no get_{name}_<type>_dataset"


def test_every_model_is_found_by_its_type() -> None:
    for model_type in ARCHON_MODELS:
        assert model_type in get_model_spec(model_type).supported_model_types


@pytest.mark.parametrize("table", [REWARDS, DATASETS, WORKFLOWS, ARCHON_MODELS])
def test_tables_are_sorted(table: dict[str, str]) -> None:
    assert list(table) == sorted(table)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="known"):
        get_reward_fn("no_such_reward")
    with pytest.raises(UnknownNameError, match="known"):
        get_loader("no_such_dataset", "rl")

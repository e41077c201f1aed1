"""Does every registered workflow obey its kind?"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from areal.api.workflow_api import RolloutWorkflow
from areal.workflow import WORKFLOWS, get_workflow
from tests.conformance.registries import (
    check_arguments_are_documented,
    check_docstring,
    check_lazy_exports,
    check_table,
    check_unit,
)


def test_the_table_is_one_sorted_literal() -> None:
    check_table("areal.workflow", "WORKFLOWS")


def test_the_package_offers_every_workflow() -> None:
    check_lazy_exports(
        "areal.workflow", [target.partition(":")[2] for target in WORKFLOWS.values()]
    )


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_a_unit_of_its_own(name: str) -> None:
    module_name, _, attribute = WORKFLOWS[name].partition(":")
    # The capitals differ from class to class (RLVR), the letters do not.
    assert attribute.lower() == f"{name.replace('_', '')}workflow"
    assert check_unit("workflow", name, module_name)


def episodes_of(name: str) -> Any:
    """Returns the coroutine function that runs episodes: a workflow's, or an agent's."""
    workflow = get_workflow(name)
    return vars(workflow)["arun_episode" if issubclass(workflow, RolloutWorkflow) else "run"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_episodes(name: str) -> None:
    workflow, run = get_workflow(name), episodes_of(name)
    assert not inspect.isabstract(workflow)
    assert inspect.iscoroutinefunction(run)
    parameters = inspect.signature(run).parameters
    if issubclass(workflow, RolloutWorkflow):
        assert list(parameters) == ["self", "engine", "data"]
    else:
        assert list(parameters)[:2] == ["self", "data"]
        inspect.signature(run).bind(None, {}, base_url="", http_client=None, api_key="")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_documented(name: str) -> None:
    workflow = get_workflow(name)
    check_docstring(workflow, "Args")
    check_arguments_are_documented(workflow.__init__, workflow.__doc__ or "")
    check_docstring(episodes_of(name), "Returns")

"""Does every registered workflow obey its kind?"""

from __future__ import annotations

import inspect

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


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_episodes(name: str) -> None:
    workflow = get_workflow(name)
    assert issubclass(workflow, RolloutWorkflow)
    assert not inspect.isabstract(workflow)
    run = vars(workflow)["arun_episode"]
    assert inspect.iscoroutinefunction(run)
    assert list(inspect.signature(run).parameters) == ["self", "engine", "data"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_documented(name: str) -> None:
    workflow = get_workflow(name)
    check_docstring(workflow, "Args")
    check_arguments_are_documented(workflow.__init__, workflow.__doc__ or "")
    check_docstring(workflow.arun_episode, "Returns")

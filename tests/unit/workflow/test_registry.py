from __future__ import annotations

import pytest

import areal.workflow
from areal.api.errors import UnknownNameError
from areal.workflow import WORKFLOWS, get_workflow
from areal.workflow.rlvr import RLVRWorkflow


@pytest.mark.parametrize(
    "name", ["rlvr", "areal.workflow.rlvr.RLVRWorkflow", "areal.workflow:RLVRWorkflow"]
)
def test_a_name_or_a_dotted_path_gives_the_class(name: str) -> None:
    assert get_workflow(name) is RLVRWorkflow


def test_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'multi_turn'"):
        get_workflow("multi_turns")


def test_classes_are_attributes_of_the_package() -> None:
    assert areal.workflow.RLVRWorkflow is RLVRWorkflow
    assert set(areal.workflow.__all__) >= {
        target.partition(":")[2] for target in WORKFLOWS.values()
    }
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(areal.workflow, "nothing")  # noqa: B009  (a name that no checker knows)

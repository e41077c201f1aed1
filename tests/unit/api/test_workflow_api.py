from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

from areal.api import AgentWorkflow, InferenceEngine, RolloutWorkflow, WorkflowLike
from areal.api.workflow_api import TokenInteraction


class Echo(RolloutWorkflow):
    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, Any] | None:
        return {"seen": data["x"]}


class Agent(AgentWorkflow):
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        return float(data["x"])


class Interaction:
    interaction_id = "a"
    reward = 1.0
    has_tensor_data = True

    def to_tensor_dict(self) -> dict[str, Any]:
        return {}


def test_a_workflow_needs_arun_episode_and_nothing_else() -> None:
    with pytest.raises(TypeError, match="arun_episode"):
        RolloutWorkflow()  # type: ignore[abstract]
    assert "__init__" not in vars(RolloutWorkflow)
    engine: Any = None
    assert asyncio.run(Echo().arun_episode(engine, {"x": 3})) == {"seen": 3}


def test_making_an_agent_of_the_old_kind_warns() -> None:
    with pytest.warns(DeprecationWarning, match="let Agent be a plain class") as caught:
        agent = Agent()
    assert caught[0].filename == __file__
    assert asyncio.run(agent.run({"x": 2})) == 2.0


def test_an_agent_of_the_old_kind_needs_run() -> None:
    class Empty(AgentWorkflow):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(TypeError, match="abstract method"):
            Empty()


def test_defining_an_agent_of_the_old_kind_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type("Quiet", (AgentWorkflow,), {})


def test_interactions_are_known_by_what_they_have() -> None:
    assert isinstance(Interaction(), TokenInteraction)
    assert not isinstance({"input_ids": []}, TokenInteraction)
    assert WorkflowLike is not None

from __future__ import annotations

from typing import Any

import pytest

from areal.api.workflow_api import RolloutWorkflow
from areal.infra import GroupedRolloutWorkflow
from areal.infra.workflow_resolution import resolve_accept_fn, resolve_workflow

_HERE = __name__


class Plain(RolloutWorkflow):
    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> None:
        return None


class WithArguments(Plain):
    def __init__(self, reward_fn: str, turns: int = 2) -> None:
        self.reward_fn = reward_fn
        self.turns = turns


class Duck:
    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> None:
        return None


class Agent:
    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        return 1.0


def accept_all(trajectory: dict[str, Any]) -> bool:
    return True


instance = Plain()


@pytest.mark.parametrize(
    ("workflow", "kwargs", "expected"),
    [
        (Plain, None, Plain),
        (Plain, {}, Plain),
        (Plain(), None, Plain),
        (f"{_HERE}.Plain", None, Plain),
        (f"{_HERE}:Plain", None, Plain),
        (f"{_HERE}.instance", None, Plain),
        (WithArguments, {"reward_fn": "gsm8k"}, WithArguments),
        (Duck, None, Duck),
        (Duck(), None, Duck),
    ],
)
def test_workflows_are_found_and_made(workflow: Any, kwargs: Any, expected: type) -> None:
    assert type(resolve_workflow(workflow, kwargs)) is expected


def test_arguments_arrive() -> None:
    made = resolve_workflow(WithArguments, {"reward_fn": "gsm8k", "turns": 5})
    assert (made.reward_fn, made.turns) == ("gsm8k", 5)  # type: ignore[attr-defined]


def test_arguments_for_an_instance_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert resolve_workflow(instance, {"turns": 3}) is instance
    assert "['turns'] are ignored" in caplog.text


@pytest.mark.parametrize(
    ("workflow", "kwargs", "message"),
    [
        (None, None, "workflow is None, which needs rollout.agent.mode: online"),
        (WithArguments, None, r"missing a required argument: 'reward_fn'; .* were not given"),
        (WithArguments, {"reward": 1}, r"workflow_kwargs are \['reward'\]"),
        ("no_dots", None, "cannot import workflow 'no_dots'"),
        ("areal.nowhere.Workflow", None, "cannot import workflow"),
        (f"{_HERE}.Nothing", None, "cannot import workflow"),
        (42, None, "42 is neither a workflow"),
        (f"{_HERE}.accept_all", None, "is neither a workflow"),
        (Agent, None, "Agent is an agent .* proxy"),
        (Agent(), None, "Agent is an agent .* proxy"),
        (RolloutWorkflow, None, None),
    ],
)
def test_what_cannot_run_is_refused(workflow: Any, kwargs: Any, message: str | None) -> None:
    with pytest.raises(ValueError if message else TypeError, match=message):
        resolve_workflow(workflow, kwargs)


def test_an_agent_is_wrapped_where_there_is_a_proxy() -> None:
    wrapped: list[Any] = []

    def wrap(agent: Any) -> RolloutWorkflow:
        wrapped.append(agent)
        return instance

    assert resolve_workflow(f"{_HERE}.Agent", {"temperature": 0.5}, agent_wrapper=wrap) is instance
    assert wrapped[0].temperature == 0.5
    assert resolve_workflow(None, agent_wrapper=wrap, is_online=True) is instance
    assert wrapped[1] is None


def test_groups_are_wrapped() -> None:
    grouped = resolve_workflow(instance, None, 3, True, True, serialize=True)
    assert isinstance(grouped, GroupedRolloutWorkflow)
    assert grouped.workflow is instance
    assert (grouped.group_size, grouped.serialize) == (3, True)
    assert (grouped.reward_normalization, grouped.drop_incomplete_group) == (True, True)
    assert resolve_workflow(instance, None, 1, True) is instance
    with pytest.raises(ValueError, match="group_size must be at least 1"):
        resolve_workflow(instance, None, 0)


def test_filters_are_found() -> None:
    assert resolve_accept_fn(None) is None
    assert resolve_accept_fn(accept_all) is accept_all
    assert resolve_accept_fn(f"{_HERE}.accept_all") is accept_all
    with pytest.raises(ValueError, match="cannot import should_accept_fn"):
        resolve_accept_fn("areal.nowhere.fn")
    for wrong in (42, f"{_HERE}.instance"):
        with pytest.raises(TypeError, match="must be a callable or an import path"):
            resolve_accept_fn(wrong)

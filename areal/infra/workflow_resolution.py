"""From what a caller names as a workflow to the object that runs episodes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from areal.api.registry import import_from_string
from areal.api.workflow_api import RolloutWorkflow
from areal.infra.grouped_rollout import GroupedRolloutWorkflow

logger = logging.getLogger("WorkflowExecutor")

AcceptFn = Callable[[dict[str, Any]], bool]
# Makes a workflow of an agent (anything with a coroutine ``run``), or of None in online mode.
AgentWrapper = Callable[[Any], RolloutWorkflow]


def resolve_workflow(
    workflow: Any,
    workflow_kwargs: dict[str, Any] | None = None,
    group_size: int = 1,
    reward_normalization: bool = False,
    drop_incomplete_group: bool = False,
    *,
    agent_wrapper: AgentWrapper | None = None,
    is_online: bool = False,
    serialize: bool = False,
) -> RolloutWorkflow:
    """Return a workflow that is ready to run.

    Args:
        workflow: An instance or a class of a workflow or an agent, or the import path of one.
            None is allowed where an outside program drives the agent.
        workflow_kwargs: For the class; may be None where the class needs none.
        group_size: How many episodes each row gets.
        reward_normalization: See ``GroupedRolloutWorkflow``.
        drop_incomplete_group: See ``GroupedRolloutWorkflow``.
        agent_wrapper: Makes a workflow of an agent; None where there is no proxy.
        is_online: Allows None.
        serialize: Runs the episodes of a group one after the other.

    Raises:
        ValueError: It cannot be imported or made, is neither workflow nor agent, or is an agent
            where there is no proxy.
    """
    if workflow is None:
        if not is_online:
            raise ValueError("workflow is None, which needs rollout.agent.mode: online")
        resolved = _wrap_agent(None, agent_wrapper)
    else:
        resolved = _resolve_one(workflow, workflow_kwargs, agent_wrapper)
    if group_size == 1:
        return resolved
    return GroupedRolloutWorkflow(
        resolved,
        group_size,
        logger,
        reward_normalization,
        drop_incomplete_group,
        serialize=serialize,
    )


def resolve_accept_fn(should_accept_fn: Any) -> AcceptFn | None:
    """Return the filter that a caller gave as a callable or an import path.

    Raises:
        ValueError: The path cannot be imported.
        TypeError: It is neither, or the path names something that cannot be called.
    """
    if should_accept_fn is None:
        return None
    if isinstance(should_accept_fn, str):
        should_accept_fn = _import(should_accept_fn, "should_accept_fn")
    if not callable(should_accept_fn):
        raise TypeError(
            f"should_accept_fn must be a callable or an import path, not {should_accept_fn!r}"
        )
    accept_fn: AcceptFn = should_accept_fn
    return accept_fn


def is_workflow(candidate: Any) -> bool:
    """Return True for a workflow, instance or class, whether or not it derives from the base."""
    return inspect.iscoroutinefunction(getattr(candidate, "arun_episode", None))


def is_agent(candidate: Any) -> bool:
    """Return True for an agent, instance or class: it has a coroutine ``run``."""
    return inspect.iscoroutinefunction(getattr(candidate, "run", None))


def _resolve_one(workflow: Any, kwargs: Any, agent_wrapper: AgentWrapper | None) -> RolloutWorkflow:
    if isinstance(workflow, str):
        workflow = _import(workflow, "workflow")
    if isinstance(workflow, type):
        workflow = _construct(workflow, kwargs)
    elif kwargs:
        logger.warning(
            "workflow_kwargs %s are ignored: the workflow is an instance of %s already",
            sorted(kwargs),
            type(workflow).__name__,
        )
    if isinstance(workflow, RolloutWorkflow) or is_workflow(workflow):
        resolved: RolloutWorkflow = workflow
        return resolved
    if not is_agent(workflow):
        raise ValueError(
            f"{workflow!r} is neither a workflow (async def arun_episode) nor an agent "
            "(async def run)"
        )
    return _wrap_agent(workflow, agent_wrapper)


def _import(path: str, what: str) -> Any:
    try:
        return import_from_string(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"cannot import {what} {path!r}: {error}") from error


def _construct(cls: type[Any], kwargs: dict[str, Any] | None) -> Any:
    try:
        inspect.signature(cls).bind(**(kwargs or {}))
    except TypeError as error:
        given = "were not given" if kwargs is None else f"are {sorted(kwargs)}"
        raise ValueError(
            f"cannot make a {cls.__name__}: {error}; workflow_kwargs {given}, "
            f"its signature is {cls.__name__}{inspect.signature(cls)}"
        ) from error
    return cls(**(kwargs or {}))


def _wrap_agent(agent: Any, agent_wrapper: AgentWrapper | None) -> RolloutWorkflow:
    if agent_wrapper is None:
        raise ValueError(
            f"{type(agent).__name__} is an agent (async def run), and agents reach the model "
            "through an OpenAI-compatible proxy, which this engine has none of; start an "
            "areal.experimental.openai.AgentProxy and set workflow_executor.agent_wrapper to its "
            "wrap, or train with PPOTrainer, which does"
        )
    return agent_wrapper(agent)

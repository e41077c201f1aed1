"""Grouped rollouts: several episodes of one dataset row."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Sequence
from typing import Any

from areal.api.workflow_api import RolloutWorkflow
from areal.infra import workflow_context
from areal.infra.episode_gauge import EpisodeLease
from areal.infra.episode_monitor import EpisodeMonitor, run_episode, workflow_name
from areal.infra.trajectory import is_interactions
from areal.utils.data import concat_padded_tensors

_EPSILON = 1e-8


class GroupedRolloutWorkflow(RolloutWorkflow):
    """Runs an episode several times on one row and puts the results together.

    A member that fails costs itself, not its group.

    Args:
        workflow: Runs one episode.
        group_size: How many episodes a group has.
        logger: Gets a warning when members are missing.
        reward_normalization: Standardises the rewards of interactions within the group; the
            original stays in ``original_reward``. Tensors are left as they are.
        drop_incomplete_group: Rejects a group of which one member was rejected or failed.
        serialize: Runs the members one after the other.
    """

    def __init__(
        self,
        workflow: RolloutWorkflow,
        group_size: int,
        logger: logging.Logger | None = None,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
        *,
        serialize: bool = False,
    ) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, but is {group_size}")
        self.workflow = workflow
        self.group_size = group_size
        self.logger = logger or logging.getLogger("GroupedRolloutWorkflow")
        self.reward_normalization = reward_normalization
        self.drop_incomplete_group = drop_incomplete_group
        self.serialize = serialize

    @property
    def name_in_messages(self) -> str:
        """The name of the workflow whose episodes it runs."""
        return workflow_name(self.workflow)

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any] | None:
        """Run the whole group.

        Returns:
            One dict with the members' tensors along the batch dimension, or one mapping with the
            interactions of all members; None if nothing is left of the group.
        """
        return await self.run_group(engine, data, EpisodeMonitor(self.logger), None)

    async def run_group(
        self, engine: Any, data: dict[str, Any], monitor: EpisodeMonitor, lease: EpisodeLease | None
    ) -> dict[str, Any] | None:
        """Run ``arun_episode`` with a monitor that learns of every member, and its gauge."""
        context = workflow_context.get()
        name = self.name_in_messages

        async def run_member(sample_idx: int) -> Any:
            workflow_context.set(
                workflow_context.WorkflowContext(context.is_eval, context.task_id, sample_idx)
            )
            try:
                return await run_episode(self.workflow, engine, data, name, monitor)
            finally:
                if lease is not None:
                    lease.release_one()

        members = range(self.group_size)
        if self.serialize:
            # Each in a task of its own all the same, which the watchdog may cancel.
            results = [await asyncio.create_task(run_member(i)) for i in members]
        else:
            results = await asyncio.gather(*map(run_member, members))
        return self._join(results)

    def _join(self, results: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
        kept = [result for result in results if result is not None]
        if len(kept) < self.group_size:
            is_dropped = self.drop_incomplete_group or not kept
            self.logger.debug(
                "%d of %d episodes of a group are left%s",
                len(kept),
                self.group_size,
                "; the group is dropped" if is_dropped else "",
            )
            if is_dropped:
                return None
        if is_interactions(kept[0]):
            if self.reward_normalization and not _normalize_rewards(kept):
                self.logger.warning("a group was dropped: an episode of it has no reward")
                return None
            return {key: value for result in kept for key, value in result.items()}
        if self.reward_normalization:
            say_that_tensors_stay()
        return concat_padded_tensors(kept)


@functools.cache
def say_that_tensors_stay() -> None:
    """Log, once a process, that a key has no effect on what the workflow returns."""
    logging.getLogger("GroupedRolloutWorkflow").warning(
        "gconfig.reward_normalization has no effect: it is for the interactions of agents, and the "
        "workflow returns tensors; actor.reward_norm normalises the rewards of both"
    )


def _normalize_rewards(rollouts: Sequence[dict[str, Any]]) -> bool:
    """Standardise the rewards of a group in place; returns False if one rollout has none.

    A rollout counts by the reward of its last interaction, which all its interactions get.
    """
    scores = [list(rollout.values())[-1].reward for rollout in rollouts]
    if any(score is None for score in scores):
        return False
    mean = sum(scores) / len(scores)
    std = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    for rollout, score in zip(rollouts, scores, strict=True):
        for interaction in rollout.values():
            if interaction.reward is not None:
                interaction.original_reward = interaction.reward
                interaction.reward = (score - mean) / (std + _EPSILON)
    return True

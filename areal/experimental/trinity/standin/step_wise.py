"""Workflows of several steps: ``trinity.common.workflows.step_wise_workflow``."""

from __future__ import annotations

from typing import Any

from areal.experimental.trinity.standin.experience import Experience
from areal.experimental.trinity.standin.workflows import Task, Workflow


class _StepWise(Workflow):
    """Takes steps until one reports that it was the last, and collects what the model recorded.

    Args:
        task: The row and its settings.
        model: Has its history on.
        auxiliary_models: Further models.
        use_openai_client: Gives the workflow ``client``, an OpenAI client of the model.
    """

    def __init__(
        self,
        *,
        task: Task,
        model: Any,
        auxiliary_models: list[Any] | None = None,
        use_openai_client: bool = True,
    ) -> None:
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        if not model.enable_history:
            raise ValueError("a step-wise workflow needs explorer.rollout_model.enable_history")
        if use_openai_client:
            self.client = (
                model.get_openai_async_client() if self.is_async else model.get_openai_client()
            )

    @property
    def max_step_num(self) -> int:
        """How many steps a run takes at most."""
        raise NotImplementedError("max_step_num must be implemented")

    def _of_step(self, step_num: int) -> list[Experience]:
        found: list[Experience] = self.model.extract_experience_from_history()
        for experience in found:
            experience.eid.run = self.run_id_base
            experience.eid.step = step_num
        return found


def _propagated(experiences: list[Experience], reward: float, steps: int) -> list[Experience]:
    for experience in experiences:
        experience.reward = reward
        experience.metrics = {**(experience.metrics or {}), "actual_env_steps": steps}
    return experiences


def _rewarded(experiences: list[Experience], reward: float) -> list[Experience]:
    for experience in experiences:
        experience.reward = reward
    return experiences


class StepWiseRewardWorkflow(_StepWise):
    """Rewards every step by itself."""

    def step(self, step_num: int) -> bool:
        """Take a step; False ends the run."""
        raise NotImplementedError("step() must be implemented")

    def reward(self, exps: list[Experience], step_num: int) -> float:
        """Return the reward of a step."""
        raise NotImplementedError("reward() must be implemented")

    def run(self) -> list[Experience]:
        found: list[Experience] = []
        for step_num in range(self.max_step_num):
            goes_on = self.step(step_num=step_num)
            experiences = self._of_step(step_num)
            found += _rewarded(experiences, self.reward(experiences, step_num=step_num))
            if not goes_on:
                break
        return found


class AsyncStepWiseRewardWorkflow(StepWiseRewardWorkflow):
    """Rewards every step by itself, on the event loop."""

    is_async = True

    async def step_async(self, step_num: int) -> bool:
        """Take a step; False ends the run."""
        raise NotImplementedError("step_async() must be implemented")

    async def reward_async(self, exps: list[Experience], step_num: int) -> float:
        """Return the reward of a step."""
        raise NotImplementedError("reward_async() must be implemented")

    async def run_async(self) -> list[Experience]:
        found: list[Experience] = []
        for step_num in range(self.max_step_num):
            goes_on = await self.step_async(step_num=step_num)
            experiences = self._of_step(step_num)
            found += _rewarded(experiences, await self.reward_async(experiences, step_num=step_num))
            if not goes_on:
                break
        return found


class RewardPropagationWorkflow(_StepWise):
    """Gives every step the reward of the whole run."""

    def step(self, step_num: int) -> bool:
        """Take a step; False ends the run."""
        raise NotImplementedError("step() must be implemented")

    def reward(self, exps: list[Experience]) -> float:
        """Return the reward of the run."""
        raise NotImplementedError("reward() must be implemented")

    def run(self) -> list[Experience]:
        found: list[Experience] = []
        steps = 0
        for step_num in range(self.max_step_num):
            goes_on = self.step(step_num=step_num)
            found += self._of_step(step_num)
            steps = step_num + 1
            if not goes_on:
                break
        return _propagated(found, self.reward(found), steps)


class AsyncRewardPropagationWorkflow(RewardPropagationWorkflow):
    """Gives every step the reward of the whole run, on the event loop."""

    is_async = True

    async def step_async(self, step_num: int) -> bool:
        """Take a step; False ends the run."""
        raise NotImplementedError("step_async() must be implemented")

    async def reward_async(self, exps: list[Experience]) -> float:
        """Return the reward of the run."""
        raise NotImplementedError("reward_async() must be implemented")

    async def run_async(self) -> list[Experience]:
        found: list[Experience] = []
        steps = 0
        for step_num in range(self.max_step_num):
            goes_on = await self.step_async(step_num=step_num)
            found += self._of_step(step_num)
            steps = step_num + 1
            if not goes_on:
                break
        return _propagated(found, await self.reward_async(found), steps)

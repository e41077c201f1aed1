"""Stepping: a workflow for Trinity-RFT 0.6.0 and its development line."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trinity.common.workflows import Task
from trinity.common.workflows.step_wise_workflow import AsyncRewardPropagationWorkflow

if TYPE_CHECKING:
    # At run time this import needs vllm, which no workflow has to.
    from trinity.common.experience import Experience
    from trinity.common.models.model import ModelWrapper

AUXILIARY_MODELS = 2


class SteppingWorkflow(AsyncRewardPropagationWorkflow):
    """Tries until the answer is right; each try is a step with the reward of the last one."""

    can_reset = True
    is_async = True

    def __init__(
        self,
        *,
        task: Task,
        model: ModelWrapper,
        auxiliary_models: list[ModelWrapper] | None = None,
    ) -> None:
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        if len(self.auxiliary_models or []) != AUXILIARY_MODELS:
            raise ValueError(f"explorer.auxiliary_models must have {AUXILIARY_MODELS} entries")
        self.reset(task)

    def reset(self, task: Task) -> None:
        """Makes the object ready for another task; runners keep it."""
        # The reset of 0.6.0 leaves the former task, which scoring must not see.
        self.task = task
        # The development line has a key for each task, and 0.6.0 none.
        if hasattr(self.model, "set_api_key"):
            self.model.set_api_key(task.api_key)
        row = task.raw_task or {}
        self.question = row[task.format_args.prompt_key]
        self.truth = row.get(task.format_args.response_key)
        self.max_turns = int(task.workflow_args.get("max_turns", 4))
        self.messages = self.build_messages()
        self.scores: dict[str, float] = {}

    def build_messages(self) -> list[dict[str, Any]]:
        """Returns the conversation that the model is to continue."""
        asked = self.question
        messages = list(asked) if isinstance(asked, list) else [{"role": "user", "content": asked}]
        system = self.task.format_args.system_prompt
        return [{"role": "system", "content": system}, *messages] if system else messages

    def sampling(self) -> dict[str, Any]:
        """Returns how to sample; what is left out is sampled as the YAML sets for the model."""
        given, names = asdict(self.task.rollout_args), ("temperature", "top_p", "max_tokens")
        return {name: given[name] for name in names if given[name] is not None}

    async def score(self, response: str) -> dict[str, float]:
        """Returns named scores of a response; their sum is its reward, and they become metrics."""
        verdicts = [await self.judge(client, response) for client in self.auxiliary_models]
        return {"judged": sum(verdicts) / len(verdicts)}

    async def judge(self, client: Any, response: str) -> float:
        """Asks an auxiliary model whether a response is right: 1.0 or 0.0."""
        text = f"Question: {self.question}\nExpected: {self.truth}\nAnswer: {response}"
        asked = f"{text}\nIs the answer right? Say yes or no."
        verdict = await client.chat.completions.create(
            model=client.model_path, messages=[{"role": "user", "content": asked}]
        )
        said = verdict.choices[0].message.content or ""
        return float(said.strip().lower().startswith("yes"))

    def feedback(self, response: str) -> str:
        """Returns what the model reads after a wrong answer."""
        # YOURS: say what the model reads after a wrong answer, without giving it away
        return "Your answer is wrong. Think again and answer once more."

    @property
    def max_step_num(self) -> int:
        """How many steps a run has at most."""
        return self.max_turns

    async def step_async(self, step_num: int) -> bool:
        """Takes one step; False ends the run."""
        answer = await self.client.chat.completions.create(
            model=self.client.model_path, messages=self.messages, **self.sampling()
        )
        response = answer.choices[0].message.content or ""
        self.scores = await self.score(response)
        self.messages += [
            {"role": "assistant", "content": response},
            {"role": "user", "content": self.feedback(response)},
        ]
        return sum(self.scores.values()) <= 0

    async def reward_async(self, exps: list[Experience]) -> float:
        """Returns the reward that every step gets."""
        for experience in exps:
            experience.eid.run = self.run_id_base
            experience.metrics = {**(experience.metrics or {}), **self.scores}
        return sum(self.scores.values())

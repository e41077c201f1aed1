"""Asked twice: a workflow for Trinity-RFT 0.6.0 and its development line."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trinity.common.workflows import Task
from trinity.common.workflows.workflow import MultiTurnWorkflow

if TYPE_CHECKING:
    # At run time this import needs vllm, which no workflow has to.
    from trinity.common.experience import Experience
    from trinity.common.models.model import ModelWrapper


class AskedTwiceWorkflow(MultiTurnWorkflow):
    """Tries until the answer is right; the whole conversation is one experience."""

    can_reset = True
    can_repeat = True

    def __init__(
        self,
        *,
        task: Task,
        model: ModelWrapper,
        auxiliary_models: list[ModelWrapper] | None = None,
    ) -> None:
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        self.repeat_times = 1
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

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        """Sets how many experiences a run returns, and the number of the first."""
        self.repeat_times = repeat_times
        self.run_id_base = run_id_base

    def build_messages(self) -> list[dict[str, Any]]:
        """Returns the conversation that the model is to continue."""
        asked = self.question
        messages = list(asked) if isinstance(asked, list) else [{"role": "user", "content": asked}]
        system = self.task.format_args.system_prompt
        return [{"role": "system", "content": system}, *messages] if system else messages

    def sampling(self) -> dict[str, Any]:
        """Returns how to sample; what is left out is sampled as the YAML sets for the model."""
        # Without n: runs are repeated by the runner, and n in each would square their number.
        given = asdict(self.task.rollout_args)
        return {name: value for name, value in given.items() if name != "n" and value is not None}

    def score(self, response: str) -> dict[str, float]:
        """Returns named scores of a response; their sum is its reward, and they become metrics."""
        # YOURS: score the response; compare it with self.truth as your task asks for
        return {"accuracy": float(response.strip() == str(self.truth))}

    def feedback(self, response: str) -> str:
        """Returns what the model reads after a wrong answer."""
        # YOURS: say what the model reads after a wrong answer, without giving it away
        return "Your answer is wrong. Think again and answer once more."

    def run(self) -> list[Experience]:
        """Runs the task repeat_times times."""
        return [self.converse(index) for index in range(self.repeat_times)]

    def converse(self, index: int) -> Experience:
        """Returns one conversation as an experience."""
        messages = self.build_messages()
        for turn in range(1, self.max_turns + 1):
            answer = (self.model.chat(messages, **self.sampling()))[0]
            response = answer.response_text or ""
            messages.append({"role": "assistant", "content": response})
            scores = self.score(response)
            if sum(scores.values()) > 0 or turn == self.max_turns:
                break
            messages.append({"role": "user", "content": self.feedback(response)})
        reward, info = sum(scores.values()), {**scores, "turns": turn}
        experience = self.process_messages_to_experience(messages, reward, info)
        experience.eid.run = self.run_id_base + index
        return experience

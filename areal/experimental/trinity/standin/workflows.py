"""Tasks and workflows: ``trinity.common.workflows`` and its module ``workflow``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from areal.experimental.trinity.standin.config import FormatConfig, GenerationConfig
from areal.experimental.trinity.standin.experience import Experience
from areal.experimental.trinity.standin.log import get_logger
from areal.experimental.trinity.standin.registry import Registry
from areal.experimental.trinity.standin.rewards import MathRewardFn, RewardFn

# Source: table 1 of DeepSeek-AI 2025, arXiv:2501.12948.
_THINK_PROMPT = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves "
    "it. The assistant first thinks about the reasoning process in the mind and then provides the "
    "user with the answer. The reasoning process and answer are enclosed within <think> </think> "
    "and <answer> </answer> tags, respectively, i.e.,\n<think> reasoning process here </think>\n"
    "<answer> answer here </answer>.\n"
)


@dataclass
class Task(dict[str, Any]):
    """One row and how it is run. A dict without items, so compare it with ``is not None``."""

    workflow: Any = None
    repeat_times: int | None = None
    format_args: FormatConfig = field(default_factory=FormatConfig)
    rollout_args: GenerationConfig = field(default_factory=GenerationConfig)
    workflow_args: dict[str, Any] = field(default_factory=dict)
    reward_fn_args: dict[str, Any] = field(default_factory=dict)
    is_eval: bool = False
    reward_fn: Any = None
    raw_task: dict[str, Any] | None = None
    batch_id: int | str = ""
    task_id: int | str = ""
    index: dict[str, Any] = field(default_factory=dict)

    def to_workflow(self, model: Any, auxiliary_models: list[Any] | None = None) -> Workflow:
        """Return an instance of the workflow's class for this task."""
        made: Workflow = self.workflow(task=self, model=model, auxiliary_models=auxiliary_models)
        return made

    def to_dict(self) -> Mapping[str, Any] | None:
        """Return the row."""
        return self.raw_task

    @property
    def task_desc(self) -> Any:
        """The row's prompt."""
        return (self.raw_task or {}).get(self.format_args.prompt_key)

    @property
    def truth(self) -> Any:
        """The row's expected response."""
        return (self.raw_task or {}).get(self.format_args.response_key)


class Workflow:
    """Runs one task; override ``run``, or ``run_async`` with ``is_async = True``.

    Args:
        task: The row and its settings.
        model: What answers; see ``areal.experimental.trinity.model.EpisodeModel``.
        auxiliary_models: Further models; their OpenAI clients are ``auxiliary_models``.
    """

    can_reset: bool = False
    can_repeat: bool = False
    is_async: bool = False

    def __init__(
        self, *, task: Task, model: Any, auxiliary_models: list[Any] | None = None
    ) -> None:
        self.task = task
        self.model = model
        self.auxiliary_model_wrappers = auxiliary_models
        self.auxiliary_models = None
        if auxiliary_models:
            self.auxiliary_models = [
                each.get_openai_async_client() if self.is_async else each.get_openai_client()
                for each in auxiliary_models
            ]
        self.run_id_base = 0
        self.logger = get_logger(type(self).__module__)

    @property
    def resettable(self) -> bool:
        """``can_reset`` under its older name."""
        return self.can_reset

    @property
    def repeatable(self) -> bool:
        """``can_repeat`` under its older name."""
        return self.can_repeat

    @property
    def asynchronous(self) -> bool:
        """``is_async`` under its older name."""
        return self.is_async

    def reset(self, task: Task) -> None:
        """Make ready for another task, where ``can_reset``."""
        raise NotImplementedError("reset() must be implemented where can_reset is True")

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        """Set how many experiences a run returns, where ``can_repeat``."""
        raise NotImplementedError("set_repeat_times() must be implemented where can_repeat is True")

    def run(self) -> list[Experience]:
        """Run the task."""
        raise NotImplementedError("run() must be implemented where is_async is False")

    async def run_async(self) -> list[Experience]:
        """Run the task on the event loop."""
        raise NotImplementedError("run_async() must be implemented where is_async is True")


class MultiTurnWorkflow(Workflow):
    """Turns a conversation into an experience."""

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        self.repeat_times = repeat_times
        self.run_id_base = run_id_base

    def process_messages_to_experience(
        self,
        messages: list[dict[str, Any]],
        reward: float,
        info: Mapping[str, Any] | None = None,
        truncate_status: Any = None,
    ) -> Experience:
        """Return the conversation, the assistant's turns as what is trained on."""
        converted = self.model.convert_messages_to_experience(messages)
        return _with_outcome(converted, reward, info, truncate_status)

    async def process_messages_to_experience_async(
        self,
        messages: list[dict[str, Any]],
        reward: float,
        info: Mapping[str, Any] | None = None,
        truncate_status: Any = None,
    ) -> Experience:
        """Return the same without blocking the event loop."""
        converted = await self.model.convert_messages_to_experience_async(messages)
        return _with_outcome(converted, reward, info, truncate_status)


def _with_outcome(
    experience: Experience, reward: float, info: Mapping[str, Any] | None, truncate_status: Any
) -> Experience:
    experience.reward = reward
    experience.info = dict(info or {})
    # Every number of the info is a metric too.
    experience.metrics = {
        name: float(value)
        for name, value in experience.info.items()
        if isinstance(value, int | float)
    }
    if truncate_status is not None:
        experience.truncate_status = truncate_status
    return experience


class BaseSimpleWorkflow(Workflow):
    """Asks once and scores each answer."""

    def __init__(
        self, *, task: Task, model: Any, auxiliary_models: list[Any] | None = None
    ) -> None:
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        self.reset(task)

    @property
    def rollout_args(self) -> dict[str, Any]:
        """How to sample, as keywords of ``chat``."""
        return asdict(self.task.rollout_args)

    def reset(self, task: Task) -> None:
        self.task = task
        self.format_args = task.format_args
        self.system_prompt = task.format_args.system_prompt
        self.reply_prefix = task.format_args.reply_prefix
        self.reward_fn_args = task.reward_fn_args
        self.raw_task = task.raw_task
        self.task_desc = task.task_desc
        self.truth = task.truth
        if not (isinstance(task.reward_fn, type) and issubclass(task.reward_fn, RewardFn)):
            raise ValueError(
                f"`reward_fn` must be a subclass of `RewardFn`, found {task.reward_fn!r}"
            )
        self.reward_fn = task.reward_fn(**self.reward_fn_args)

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        self.repeat_times = repeat_times
        self.task.rollout_args.n = repeat_times
        self.run_id_base = run_id_base

    def format_messages(self) -> list[dict[str, Any]]:
        """Return the conversation that the model goes on with."""
        messages = [{"role": "user", "content": self.task_desc}]
        if self.system_prompt:
            messages.insert(0, {"role": "system", "content": self.system_prompt})
        if self.reply_prefix:
            messages.append({"role": "assistant", "content": self.reply_prefix})
        return messages

    def _scored(self, responses: list[Experience]) -> list[Experience]:
        for offset, response in enumerate(responses):
            scores = self.reward_fn(response=response.response_text, truth=self.truth)
            response.metrics = {**(response.metrics or {}), **scores}
            response.reward = sum(scores.values())
            response.eid.run = self.run_id_base + offset
        return responses


class SimpleWorkflow(BaseSimpleWorkflow):
    """Asks once and scores each answer, in a thread."""

    can_reset = True
    can_repeat = True

    def run(self) -> list[Experience]:
        return self._scored(self.model.chat(self.format_messages(), **self.rollout_args))


class AsyncSimpleWorkflow(BaseSimpleWorkflow):
    """Asks once and scores each answer, on the event loop."""

    is_async = True

    async def run_async(self) -> list[Experience]:
        responses = await self.model.chat_async(self.format_messages(), **self.rollout_args)
        return self._scored(responses)


class MathWorkflow(SimpleWorkflow):
    """Asks for thoughts and an answer, and scores both."""

    def reset(self, task: Task) -> None:
        if task.reward_fn is None:
            task.reward_fn = MathRewardFn
        if task.reward_fn is MathRewardFn and task.format_args.system_prompt is None:
            task.format_args.system_prompt = _THINK_PROMPT
        super().reset(task)


class AsyncMathWorkflow(AsyncSimpleWorkflow, MathWorkflow):
    """Does the same on the event loop."""


_HERE = "areal.experimental.trinity.standin.workflows"
WORKFLOWS = Registry(
    "workflows",
    default_mapping={
        "async_math_workflow": f"{_HERE}.AsyncMathWorkflow",
        "async_simple_workflow": f"{_HERE}.AsyncSimpleWorkflow",
        "math_workflow": f"{_HERE}.MathWorkflow",
        "simple_workflow": f"{_HERE}.SimpleWorkflow",
    },
)

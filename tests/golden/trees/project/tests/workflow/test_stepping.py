"""Tests of ``SteppingWorkflow``, with Trinity-RFT or with areal's stand-ins for it."""

from __future__ import annotations

import asyncio
import importlib
import types
import unittest
from typing import Any

import pytest

try:
    # Where the package or its vllm is not installed, areal has what a workflow needs of it.
    importlib.import_module("areal.experimental.trinity.package").load_package()
except ImportError:
    importlib.import_module("trinity.common.workflows")

WORKFLOWS = importlib.import_module("trinity.common.workflows")
CONFIG = importlib.import_module("trinity.common.config")
EXPERIENCE = importlib.import_module("trinity.common.experience")
QUESTION = "question"
ANSWER = "answer"


class Client:
    """Is an OpenAI client, synchronous and asynchronous, whose answers a function makes."""

    model_path = "tiny"

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, *, messages: list[dict[str, Any]], **kwargs: Any) -> Any:
        message = types.SimpleNamespace(content=self.reply(messages))
        answer = types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])
        return asyncio.sleep(0, answer)


class Judge:
    """An auxiliary model that answers yes where the answer is the expected one."""

    def get_openai_client(self) -> Client:
        return Client(self._verdict)

    get_openai_async_client = get_openai_client

    def _verdict(self, messages: list[dict[str, Any]]) -> str:
        lines = messages[-1]["content"].splitlines()
        told = dict(line.partition(": ")[::2] for line in lines)
        return "yes" if told["Answer"] == told["Expected"] else "no"


class Model:
    """Answers prepared texts in turn, and keeps what it was asked."""

    enable_history = True

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[list[dict[str, Any]]] = []
        self.history: list[Any] = []

    def experience(self, text: str) -> Any:
        made = EXPERIENCE.Experience(
            tokens=[1, 2, 3], prompt_length=1, logprobs=[-0.1, -0.2], response_text=text
        )
        self.history.append(made)
        return made

    def reply(self, messages: list[dict[str, Any]]) -> str:
        self.asked.append([dict(message) for message in messages])
        text = self.replies.pop(0)
        self.experience(text)
        return text

    def chat(self, messages: list[dict[str, Any]], n: int = 1, **kwargs: Any) -> list[Any]:
        for _ in range(n):
            self.reply(messages)
        return self.history[-n:]

    async def chat_async(self, messages: list[dict[str, Any]], **kwargs: Any) -> list[Any]:
        return self.chat(messages, **kwargs)

    def extract_experience_from_history(self, clear_history: bool = True) -> list[Any]:
        found, self.history = self.history, []
        return found

    def get_openai_client(self) -> Client:
        return Client(self.reply)

    get_openai_async_client = get_openai_client


def load() -> Any:
    return importlib.import_module("my_rl.workflow.stepping")


def make_task(question: str = "2+3?", answer: str = "5", **options: Any) -> Any:
    return WORKFLOWS.Task(
        raw_task={QUESTION: question, ANSWER: answer},
        format_args=CONFIG.FormatConfig(prompt_key=QUESTION, response_key=ANSWER),
        rollout_args=CONFIG.GenerationConfig(temperature=1.0, max_tokens=8),
        **options,
    )


def make(model: Model, task: Any = None) -> Any:
    kind = load().SteppingWorkflow
    # A task is a dict without items, and therefore false.
    given = make_task() if task is None else task
    judges = [Judge() for _ in range(2)]
    return kind(task=given, model=model, auxiliary_models=judges)


def run(workflow: Any) -> list[Any]:
    return asyncio.run(workflow.run_async())


def setUpModule() -> None:
    try:
        importlib.import_module("trinity.common.workflows.step_wise_workflow")
    except ImportError as error:  # the package's own module needs vllm
        raise unittest.SkipTest(f"the base class cannot be imported: {error}") from error


class SteppingWorkflowTest(unittest.TestCase):
    def test_right_answers_earn_more_than_wrong_ones(self) -> None:
        right = run(make(Model("5")))
        wrong = run(make(Model("6", "6", "6", "6")))
        assert right[-1].reward > wrong[-1].reward
        assert isinstance(right[-1].reward, float)

    def test_every_try_is_a_step_with_the_reward_of_the_run(self) -> None:
        model = Model("6", "5")
        found = run(make(model))
        assert [each.eid.step for each in found] == [0, 1]
        assert len({each.reward for each in found}) == 1
        assert model.asked[1][0] == {"role": "user", "content": "2+3?"}

    def test_one_run_gives_one_experience(self) -> None:
        model = Model("5", "5", "5")
        # Whatever n the sampling has: the runner repeats, and n in each run would square it.
        task = make_task()
        task.rollout_args.n = 3
        workflow = make(model, task)
        found = run(workflow)
        assert len(found) == 1
        assert found[0].eid.run == 0

    def test_an_object_that_is_reset_knows_the_new_task_alone(self) -> None:
        workflow = make(Model("5"))
        run(workflow)
        workflow.model.replies, workflow.model.asked = ["4"], []
        task = make_task("2+2?", "4")
        workflow.reset(task)
        found = run(workflow)
        assert workflow.task is task
        assert workflow.model.asked[0][-1]["content"] == "2+2?"
        assert found[-1].reward > 0

    def test_every_judge_is_needed(self) -> None:
        with pytest.raises(ValueError, match="auxiliary_models must have 2"):
            load().SteppingWorkflow(task=make_task(), model=Model())


if __name__ == "__main__":
    unittest.main()

"""Tests of ``PlainGuestWorkflow``, with Trinity-RFT or with areal's stand-ins for it."""

from __future__ import annotations

import importlib
import unittest
from typing import Any

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


def load() -> Any:
    return importlib.import_module("my_rl.workflow.plain_guest")


def make_task(question: str = "2+3?", answer: str = "5", **options: Any) -> Any:
    return WORKFLOWS.Task(
        raw_task={QUESTION: question, ANSWER: answer},
        format_args=CONFIG.FormatConfig(prompt_key=QUESTION, response_key=ANSWER),
        rollout_args=CONFIG.GenerationConfig(temperature=1.0, max_tokens=8),
        **options,
    )


def make(model: Model, task: Any = None) -> Any:
    kind = load().PlainGuestWorkflow
    # A task is a dict without items, and therefore false.
    given = make_task() if task is None else task
    return kind(task=given, model=model)


def run(workflow: Any) -> list[Any]:
    return workflow.run()


class PlainGuestWorkflowTest(unittest.TestCase):
    def test_right_answers_earn_more_than_wrong_ones(self) -> None:
        right = run(make(Model("5")))
        wrong = run(make(Model("6", "6", "6", "6")))
        assert right[-1].reward > wrong[-1].reward
        assert isinstance(right[-1].reward, float)

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


if __name__ == "__main__":
    unittest.main()

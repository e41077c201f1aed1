from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scaffold.units.ledger import LedgerFile, Unit
from scaffold.verify.trinity import check_configs, check_reward, check_workflow

GOOD = """
from typing import TYPE_CHECKING
from trinity.common.workflows import Workflow

if TYPE_CHECKING:
    from trinity.common.models.model import ModelWrapper


class Sums(Workflow):
    can_reset = True
    can_repeat = True

    def reset(self, task):
        self.task = task

    def set_repeat_times(self, repeat_times, run_id_base):
        self.repeat_times, self.run_id_base = repeat_times, run_id_base

    def run(self):
        if self.task is not None:
            answers = self.model.chat([], n=self.repeat_times)
        for i, answer in enumerate(answers):
            answer.eid.run = self.run_id_base + i
        return answers
"""
REWARD = """
from trinity.common.rewards import RewardFn

class Sums(RewardFn):
    def __call__(self, response, truth, **kwargs):
        return {"accuracy": 1.0}
"""
UNIT = Unit("workflow", "sums", ("trinity",), {}, symbol="pkg.sums:Sums")


def workflow(source: str) -> list[str]:
    return [each.message for each in check_workflow(UNIT, "sums.py", ast.parse(source))]


def test_a_sound_workflow_and_a_sound_reward_have_no_finding() -> None:
    assert workflow(GOOD) == []
    assert list(check_reward(UNIT, "sums.py", ast.parse(REWARD))) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Sums(", "class Other(", "has no class Sums"),
        ("if TYPE_CHECKING:", "if True:", "needs vllm; do it under TYPE_CHECKING"),
        ("self.task = task", "pass", "does not set self.task in reset"),
        ("    can_reset = True\n", "", "has reset, which needs can_reset = True"),
        ("def reset(", "def restart(", "has can_reset but no reset"),
        ("def set_repeat_times(", "def repeat(", "has can_repeat but no set_repeat_times"),
        ("answer.eid.run = ", "ignored = ", "never sets eid.run"),
        ("n=self.repeat_times", "n=self.task.rollout_args.n", "the runner already repeats runs"),
        ("if self.task is not None:", "if self.task:", "compare with `is not None`"),
        ("if self.task is not None:", "if not self.task:", "compare with `is not None`"),
        ("    can_repeat = True", "    can_repeat = True\n    is_async = True", "has run, which"),
        ("def run(self)", "async def run_async(self)", "only runs with is_async = True"),
        ("def run(self)", "def go(self)", "needs run, or run_async"),
    ],
)
def test_each_trap_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    assert any(message in each for each in workflow(GOOD.replace(old, new)))


def test_a_blocking_call_in_a_coroutine_is_named() -> None:
    source = GOOD.replace("def run(self)", "async def run_async(self)")
    source = source.replace("can_repeat = True", "can_repeat = True\n    is_async = True")
    assert any("blocks the event loop; await self.model.chat_async" in x for x in workflow(source))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Sums(", "class Other(", "has no class Sums"),
        ("def __call__", "def score", "needs __call__"),
        ("def __call__", "async def __call__", "which is never awaited"),
        ("response, truth, **kwargs", "response", "it lacks truth"),
    ],
)
def test_what_is_wrong_with_a_reward_is_named(old: str, new: str, message: str) -> None:
    found = check_reward(UNIT, "sums.py", ast.parse(REWARD.replace(old, new)))
    assert any(message in each.message for each in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("buffer: {explorer_input: {taskset: {rollout_args: {n: 4}}}}", "repeat_times multiplies"),
        ("buffer: {tasksets: [{rollout_args: {n: 4}}]}", "repeat_times multiplies"),
        ("buffer: {explorer_input: {default_workflow: x}}", "write default_workflow_type"),
        ("a: [", "cannot be read"),
        ("buffer: {explorer_input: {taskset: {rollout_args: {n: 1}}}}", ""),
    ],
)
def test_a_configuration_is_checked_for_what_means_something_else(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "c.yaml").write_text(text)
    unit = Unit("workflow", "sums", ("trinity",), {}, files=(LedgerFile("c.yaml", "config", ""),))
    found = [each.message for each in check_configs(tmp_path, unit)]
    assert bool(found) == bool(message)
    assert all(message in each for each in found)

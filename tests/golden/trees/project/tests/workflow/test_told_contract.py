"""Tests of ``my_rl.workflow.told``: what holds for every workflow."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from areal.api import AsyncRewardWrapper
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import ScriptedEngine, make_tokenizer
from areal.utils.data import concat_padded_tensors

import my_rl.workflow.told as module

ROW: dict[str, Any] = {
    "messages": [{"role": "user", "content": "2+3?"}],
    "answer": "5",
}


def make_workflow(tokenizer: Any, reward: float) -> Any:
    """Makes the workflow with a reward that is always the same."""
    return module.ToldWorkflow(
        reward_fn=lambda *sample, **row: reward,
        gconfig=GenerationHyperparameters(max_new_tokens=8),
        tokenizer=tokenizer,
        enable_thinking=False,
    )


@pytest.fixture(autouse=True)
def inline_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls rewards in this process; the pool of processes has tests of its own."""

    async def call(self: Any, *sample: Any, **row: Any) -> float:
        return self.reward_fn(*sample, **row)

    monkeypatch.setattr(AsyncRewardWrapper, "__call__", call)


def run_episode(
    reward: float, *answers: str | None
) -> tuple[ScriptedEngine, dict[str, Any] | None]:
    tokenizer = make_tokenizer()
    engine = ScriptedEngine(tokenizer, *answers)
    workflow = make_workflow(tokenizer, reward)
    row = copy.deepcopy(ROW)
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    assert row == ROW, "the episode changed its row, which all samples of a group share"
    return engine, trajectory


def run_right(*answers: str) -> tuple[ScriptedEngine, dict[str, Any]]:
    engine, trajectory = run_episode(1.0, *answers)
    assert trajectory is not None
    return engine, trajectory


def rows_of(trajectory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the sequences, without the padding behind them, as lists."""
    for i, length in enumerate(trajectory["attention_mask"].sum(1).tolist()):
        two = {k: v for k, v in trajectory.items() if torch.is_tensor(v) and v.ndim == 2}
        yield {key: value[i, :length].tolist() for key, value in two.items()}


def test_has_the_keys_types_and_shapes_of_a_trajectory() -> None:
    _, trajectory = run_right("5")
    integers = (torch.int32, torch.int64)
    types = dict.fromkeys(("input_ids", "loss_mask", "versions", "turn_ids"), integers)
    types |= {"logprobs": (torch.float32,), "attention_mask": (torch.bool,)}
    shape = trajectory["input_ids"].shape
    assert len(shape) == 2
    assert {"input_ids", "attention_mask", "loss_mask", "logprobs"} <= set(trajectory)
    for key in types.keys() & trajectory.keys():
        assert trajectory[key].dtype in types[key], key
        assert trajectory[key].shape == shape, key
    assert trajectory["rewards"].dtype == torch.float32
    assert trajectory["rewards"].shape == shape[:1]
    lengths = trajectory["attention_mask"].sum(1, keepdim=True)
    assert torch.equal(trajectory["attention_mask"], torch.arange(shape[1])[None] < lengths)
    assert not (trajectory["loss_mask"].bool() & ~trajectory["attention_mask"]).any()
    assert set(trajectory["loss_mask"].unique().tolist()) <= {0, 1}


@pytest.mark.parametrize("reward", [1.0, 0.0])
def test_trains_on_what_the_engine_generated_and_on_nothing_else(reward: float) -> None:
    engine, trajectory = run_episode(reward, "5", "so 12")
    for row in [] if trajectory is None else rows_of(trajectory):
        ids = row["input_ids"]
        unknown = [-1] * len(ids)
        left = set(range(len(ids)))
        for response in engine.responses:
            prompt, output = response.input_tokens, response.output_tokens
            logprobs, versions = response.output_logprobs, response.output_versions
            start = len(prompt)
            end = min(start + len(output), len(ids))
            is_there = ids[:start] == prompt and ids[start:end] == output[: end - start]
            if not is_there or not any(row["loss_mask"][start:end]):
                continue
            assert row["loss_mask"][start:end] == [1] * (end - start)
            assert row["logprobs"][start:end] == pytest.approx(logprobs[: end - start])
            if "versions" in row:
                assert row["versions"][start:end] == versions[: end - start]
            assert min(row.get("turn_ids", [0] * len(ids))[start:end]) >= 0
            left -= set(range(start, end))
        assert len(left) < len(ids), "nothing is trained on"
        assert not any(row["loss_mask"][i] for i in left)
        for key in ("versions", "turn_ids"):
            assert {row.get(key, unknown)[i] for i in left} <= {-1}, key


def test_the_reward_arrives() -> None:
    _, right = run_right("5")
    _, wrong = run_episode(0.0, "5")
    assert wrong is None or wrong["rewards"].tolist() != right["rewards"].tolist()


def test_a_completion_without_any_token_is_no_error() -> None:
    _, trajectory = run_episode(0.0, None)
    assert trajectory is None or not trajectory["loss_mask"].any()


def test_trajectories_of_other_lengths_make_one_batch() -> None:
    (_, short), (_, long) = run_right("5"), run_right("5 and a good deal more")
    batch = concat_padded_tensors([short, long])
    assert len(batch["rewards"]) == len(short["rewards"]) + len(long["rewards"])

"""Deterministic sampling: the same bits whatever the timing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from areal.api import ModelRequest, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.shared_weights import SharedWeights
from tests.tiny_archon import BACKENDS, archon_of
from tests.tiny_models import random_prompts, tiny_model

ROWS = [{"prompt": p} for p in random_prompts([5, 2, 9, 5, 3, 7, 4, 6, 2, 8])]


@pytest.fixture(scope="module", params=BACKENDS)
def model(request: pytest.FixtureRequest) -> Any:
    made = tiny_model("qwen3", max_position_embeddings=256)
    if request.param == "archon:d1":
        return archon_of(made)
    return prepare_model(made, torch.device("cpu"))


class ShakyWorkflow(RolloutWorkflow):
    """Asks a few times, at moments that depend on a seed, and keeps all answers.

    Args:
        timing: Seed of the moments.
        width: Requests at once in each turn.
        fails: Whether some episodes raise after their first answer.
    """

    def __init__(self, timing: int, width: int = 1, fails: bool = False) -> None:
        self.timing = random.Random(timing)
        self.width = width
        self.fails = fails

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, torch.Tensor]:
        tokens = list(data["prompt"])
        logprobs = [0.0] * len(tokens)
        for turn in range(1 + len(tokens) % 3):
            await asyncio.sleep(self.timing.choice([0, 0, 0.001, 0.004]))
            gconfig = GenerationHyperparameters(max_new_tokens=3 + len(tokens) % 5, ignore_eos=True)
            request = ModelRequest(input_ids=tokens, gconfig=gconfig)
            for answer in await asyncio.gather(
                *(engine.agenerate(request) for _ in range(self.width))
            ):
                tokens = tokens + answer.output_tokens
                logprobs = logprobs + answer.output_logprobs
            if self.fails and turn == 0 and len(data["prompt"]) == 2:
                raise ValueError("this row is bad")
        return {
            "input_ids": torch.tensor([tokens], dtype=torch.int32),
            "attention_mask": torch.ones(1, len(tokens), dtype=torch.bool),
            "loss_mask": torch.ones(1, len(tokens), dtype=torch.int32),
            "logprobs": torch.tensor([logprobs]),
            "rewards": torch.tensor([1.0]),
        }


@contextmanager
def running(model: Any, seed: int = 3, **config: Any) -> Iterator[LocalInferenceEngine]:
    settings = {"deterministic_sampling": True, "max_concurrent_rollouts": 16} | config
    weights = SharedWeights(model)
    engine = LocalInferenceEngine(InferenceEngineConfig(**settings), weights, seed=seed)
    engine.initialize()
    try:
        yield engine
    finally:
        engine.destroy()


def rollouts(
    model: Any,
    timing: int,
    width: int = 1,
    fails: bool = False,
    steps: list[Any] | None = None,
    **config: Any,
) -> list[dict[str, Any]]:
    """Runs all rows in two batches of groups of three; ``steps`` collects who shares a step."""
    with running(model, **config) as engine, _watched(engine, [] if steps is None else steps):
        done = []
        for rows in (ROWS[:6], ROWS[6:]):
            workflow = ShakyWorkflow(timing, width, fails)
            done += engine.rollout_batch(rows, workflow, group_size=3)
        return done


@contextmanager
def _watched(engine: LocalInferenceEngine, steps: list[Any]) -> Iterator[None]:
    def note(*_: Any) -> None:
        steps.append([row.stream_key for row in engine._decoder.rows])

    hook = engine.weights.module.register_forward_pre_hook(note)
    yield
    hook.remove()


def assert_same_bits(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for key in ("input_ids", "logprobs"):
            assert torch.equal(one[key], other[key])


@pytest.mark.parametrize("concurrent", [2, 16])
def test_tokens_and_logprobs_do_not_depend_on_timing(model: Any, concurrent: int) -> None:
    steps: list[list[Any]] = [[], [], []]
    runs = [
        rollouts(model, timing, steps=steps[timing], max_concurrent_rollouts=concurrent)
        for timing in range(3)
    ]
    for other in runs[1:]:
        assert_same_bits(other, runs[0])
    # A larger model's last bits depend on which row of a product a token is in.
    assert steps[0] == steps[1] == steps[2]
    group = runs[0][0]["input_ids"]
    assert len({tuple(ids) for ids in group.tolist()}) == 3  # samples of a row differ


def test_episodes_that_ask_several_times_at_once_are_waited_for(model: Any) -> None:
    assert_same_bits(rollouts(model, 1, width=3), rollouts(model, 0, width=3))


def test_an_episode_that_fails_changes_no_other(model: Any) -> None:
    failing = rollouts(model, 1, fails=True)
    assert_same_bits(rollouts(model, 2, fails=True), failing)
    assert len(failing) == len([row for row in ROWS if len(row["prompt"]) != 2])


def test_the_seed_of_the_run_decides(model: Any) -> None:
    first = rollouts(model, 0)
    with running(model, seed=4) as engine:
        second = engine.rollout_batch(ROWS[:6], ShakyWorkflow(0), group_size=3)
    assert any(
        not torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(first, second, strict=False)
    )


def test_a_request_outside_of_any_episode_is_answered(model: Any) -> None:
    async def ask() -> list[int]:
        request = ModelRequest(
            input_ids=[3, 4], gconfig=GenerationHyperparameters(max_new_tokens=4)
        )
        return (await asyncio.wait_for(engine.agenerate(request), 60)).output_tokens

    with running(model) as engine:
        assert asyncio.run(ask())

"""Agents train: through the proxy, with the embedded engine, on the very tokens it generated."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from openai import AsyncOpenAI

from areal.api.cli_args import (
    AgentConfig,
    GenerationHyperparameters,
    GRPOConfig,
    InferenceEngineConfig,
    load_expr_config,
)
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.shared_weights import SharedWeights
from areal.experimental.openai import AgentProxy
from areal.trainer.ppo import PPOTrainer
from areal.trainer.run import run_training
from areal.utils.character_tokenizer import character_tokenizer
from areal.workflow import RLVRWorkflow
from tests.tiny_models import VOCAB_SIZE, tiny_model
from tests.tiny_runs import CHARACTERS, get_digits_rl_dataset, rl_yaml, sevens, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")
HERE = __name__


class SevensAgent:
    """Says digits, as often as it is told; the share of sevens in the last answer is its reward.

    Args:
        num_turns: Answers in an episode.
    """

    def __init__(self, num_turns: int = 1) -> None:
        self.num_turns = num_turns

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra.get("base_url"),
            api_key=extra.get("api_key"),
            http_client=extra.get("http_client"),
        )
        messages = list(data["messages"])
        for _ in range(self.num_turns):
            completion = await client.chat.completions.create(model="default", messages=messages)
            message = completion.choices[0].message
            messages += [message, {"role": "user", "content": "1="}]
        return (message.content or "").count("7") / 4


class FailingAgent(SevensAgent):
    """Fails on one row in four."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        reward = await super().run(data, **extra)
        if data["row"] % 4 == 0:
            raise KeyError("gold")
        return reward


def test_an_agent_learns(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, run={"workflow": f"{HERE}.SevensAgent"}, total_train_steps=14)
    run_training(["--config", str(path)])
    steps = train_stats(tmp_path)
    assert steps[0]["reward"] < 0.3
    assert max(stats["reward"] for stats in steps) > 0.7
    for stats in steps:
        assert math.isfinite(stats["loss"])
        assert stats["rollout/accepted"] == 16
        assert stats["n_seqs"] == 16
        # What the proxy recorded is what the engine generated: the trainer sees the same.
        assert stats["logp_abs_diff"] < 1e-5


@pytest.mark.parametrize(
    ("options", "sequences"),
    [
        ([], 32),
        (
            ["rollout.agent.chat_template_type=concat", "rollout.agent.export_style=concat"],
            16,
        ),
        pytest.param(
            ["rollout.agent.mode=subproc", "gconfig.n_samples=2"], 16, marks=pytest.mark.slow
        ),
        (["gconfig.reward_normalization=true", "rollout.deterministic_sampling=true"], 32),
    ],
)
def test_turns_are_sequences_or_one(tmp_path: Path, options: list[str], sequences: int) -> None:
    run = {"workflow": f"{HERE}.SevensAgent", "workflow_kwargs": {"num_turns": 2}}
    path = rl_yaml(tmp_path, run=run, total_train_steps=2)
    run_training(["--config", str(path), *options])
    for stats in train_stats(tmp_path):
        assert stats["n_seqs"] == sequences
        assert stats["rollout/num_turns"] == 2
        assert math.isfinite(stats["loss"])
        assert stats["logp_abs_diff"] < 1e-5


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    losses = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        path = rl_yaml(folder, run={"workflow": f"{HERE}.SevensAgent"})
        run_training(["--config", str(path), "rollout.deterministic_sampling=true"])
        losses.append([stats["loss"] for stats in train_stats(folder)])
    assert losses[0] == losses[1]


def test_agents_that_fail_are_counted_and_replaced(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, run={"workflow": f"{HERE}.FailingAgent"})
    run_training(["--config", str(path)])
    steps = train_stats(tmp_path)
    assert sum(stats.get("rollout/failed/KeyError", 0) for stats in steps) > 0
    assert all(stats["n_seqs"] == 16 for stats in steps)


def test_an_instance_is_evaluated_too(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, evaluator={"freq_steps": 1}, total_train_steps=2)
    config, _ = load_expr_config(["--config", str(path)], GRPOConfig)
    with PPOTrainer(config, valid_dataset=get_digits_rl_dataset("", size=4)) as trainer:
        trainer.train(SevensAgent())
    assert trainer._agent_proxy is not None
    assert len(trainer._agent_proxy._workflows) == 1
    lines = (tmp_path / "e" / "t" / "stats.jsonl").read_text()
    assert lines.count('"eval"') >= 2


def test_an_outside_program_is_trained_on(tmp_path: Path) -> None:
    # The program has the tasks, and the run no dataset.
    path = rl_yaml(
        tmp_path,
        rollout={"agent": {"mode": "online"}},
        train_dataset={"path": "null"},
        total_train_steps=2,
    )
    base_url = tmp_path / "e" / "t" / "openai_base_url"
    is_over = threading.Event()

    def drive() -> None:
        while not base_url.is_file() or not base_url.read_text().endswith("\n"):
            time.sleep(0.01)
        with httpx.Client(base_url=base_url.read_text().strip(), trust_env=False) as client:
            while not is_over.is_set():
                with contextlib.suppress(httpx.HTTPError):  # the run ends when it has enough
                    play(client)

    def play(client: httpx.Client) -> None:
        def post(path: str, key: str, **body: Any) -> httpx.Response:
            return client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})

        # One key for all sessions, one after the other.
        key = "a program's own"
        session = post("/rl/start_session", AgentConfig().admin_api_key, api_key=key)
        if session.status_code == 429:
            time.sleep(0.01)
            return
        assert session.json()["api_key"] == key
        asked = [{"role": "user", "content": "3="}]
        answer = post("/chat/completions", key, messages=asked).json()
        text = answer["choices"][0]["message"]["content"]
        post("/rl/set_reward", key, reward=text.count("7") / 4)
        post("/rl/end_session", key)

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        run_training(["--config", str(path)])
    finally:
        is_over.set()
        driver.join(30)
    assert [stats["n_seqs"] for stats in train_stats(tmp_path)] == [16, 16]


# --- beside a workflow ----------------------------------------------------------------------------


@pytest.fixture
def engine() -> Iterator[LocalInferenceEngine]:
    module = prepare_model(tiny_model("qwen3"), torch.device("cpu"))
    found = LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(module))
    found.initialize()
    found.set_version(5)
    yield found
    found.destroy()


@pytest.mark.parametrize("prompt", ["7=", "31=", "="])
def test_an_agent_gives_the_tensors_of_a_workflow(
    engine: LocalInferenceEngine, prompt: str
) -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    assert len(tokenizer) <= VOCAB_SIZE
    # Tokens beyond the tokenizer's decode to nothing, in both.
    gconfig = GenerationHyperparameters(max_new_tokens=6, greedy=True)
    row = {"messages": [{"role": "user", "content": prompt}]}
    proxy = AgentProxy(engine, tokenizer, AgentConfig(), gconfig)
    proxy.start()
    try:
        workflow = RLVRWorkflow(sevens, gconfig, tokenizer)
        expected = asyncio.run(workflow.arun_episode(engine, dict(row)))
        found = asyncio.run(proxy.wrap(SevensAgent()).arun_episode(engine, row))
    finally:
        proxy.stop()
    assert expected is not None
    assert found is not None
    (interaction,) = found.values()
    tensors = interaction.to_tensor_dict()
    assert tensors.keys() - expected.keys() == {"original_rewards"}
    for key, value in expected.items():
        assert torch.equal(tensors[key].to(value.dtype), value), key
    assert tensors["loss_mask"].sum() > 0
    assert set(tensors["versions"][tensors["loss_mask"].bool()].tolist()) == {5}

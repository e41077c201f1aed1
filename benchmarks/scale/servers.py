"""Servers in processes of their own, and the client over them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.workflow_api import RolloutWorkflow
from areal.engine.remote import make_remote_engine
from areal.infra.managed_process import ManagedProcess
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.utils.network import reserve_ports
from benchmarks.processes import ONE_THREAD
from benchmarks.settings import ROOT


class Ask(RolloutWorkflow):
    """Asks once; the trajectory carries the number of its row as its reward.

    Args:
        prompt_len: Tokens of each prompt.
        new_tokens: Of each answer.
    """

    def __init__(self, prompt_len: int, new_tokens: int) -> None:
        self.prompt_len = prompt_len
        self.gconfig = options(new_tokens)

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any]:
        prompt = [3 + (data["row"] + i) % 10 for i in range(self.prompt_len)]
        answer = await engine.agenerate(ModelRequest(input_ids=prompt, gconfig=self.gconfig))
        ids = torch.tensor([prompt + answer.output_tokens], dtype=torch.int32)
        versions = [-1] * len(prompt) + answer.output_versions
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids, dtype=torch.bool),
            "loss_mask": torch.tensor([[0] * len(prompt) + [1] * answer.output_len]),
            "logprobs": torch.tensor([[0.0] * len(prompt) + answer.output_logprobs]),
            "versions": torch.tensor([versions], dtype=torch.int32),
            "rewards": torch.tensor([float(data["row"])]),
        }


def options(new_tokens: int) -> GenerationHyperparameters:
    """Return how to sample answers of exactly so many tokens."""
    return GenerationHyperparameters(max_new_tokens=new_tokens, ignore_eos=True)


@contextmanager
def running(commands: Sequence[Sequence[str]], folder: Path) -> Generator[list[ManagedProcess]]:
    """Run commands, their output in files of a folder, and end them with the block."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**ONE_THREAD, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    processes = [
        ManagedProcess(f"server-{i}", command, environment, folder / f"server-{i}.log")
        for i, command in enumerate(commands)
    ]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.stop(grace_s=2.0)


@contextmanager
def reserved_ports(count: int) -> Generator[list[int]]:
    """Give ports that nobody else gets, also while a server is started again."""
    with ExitStack() as stack:
        yield [stack.enter_context(sock).getsockname()[1] for sock in reserve_ports(count)]


@contextmanager
def served(
    model: Path, count: int, folder: Path
) -> Generator[tuple[list[str], list[ManagedProcess]]]:
    """Run ``areal serve`` processes and give their addresses, which may not answer yet."""
    serve = [sys.executable, "-m", "areal.trainer.cli", "serve", str(model)]
    with (
        reserved_ports(count) as ports,
        running([[*serve, "--port", str(port)] for port in ports], folder) as processes,
    ):
        yield [f"127.0.0.1:{port}" for port in ports], processes


@contextmanager
def instant(count: int, slots: int, latency_s: float, folder: Path) -> Generator[list[str]]:
    """Run servers without a model and give their addresses."""
    command = [sys.executable, "-m", "benchmarks.scale.instant"]
    arguments = (str(slots), str(latency_s))
    with (
        reserved_ports(count) as ports,
        running([[*command, str(port), *arguments] for port in ports], folder),
    ):
        yield [f"127.0.0.1:{port}" for port in ports]


@contextmanager
def connected(addresses: list[str], **fields: Any) -> Generator[RemoteInfEngine]:
    """Give the client of some servers, once all of them answer."""
    settings: dict[str, Any] = {
        "backend": f"local:d{len(addresses)}",
        "consumer_batch_size": 1 << 30,
        "setup_timeout": 180.0,
        "request_timeout": 120.0,
        "poll_interval": 0.5,
    }
    engine = make_remote_engine(InferenceEngineConfig(**settings | fields), seed=1)
    try:
        engine.initialize(addr=addresses)
        yield engine
    finally:
        engine.destroy()


def generate(
    engine: RemoteInfEngine, prompts: Sequence[list[int]], new_tokens: int, at_once: int = 64
) -> list[ModelResponse]:
    """Return one answer for each prompt, so many of them in the making at once."""

    async def ask_all() -> list[ModelResponse]:
        answers: dict[int, ModelResponse] = {}
        waiting = iter(enumerate(prompts))

        async def ask_on() -> None:
            for i, prompt in waiting:
                request = ModelRequest(input_ids=prompt, gconfig=options(new_tokens))
                answers[i] = await engine.agenerate(request)

        await asyncio.gather(*(ask_on() for _ in range(at_once)))
        return [answers[i] for i in range(len(prompts))]

    return asyncio.run(ask_all())

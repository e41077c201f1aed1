"""A controller over servers that it starts or is given."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import pytest
import torch
from openai import AsyncOpenAI

import areal
from areal.api.cli_args import AgentConfig, GenerationHyperparameters, InferenceEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import LocalInfServerInfo, ModelRequest, WeightUpdateMeta
from areal.api.workflow_api import RolloutWorkflow
from areal.engine import RemoteSGLangEngine, RemotevLLMEngine, SGLangBackend
from areal.infra import RemoteInfEngine, RolloutController
from tests.fake_servers import FakeSGLang
from tests.fakes import tiny_tokenizer

ROOT = Path(__file__).parents[4]
SERVE_A_FAKE = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from tests.fake_servers import FakeSGLang
from tests.fakes import tiny_tokenizer

server = FakeSGLang()
server.port = int(sys.argv[2])
server.start()
threading.Event().wait()
"""


class Workflow(RolloutWorkflow):
    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, torch.Tensor]:
        gconfig = GenerationHyperparameters(max_new_tokens=4)
        answer = await engine.agenerate(ModelRequest(input_ids=data["prompt"], gconfig=gconfig))
        tokens = torch.tensor([answer.output_tokens])
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens, dtype=torch.bool),
            "loss_mask": torch.ones_like(tokens),
            "logprobs": torch.tensor([answer.output_logprobs]),
            "rewards": torch.tensor([1.0]),
        }


def settings(backend: str) -> InferenceEngineConfig:
    return InferenceEngineConfig(
        backend=backend,
        setup_timeout=30,
        poll_interval=0.1,
        consumer_batch_size=2,
        max_concurrent_rollouts=100,
    )


@pytest.fixture
def controller() -> Iterator[RolloutController]:
    server = FakeSGLang()
    host, _, port = server.start().partition(":")
    controller = RemoteSGLangEngine.as_controller(settings("sglang:d1"), None)
    # The process is the business of whoever started it.
    info = LocalInfServerInfo(host, int(port), process=None)  # type: ignore[arg-type]  # runs elsewhere
    controller.initialize("rollout", server_infos=[info])
    yield controller
    controller.destroy()
    server.die()


def test_the_constructor_is_the_contracts() -> None:
    assert areal.RolloutController is RolloutController
    assert list(inspect.signature(RolloutController).parameters) == [
        "inf_engine",
        "config",
        "scheduler",
    ]


@pytest.mark.parametrize("engine", [RemoteSGLangEngine, RemotevLLMEngine])
def test_an_engine_gives_its_controller(engine: Any) -> None:
    controller = engine.as_controller(settings("sglang:d1"), None)
    assert type(controller) is RolloutController
    assert type(controller.engine) is engine


def test_rows_go_through_the_engine(controller: RolloutController) -> None:
    rows = [{"prompt": [1, 2]}, {"prompt": [3]}]
    assert len(controller.rollout_batch(rows, Workflow())) == 2
    controller.submit(rows[0], Workflow())
    (found,) = controller.wait(1, timeout=20)
    assert found is not None
    assert found["input_ids"].shape == (1, 4)
    controller.set_version(1)
    assert len(controller.prepare_batch([rows[:1]], Workflow())) == 1
    assert controller.export_stats()["servers/serving"] == 1


def test_a_pause_starts_no_row(controller: RolloutController) -> None:
    controller.pause()
    controller.submit({"prompt": [1]}, Workflow())
    assert controller.wait(1, timeout=0.2, raise_timeout=False) == []
    controller.resume()
    assert len(controller.wait(1, timeout=20)) == 1


def test_versions_bound_what_may_start(controller: RolloutController) -> None:
    assert controller.get_capacity() == 2
    controller.set_version(3)
    assert controller.get_version() == 3
    assert controller.get_capacity() == 2 * (3 + 1)


def test_weights_are_loaded_and_answers_follow(controller: RolloutController) -> None:
    request = ModelRequest(input_ids=[1], gconfig=GenerationHyperparameters(max_new_tokens=2))

    async def update() -> list[int]:
        await controller.pause_generation()
        await controller.update_weights_from_disk(WeightUpdateMeta("disk", path="/w", version=1))
        await controller.continue_generation()
        return (await controller.agenerate(request)).output_versions

    assert asyncio.run(update()) == [1, 1]
    controller.pause_generation_sync()
    asyncio.run(controller.continue_generation())


class Launching(SGLangBackend):
    """Starts processes in the place of SGLang, each with a code of its own."""

    def __init__(self, *codes: str) -> None:
        super().__init__()
        self.codes = codes
        self.started: list[tuple[dict[str, Any], Popen[Any]]] = []

    def launch_server(self, server_args: dict[str, Any]) -> Popen[Any]:
        command = [sys.executable, "-c", self.codes[len(self.started)], str(ROOT)]
        process = Popen([*command, str(server_args["port"])], start_new_session=True)
        self.started.append((server_args, process))
        return process


def launching(backend: str, *codes: str) -> tuple[RolloutController, Launching]:
    launcher = Launching(*codes)

    class Engine(RemoteInfEngine):
        def __init__(self, config: InferenceEngineConfig) -> None:
            super().__init__(config, launcher)

    return RolloutController(Engine, settings(backend), None), launcher


@pytest.mark.heavy
def test_a_server_is_started_for_each_data_parallel_index() -> None:
    controller, launcher = launching("sglang:d2t2", SERVE_A_FAKE, SERVE_A_FAKE)
    controller.initialize("rollout", {"base_gpu_id": 1})
    args = [args for args, _ in launcher.started]
    assert [each["base_gpu_id"] for each in args] == [1, 3]
    assert [info.port for info in controller.server_infos] == [each["port"] for each in args]
    assert len(controller.rollout_batch([{"prompt": [1]}] * 2, Workflow())) == 2
    controller.destroy()
    assert all(process.poll() is not None for _, process in launcher.started)


@pytest.mark.heavy
def test_a_server_that_fails_ends_the_others() -> None:
    controller, launcher = launching("sglang:d2", SERVE_A_FAKE, "raise SystemExit(7)")
    with pytest.raises(RuntimeError, match="ended with code 7"):
        controller.initialize("rollout")
    assert len(launcher.started) == 2
    assert all(process.poll() is not None for _, process in launcher.started)


# --- agents


class Agent:
    """Asks once and takes the number of digits as its reward."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra["base_url"], api_key=extra["api_key"], http_client=extra["http_client"]
        )
        answer = await client.chat.completions.create(
            model="default", messages=data["messages"], max_tokens=4
        )
        return float(len(answer.choices[0].message.content or ""))


ROW = {"messages": [{"role": "user", "content": "1+1="}]}


@pytest.fixture
def with_tokenizer(controller: RolloutController, tmp_path: Path) -> RolloutController:
    tiny_tokenizer().save_pretrained(tmp_path)
    controller.config.tokenizer_path = str(tmp_path)
    return controller


def test_agents_reach_the_servers_by_a_proxy(with_tokenizer: RolloutController) -> None:
    controller = with_tokenizer
    meta = WeightUpdateMeta("disk", path="/w", version=1)
    asyncio.run(controller.update_weights_from_disk(meta))
    controller.set_version(1)
    controller.start_proxy()
    controller.start_proxy()  # it runs already
    address = controller.get_proxy_addr(0)
    assert address.startswith("http://127.0.0.1:")
    agent = f"{__name__}.Agent"
    (found,) = controller.rollout_batch([ROW], agent, proxy_addr=address)
    assert set(found["versions"].flatten().tolist()) == {-1, 1}
    assert found["rewards"].item() > 0
    controller.submit(ROW, agent, proxy_addr=address)
    assert controller.wait(1, timeout=20) != [None]
    assert len(controller.prepare_batch([[ROW]], agent, proxy_addr=address)) == 1
    with pytest.raises(ValueError, match="not that of this controller"):
        controller.submit(ROW, agent, proxy_addr="http://127.0.0.1:9")
    with pytest.raises(IndexError, match="1 server"):
        controller.get_proxy_addr(1)
    controller.destroy()
    with pytest.raises(RuntimeError, match="start_proxy"):
        controller.get_proxy_addr(0)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health", trust_env=False)


def test_outside_programs_reach_them_by_the_gateway(with_tokenizer: RolloutController) -> None:
    controller = with_tokenizer
    controller.config.agent.mode = "online"
    with pytest.raises(RuntimeError, match="start_proxy_gateway"):
        _ = controller.proxy_gateway_addr
    controller.start_proxy_gateway()
    controller.submit({}, None)
    with httpx.Client(base_url=controller.proxy_gateway_addr, trust_env=False) as client:

        def post(path: str, key: str, **body: Any) -> dict[str, Any]:
            answer = client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        give_up_at = time.monotonic() + 20
        while True:  # the row begins a moment after it was submitted
            try:
                session = post("/rl/start_session", AgentConfig().admin_api_key)
                break
            except AssertionError:
                assert time.monotonic() < give_up_at
                time.sleep(0.01)
        key = session["api_key"]
        post("/chat/completions", key, messages=ROW["messages"], max_tokens=4)
        post("/rl/set_reward", key, reward=0.5)
        post("/rl/end_session", key)
    (found,) = controller.wait(1, timeout=20)
    assert found is not None
    assert found["rewards"].tolist() == [0.5]


def test_a_proxy_needs_a_tokenizer(controller: RolloutController) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.tokenizer_path"):
        controller.start_proxy()


def test_what_waits_for_callbacks_is_told_that_there_are_none(
    controller: RolloutController,
) -> None:
    with pytest.raises(NotImplementedError, match=r"wait\(\)"):
        controller.submit({"prompt": [1]}, Workflow(), callback_addr="127.0.0.1:9")


def test_what_starts_episodes_is_shown(controller: RolloutController) -> None:
    controller.pause()
    task = controller.submit({"prompt": [1]}, Workflow())
    assert controller.dispatcher.get_stats().enqueued == 1
    assert controller.runner is controller.dispatcher
    controller.resume()
    assert controller.wait_for_task(task, timeout=20) is not None
    assert controller.callback_addr is None

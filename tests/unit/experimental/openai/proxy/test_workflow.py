"""Agents as workflows: modes, rewards, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import torch

from areal.api.cli_args import AgentConfig, GenerationHyperparameters, InferenceEngineConfig
from areal.api.errors import ConfigError
from areal.experimental.openai import AgentProcessError, AgentProxy, OpenAIProxyWorkflow
from areal.infra import WorkflowExecutor, workflow_context
from areal.utils import stats_tracker
from tests.unit.experimental.openai.proxy import agents
from tests.unit.experimental.openai.scripted import USER, ScriptedEngine, make_tokenizer

TOKENIZER = make_tokenizer()
ROW = {"messages": [USER]}


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(TOKENIZER)


@pytest.fixture
def start(engine: ScriptedEngine) -> Iterator[Any]:
    proxies: list[AgentProxy] = []

    def make(config: AgentConfig | None = None, **options: Any) -> AgentProxy:
        proxy = AgentProxy(engine, TOKENIZER, config or AgentConfig(), **options)
        proxies.append(proxy)
        proxy.start()
        return proxy

    yield make
    for proxy in proxies:
        proxy.stop()


def run(workflow: OpenAIProxyWorkflow, num_episodes: int = 1) -> list[Any]:
    """Runs episodes at once and gives what each returned or raised."""

    async def every() -> list[Any]:
        episodes = [workflow.arun_episode(None, ROW) for _ in range(num_episodes)]
        return await asyncio.gather(*episodes, return_exceptions=True)

    return asyncio.run(every())


def test_an_inline_episode(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["4", "5"]
    stats_tracker.get("rollout").export()
    (result,) = run(start(AgentConfig(turn_discount=0.5)).wrap(agents.AddingAgent()))
    first, second = result.values()
    assert (first.reward, second.reward) == (0.5, 1.0)
    assert second.parent is first
    tensors = second.to_tensor_dict()
    assert tensors["input_ids"][0].tolist()[: len(engine.requests[1].input_ids)] == (
        engine.requests[1].input_ids
    )
    assert tensors["versions"].max() == 7
    exported = stats_tracker.get("rollout").export()
    assert (exported["rollout/reward"], exported["rollout/num_turns"]) == (1.0, 2.0)


def test_a_conversation_as_one_sequence(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["4", "5"]
    config = AgentConfig(chat_template_type="concat", export_style="concat")
    (result,) = run(start(config).wrap(agents.AddingAgent()))
    (leaf,) = result.values()
    tensors = leaf.to_tensor_dict()
    assert TOKENIZER.decode(tensors["input_ids"][0]) == (
        "[user]2+3[assistant]4<eos>[user]no[assistant]5<eos>"
    )
    assert int(tensors["loss_mask"].sum()) == 4
    assert tensors["rewards"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("value", "rewards"),
    [
        (0.25, [0.25, 0.25]),
        (np.float64(0.25), [0.25, 0.25]),
        ({"id": 0.5}, [0.5, 0.5]),
        ({"id": 1}, [1.0, 1.0]),
        ({}, [0.0, 0.0]),
    ],
)
def test_rewards(engine: ScriptedEngine, start: Any, value: Any, rewards: list[float]) -> None:
    engine.texts = ["4", "5"]
    (result,) = run(start().wrap(agents.ReturningAgent(value)))
    assert [x.reward for x in result.values()] == rewards


@pytest.mark.parametrize(
    "value",
    [1, True, None, "1", [1.0], np.float32(1), {"id": None}, {"id": True}, {"id": np.float32(1)}],
    ids=repr,
)
def test_what_is_no_reward(engine: ScriptedEngine, start: Any, value: Any) -> None:
    engine.texts = ["5"]
    (error,) = run(start().wrap(agents.ReturningAgent(value)))
    assert isinstance(error, ValueError)
    assert "Invalid reward type" in str(error)


@pytest.mark.parametrize(
    ("agent", "error", "words"),
    [
        (agents.RaisingAgent(), KeyError, "gold"),
        (agents.SilentAgent(), ValueError, "nothing to reward"),
        (agents.RefusedAgent(), openai.BadRequestError, "n is 2"),
        (agents.ReturningAgent({"x": 1.0}), ValueError, "no interaction 'x'"),
        (agents.ReturningAgent(float("nan")), ValueError, "nan|JSON|finite"),
    ],
)
def test_an_agent_that_fails_leaves_no_session(
    engine: ScriptedEngine, start: Any, agent: Any, error: type[Exception], words: str
) -> None:
    engine.texts = ["5"]
    proxy = start()
    (found,) = run(proxy.wrap(agent))
    assert isinstance(found, error)
    with pytest.raises(error, match=words):
        raise found
    assert len(proxy._server.sessions) == 0


def test_an_agent_that_closes_its_client_disturbs_nobody(
    engine: ScriptedEngine, start: Any
) -> None:
    engine.texts = ["5"] * 6
    workflow = start().wrap(agents.ClosingAgent())
    assert [len(result) for result in run(workflow, 6)] == [1] * 6


def test_an_agent_in_a_process_of_its_own(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["4", "5"]
    proxy = start(AgentConfig(mode="subproc", subproc_max_workers=1))
    (result,) = run(proxy.wrap(agents.AddingAgent()))
    assert [x.reward for x in result.values()] == [1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (agents.RaisingAgent(), "RaisingAgent raised KeyError: 'gold'"),
        (agents.RefusedAgent(), "RefusedAgent raised BadRequestError"),
        (agents.ExitingAgent(), "the process of ExitingAgent ended"),
    ],
)
def test_a_process_that_fails_costs_itself(
    engine: ScriptedEngine, start: Any, agent: Any, words: str
) -> None:
    engine.texts = ["5"] * 2
    proxy = start(AgentConfig(mode="subproc", subproc_max_workers=1))
    bad, good = proxy.wrap(agent), proxy.wrap(agents.AddingAgent())
    (error,) = run(bad)
    assert isinstance(error, AgentProcessError)
    assert words in str(error)
    (result,) = run(good)
    assert [x.reward for x in result.values()] == [1.0]


def test_workflows_share_processes_and_go_with_their_agents(start: Any) -> None:
    proxy = start(AgentConfig(mode="subproc", subproc_max_workers=1))
    agent = agents.AddingAgent()
    workflow = proxy.wrap(agent)
    assert proxy.wrap(agent) is workflow
    for _ in range(3):
        assert proxy.wrap(agents.AddingAgent())._workers is workflow._workers
    gc.collect()
    assert list(proxy._workflows.values()) == [workflow]


def test_an_agent_that_cannot_be_sent_is_refused_at_once(start: Any) -> None:
    with pytest.raises(TypeError, match=r"AddingAgent cannot be pickled.*lambda"):
        start(AgentConfig(mode="subproc")).wrap(agents.AddingAgent(lambda: 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "127.0.0.1,localhost"), ("corp", "corp,127.0.0.1,localhost"), ("*", "*")],
)
def test_hosts_without_a_web_proxy_stay_so(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", before)
    workflow = OpenAIProxyWorkflow("subproc", agents.AddingAgent(), "http://127.0.0.1:1/")
    assert workflow._environment("key") == {
        "OPENAI_BASE_URL": "http://127.0.0.1:1",
        "OPENAI_API_KEY": "key",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "ANTHROPIC_API_KEY": "key",
        "NO_PROXY": after,
        "no_proxy": after,
    }


def test_a_cancelled_episode_leaves_no_session(start: Any) -> None:
    proxy = start()
    workflow = proxy.wrap(agents.HangingAgent())

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(workflow.arun_episode(None, ROW), 0.3)

    asyncio.run(cancel())
    assert len(proxy._server.sessions) == 0


def test_an_episode_that_ends_with_the_proxy_says_nothing(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = start().wrap(agents.HangingAgent())
    post = type(workflow)._post

    async def post_to_a_proxy_that_goes(self: Any, path: str, *args: Any, **body: Any) -> Any:
        if path == "/rl/end_session":
            await asyncio.sleep(0.2)
            raise ConnectionError("Server disconnected")
        return await post(self, path, *args, **body)

    monkeypatch.setattr(type(workflow), "_post", post_to_a_proxy_that_goes)
    said: list[dict[str, Any]] = []

    async def cancel_twice() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        episode = asyncio.ensure_future(workflow.arun_episode(None, ROW))
        for _ in range(2):
            await asyncio.sleep(0.1)
            episode.cancel()
        await asyncio.wait([episode])
        await asyncio.sleep(0.3)
        gc.collect()

    asyncio.run(cancel_twice())
    assert said == []


def test_requests_sample_as_the_run_does_unless_they_say_otherwise(
    engine: ScriptedEngine, start: Any
) -> None:
    engine.texts = ["5"] * 2
    train = GenerationHyperparameters(max_new_tokens=3, temperature=0.7, n_samples=4)
    proxy = start(gconfig=train, eval_gconfig=train.new(greedy=True), temperature=0.7)
    workflow = proxy.wrap(agents.AddingAgent())

    async def both() -> None:
        for is_eval in (False, True):
            workflow_context.set(workflow_context.WorkflowContext(is_eval=is_eval))
            await workflow.arun_episode(None, ROW)

    asyncio.run(both())
    first, second = (request.gconfig for request in engine.requests)
    assert (first.max_new_tokens, first.temperature, first.n_samples) == (3, 0.7, 1)
    assert (first.greedy, second.greedy) == (False, True)


def test_training_samples_at_its_own_temperature(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["5"]
    run(start(temperature=0.5).wrap(agents.AddingAgent()))
    assert engine.requests[0].gconfig.temperature == GenerationHyperparameters().temperature


def test_other_machines_are_let_in_with_a_secret_of_ones_own(engine: ScriptedEngine) -> None:
    tokenizer = make_tokenizer()
    for config in (AgentConfig(mode="online"), AgentConfig(mode="online", admin_api_key="")):
        with pytest.raises(ConfigError, match="admin_api_key to a secret of your own"):
            AgentProxy(engine, tokenizer, config, host="0.0.0.0")
    own = AgentConfig(mode="online", admin_api_key="a secret")
    proxy = AgentProxy(engine, tokenizer, own, host="0.0.0.0")
    try:
        assert proxy.start().startswith("http://0.0.0.0:")
    finally:
        proxy.stop()


def test_an_outside_program_drives_the_sessions(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["5"]
    proxy = start(AgentConfig(mode="online"))
    workflow = proxy.wrap(None)

    async def outside() -> None:
        async with httpx.AsyncClient(base_url=proxy.address, trust_env=False) as client:

            async def post(path: str, key: str, **body: Any) -> httpx.Response:
                return await client.post(
                    path, json=body, headers={"Authorization": f"Bearer {key}"}
                )

            admin = AgentConfig().admin_api_key
            while not (session := await post("/rl/start_session", admin, task_id="a")).is_success:
                assert session.status_code == 429
                await asyncio.sleep(0.01)
            key = session.json()["api_key"]
            await post("/chat/completions", key, messages=[USER])
            await post("/rl/set_reward", key, reward=0.75)
            await post("/rl/end_session", key)

    async def both() -> Any:
        return await asyncio.gather(workflow.arun_episode(None, ROW), outside())

    result, _ = asyncio.run(both())
    assert [x.reward for x in result.values()] == [0.75]


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, 401), ({"mode": "online"}, 200), ({"admin_api_key": "areal-admin-key"}, 401)],
)
def test_the_public_admin_key_opens_nothing_that_need_not_be_open(
    start: Any, options: dict[str, Any], status: int
) -> None:
    url = f"{start(AgentConfig(**options)).address}/grant_capacity"
    headers = {"Authorization": f"Bearer {AgentConfig().admin_api_key}"}
    assert httpx.post(url, headers=headers, trust_env=False).status_code == status
    own = start(AgentConfig(admin_api_key="own")).address
    headers = {"Authorization": "Bearer own"}
    assert httpx.post(f"{own}/grant_capacity", headers=headers, trust_env=False).is_success


def test_the_executor_runs_agents_and_counts_failures(engine: ScriptedEngine, start: Any) -> None:
    engine.texts = ["5"] * 8
    executor = WorkflowExecutor(InferenceEngineConfig(consumer_batch_size=2), engine)
    executor.initialize()
    try:
        with pytest.raises(ValueError, match="OpenAI-compatible proxy"):
            executor.submit(ROW, agents.AddingAgent)
        executor.agent_wrapper = start().wrap
        path = "tests.unit.experimental.openai.proxy.agents.AddingAgent"
        batch = executor.rollout_batch([ROW, ROW], path, {"max_turns": 1}, group_size=2)
        assert [each["rewards"].tolist() for each in batch] == [[1.0, 1.0]] * 2
        assert batch[0]["original_rewards"].dtype == torch.float32
        assert executor.rollout_batch([ROW], agents.RaisingAgent(), group_size=1) == []
        (reason,) = executor.monitor.failure_reasons()
        assert reason.startswith("workflow RaisingAgent raised KeyError")
        stats = executor.export_stats()
        assert (stats["rollout/accepted"], stats["rollout/failed/KeyError"]) == (4, 1)
    finally:
        executor.destroy()


@pytest.mark.parametrize(
    ("mode", "agent", "error"),
    [("inlin", agents.AddingAgent(), ValueError), ("inline", None, TypeError)],
)
def test_what_is_no_mode_or_agent(mode: str, agent: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"inlin|not an agent"):
        OpenAIProxyWorkflow(mode, agent)


@pytest.mark.parametrize(
    "options",
    [
        {"export_style": "concat"},
        {"prefix_matcher": "a.b"},
        {"message_preprocessors": ["a.b"]},
        {"set_reward_finish_timeout": 1.0},
        {"tool_call_parser": "x"},
    ],
)
def test_settings_that_there_are_not(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        AgentProxy(None, TOKENIZER, AgentConfig(**options))

"""An engine over servers that die, hang, lie, restart and come back."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import torch

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import ModelRequest, ModelResponse, ParamSpec, WeightUpdateMeta
from areal.api.workflow_api import RolloutWorkflow
from areal.engine import SGLangBackend, VLLMBackend
from areal.infra.remote import pool
from areal.infra.remote.fleet import ServerState
from areal.infra.remote.http import RequestRefusedError, ServerFaultError
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.utils import name_resolve, names
from areal.utils.name_resolve import MemoryNameRecordRepository
from tests.fake_servers import FakeServer, FakeSGLang, FakeVLLM, logprob, next_token

PATIENCE_S = 20.0
KINDS = [(FakeSGLang, SGLangBackend), (FakeVLLM, VLLMBackend)]


class Caller:
    """Asks an engine from an event loop in a thread of its own, as episodes do."""

    def __init__(self, engine: RemoteInfEngine) -> None:
        self.engine = engine
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def ask(self, prompt_len: int = 4, count: int = 20, **fields: Any) -> Future[ModelResponse]:
        gconfig = GenerationHyperparameters(max_new_tokens=count)
        request = ModelRequest(input_ids=[1] * prompt_len, gconfig=gconfig, **fields)
        return asyncio.run_coroutine_threadsafe(self.engine.agenerate(request), self._loop)

    def close(self) -> None:
        async def end() -> None:
            await asyncio.get_running_loop().shutdown_asyncgens()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Scene:
    """An engine and its servers, with what tests do to them."""

    def __init__(self, servers: list[FakeServer], backend: Any, **fields: Any) -> None:
        self.servers = servers
        options: dict[str, Any] = {
            "backend": "sglang:d2",
            "setup_timeout": 5.0,
            "request_timeout": 30.0,
            "poll_interval": 0.1,
        }
        self.engine = RemoteInfEngine(InferenceEngineConfig(**(options | fields)), backend)
        self.engine.initialize(addr=[server.start() for server in servers])
        self.caller = Caller(self.engine)
        self.ask = self.caller.ask

    def state(self, index: int) -> ServerState:
        return self.engine._pool.fleet.servers[self.servers[index].address].state

    def until(self, condition: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_at, self.engine._pool.fleet.describe()
            time.sleep(0.005)

    def until_state(self, index: int, state: ServerState) -> None:
        self.until(lambda: self.state(index) is state)

    def until_asked(self, index: int, count: int = 1) -> None:
        paths = ("/generate", "/v1/completions")
        server = self.servers[index]
        self.until(lambda: sum(server.count(path) for path in paths) >= count)

    def update(self, version: int) -> None:
        self.begin_update(version).result(PATIENCE_S)

    def begin_update(self, version: int) -> Future[None]:
        meta = WeightUpdateMeta(type="disk", path=f"/w/v{version}", version=version)
        return self.engine.update_weights_from_disk(meta)

    def close(self) -> None:
        self.engine.destroy()
        self.caller.close()
        for server in self.servers:
            server.stop()


MakeScene = Callable[..., Scene]


@pytest.fixture
def scene_of() -> Iterator[MakeScene]:
    """Returns a maker of scenes that are closed at the end."""
    scenes: list[Scene] = []

    def make(servers: list[FakeServer], backend: Any = None, **fields: Any) -> Scene:
        scenes.append(Scene(servers, backend or SGLangBackend(), **fields))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


def check(found: ModelResponse, prompt_len: int = 4, count: int = 20) -> None:
    """Asserts that an answer is what an undisturbed server would have given."""
    assert found.output_tokens == [next_token(prompt_len + i) for i in range(count)]
    assert found.output_logprobs == [logprob(token) for token in found.output_tokens]
    assert len(found.output_versions) == count
    assert found.output_versions == sorted(found.output_versions)
    assert found.stop_reason == "length"


# --- requests


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_requests_are_shared_out_over_the_servers(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.001), fake(token_s=0.001)], backend())
    for future in [scene.ask() for _ in range(8)]:
        check(future.result(PATIENCE_S))
    stats = scene.engine.export_stats()
    assert [stats[f"servers/tokens/{server.address}"] for server in scene.servers] == [80, 80]
    assert stats["servers/serving"] == stats["servers/known"] == 2
    assert scene.engine.export_stats()["servers/retries"] == 0


def test_what_cannot_be_answered_is_refused_before_it_is_sent(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    with pytest.raises(RuntimeError, match="no room"):
        scene.ask(prompt_len=40000).result(PATIENCE_S)
    with pytest.raises(ValueError, match="input_ids is empty"):
        scene.ask(prompt_len=0).result(PATIENCE_S)
    request = ModelRequest(input_ids=[1], gconfig=GenerationHyperparameters(n_samples=2))
    with pytest.raises(ValueError, match="n_samples is 2"):
        asyncio.run(scene.engine.agenerate(request))
    assert scene.servers[0].count("/generate") == 0


def test_an_answer_ends_at_a_stop_token_and_within_max_tokens(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    gconfig = GenerationHyperparameters(max_tokens=9, stop_token_ids=[next_token(6)])
    short = ModelRequest(input_ids=[1] * 4, gconfig=gconfig)
    found = asyncio.run(scene.engine.agenerate(short))
    assert (found.output_len, found.stop_reason) == (3, "stop")
    short.gconfig.stop_token_ids = []
    found = asyncio.run(scene.engine.agenerate(short))
    assert (found.output_len, found.stop_reason) == (5, "length")
    assert short.gconfig.max_new_tokens == 16384, "the caller's request stays as it was"


def test_a_refused_request_is_not_sent_again(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    for server in scene.servers:
        server.status = 400
    with pytest.raises(RequestRefusedError, match="/generate: status 400"):
        scene.ask().result(PATIENCE_S)
    assert sum(server.count("/generate") for server in scene.servers) == 1
    assert scene.state(0) is scene.state(1) is ServerState.SERVING


@pytest.mark.parametrize("trouble", ["garbage", "status"])
def test_another_server_answers_where_one_fails(scene_of: MakeScene, trouble: str) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    setattr(scene.servers[0], trouble, 500)
    for future in [scene.ask() for _ in range(6)]:
        check(future.result(PATIENCE_S))
    assert scene.engine.export_stats()["servers/retries"] >= 1


def test_a_failure_everywhere_ends_after_the_configured_attempts(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()], request_retries=3)
    for server in scene.servers:
        server.status = 503
    with pytest.raises(ServerFaultError, match="status 503"):
        scene.ask().result(PATIENCE_S)
    assert sum(server.count("/generate") for server in scene.servers) == 3


def test_a_hanging_server_is_given_up_and_its_requests_go_to_others(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(token_s=0.01), FakeSGLang(token_s=0.01)])
    futures = [scene.ask(count=30) for _ in range(4)]
    scene.until_asked(0)
    scene.servers[0].hangs = True
    scene.servers[0].token_s = 3600.0
    for future in futures:
        check(future.result(PATIENCE_S), count=30)
    scene.until_state(0, ServerState.DEAD)
    assert "no answer within" in scene.engine._pool.fleet.describe()


def test_a_cancelled_request_leaves_nothing_behind(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(token_s=3600.0)])
    future = scene.ask()
    scene.until_asked(0)
    future.cancel()
    scene.until(lambda: scene.engine._pool.fleet.servers[scene.servers[0].address].outstanding == 0)
    assert scene.state(0) is ServerState.SERVING


# --- death


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_a_server_that_dies_while_generating_costs_nothing(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.005), fake(token_s=0.005)], backend())
    futures = [scene.ask(count=30) for _ in range(8)]
    scene.until_asked(0, 4)
    scene.servers[0].die()
    for future in futures:
        check(future.result(PATIENCE_S), count=30)
    scene.until_state(0, ServerState.DEAD)
    assert scene.engine.export_stats()["servers/deaths"] == 1


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_a_server_that_dies_while_paused_is_left_out(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.005), fake(token_s=0.005)], backend())
    futures = [scene.ask(count=30) for _ in range(4)]
    scene.until_asked(0)
    scene.engine.pause_generation()
    scene.servers[0].die()
    scene.update(1)
    assert not any(future.done() for future in futures)
    scene.engine.continue_generation()
    for future in futures:
        found = future.result(PATIENCE_S)
        check(found, count=30)
        assert set(found.output_versions) <= {0, 1}
    # Back as a new process, it gets the weights before it gets requests, and is not paused.
    scene.servers[0].start()
    scene.until_state(0, ServerState.SERVING)
    assert scene.servers[0].version == 1
    for future in [scene.ask() for _ in range(4)]:
        assert set(future.result(PATIENCE_S).output_versions) == {1}


def test_a_server_that_dies_while_loading_is_left_out(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.servers[0].hangs_on_load = True
    future = scene.begin_update(1)
    scene.until(lambda: scene.servers[0].count("/update_weights_from_disk") == 1)
    scene.servers[0].die()
    future.result(PATIENCE_S)
    scene.until_state(0, ServerState.DEAD)
    assert scene.state(1) is ServerState.SERVING
    check(scene.ask().result(PATIENCE_S))


def test_a_server_that_dies_while_joining_is_left_out(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.update(1)
    late = FakeSGLang()
    late.hangs_on_load = True
    scene.servers.append(late)
    scene.engine.add_server(late.start())
    scene.until(lambda: late.count("/update_weights_from_disk") == 1)
    late.die()
    scene.until_state(1, ServerState.DEAD)
    check(scene.ask().result(PATIENCE_S))
    late.hangs_on_load = False
    late.start()
    scene.until_state(1, ServerState.SERVING)
    assert late.version == 1


def test_requests_wait_while_nobody_serves_and_the_wait_has_a_name(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    address = scene.servers[0].address
    scene.servers[0].die()
    future = scene.ask()
    scene.until_state(0, ServerState.DEAD)
    assert not future.done()
    assert f"{address} dead" in (scene.engine.obstacle() or "")
    scene.engine.submit({}, Asking())
    with pytest.raises(TimeoutError, match=f"no inference server serves version 0: {address} dead"):
        scene.engine.wait(1, timeout=0.2)
    scene.servers[0].start()
    check(future.result(PATIENCE_S))
    assert scene.engine.wait(1, timeout=PATIENCE_S) != [None], "the row was kept"
    assert scene.engine.obstacle() is None


class Asking(RolloutWorkflow):
    """Asks once."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any]:
        gconfig = GenerationHyperparameters(max_new_tokens=3)
        await engine.agenerate(ModelRequest(input_ids=[1], gconfig=gconfig))
        return {
            "input_ids": torch.ones(1, 4, dtype=torch.int32),
            "attention_mask": torch.ones(1, 4, dtype=torch.bool),
            "loss_mask": torch.ones(1, 4, dtype=torch.int32),
            "logprobs": torch.zeros(1, 4),
            "versions": torch.zeros(1, 4, dtype=torch.int32),
            "rewards": torch.ones(1),
        }


def test_a_server_that_is_removed_hands_over_its_requests(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(token_s=0.005), FakeSGLang(token_s=0.005)])
    futures = [scene.ask(count=30) for _ in range(4)]
    scene.until_asked(0)
    scene.engine.remove_server(scene.servers[0].address)
    for future in futures:
        check(future.result(PATIENCE_S), count=30)
    assert scene.engine.reachable_servers() == [scene.servers[1].address]


# --- weights


def test_named_servers_join_and_leave_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_resolve, "DEFAULT_REPOSITORY", MemoryNameRecordRepository())
    servers = [FakeSGLang(), FakeSGLang()]
    root = names.gen_servers("e", "t")
    config = InferenceEngineConfig(
        experiment_name="e", trial_name="t", backend="sglang:d1", poll_interval=0.1
    )
    engine = RemoteInfEngine(config, SGLangBackend())
    with pytest.raises(RuntimeError, match="no inference server is known"):
        engine.initialize()
    name_resolve.add(f"{root}/0", servers[0].start())
    give_up_at = time.monotonic() + PATIENCE_S

    def until_known(*addresses: str) -> None:
        while set(engine.addresses) != set(addresses):
            assert time.monotonic() < give_up_at
            time.sleep(0.005)

    engine.initialize()
    try:
        assert engine.addresses == [servers[0].address]
        name_resolve.add(f"{root}/1", servers[1].start())
        until_known(servers[0].address, servers[1].address)
        name_resolve.delete(f"{root}/0")
        until_known(servers[1].address)
        # That of a launcher which has gone takes no server away.
        name_resolve.clear_subtree(root)
        time.sleep(0.3)
        until_known(servers[1].address)
    finally:
        engine.destroy()
        for server in servers:
            server.stop()


def test_as_many_named_servers_are_waited_for_as_the_backend_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name_resolve, "DEFAULT_REPOSITORY", MemoryNameRecordRepository())
    servers = [FakeSGLang(), FakeSGLang()]
    root = names.gen_servers("e", "t")
    name_resolve.add(f"{root}/0", servers[0].start())
    later = threading.Timer(0.3, lambda: name_resolve.add(f"{root}/1", servers[1].start()))
    config = InferenceEngineConfig(experiment_name="e", trial_name="t", backend="sglang:d2")
    engine = RemoteInfEngine(config, SGLangBackend())
    later.start()
    try:
        engine.initialize()
        assert set(engine.addresses) == {server.address for server in servers}
    finally:
        later.join()
        engine.destroy()
        for server in servers:
            server.stop()


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_an_answer_goes_on_through_an_update_with_the_versions_of_its_tokens(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.005), fake(token_s=0.005)], backend())
    futures = [scene.ask(count=60) for _ in range(4)]
    scene.until_asked(0)
    scene.until_asked(1)
    scene.engine.pause()  # of new episodes; what runs must not wait for resume()
    scene.update(1)
    for future in futures:
        found = future.result(PATIENCE_S)
        check(found, count=60)
        assert found.output_versions[-1] == 1
    assert scene.engine.get_version() == 1


def test_the_version_of_an_update_without_one_is_the_next(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.engine.set_version(4)
    scene.engine.update_weights_from_disk(WeightUpdateMeta(type="disk", path="/w")).result(10)
    assert scene.servers[0].version == 5
    with pytest.raises(ConfigError, match=r"meta\.path"):
        scene.engine.update_weights_from_disk(WeightUpdateMeta(type="disk"))


def test_a_server_that_cannot_load_holds_up_nobody_and_is_tried_again(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.servers[0].disk_full = True
    scene.update(1)
    assert scene.state(1) is ServerState.SERVING
    assert "No space left" in scene.engine._pool.fleet.describe()
    asked = scene.servers[0].count("/generate")
    for future in [scene.ask() for _ in range(4)]:
        assert set(future.result(PATIENCE_S).output_versions) == {1}
    assert scene.servers[0].count("/generate") == asked
    scene.servers[0].disk_full = False
    scene.until_state(0, ServerState.SERVING)
    assert scene.servers[0].version == 1


def test_a_server_that_never_loads_is_waited_for_no_longer_than_the_others_allow(
    scene_of: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_STRAGGLER_S", 0.1)
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.servers[0].hangs_on_load = True
    scene.update(1)
    assert "has not loaded its weights after" in scene.engine._pool.fleet.describe()
    check(scene.ask().result(PATIENCE_S))
    # It hangs in version 1 when version 2 comes, and is given that.
    scene.until(lambda: scene.servers[0].count("/update_weights_from_disk") == 2)
    scene.servers[0].hangs_on_load = False
    scene.update(2)
    scene.until_state(0, ServerState.SERVING)
    assert [server.version for server in scene.servers] == [2, 2]


def test_an_update_ends_with_its_engine(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.servers[0].hangs_on_load = True
    future = scene.begin_update(1)
    scene.until(lambda: scene.servers[0].count("/update_weights_from_disk") == 1)
    scene.engine.destroy()
    with pytest.raises(CancelledError):
        future.result(PATIENCE_S)


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_what_waits_in_a_server_that_cannot_load_goes_to_another(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(), fake()], backend())
    scene.servers[0].pause(aborts=False)  # as vLLM is for a load, and stays if that fails
    futures = [scene.ask() for _ in range(4)]
    scene.until_asked(0)
    scene.servers[0].disk_full = True
    scene.update(1)
    for future in futures:
        check(future.result(PATIENCE_S))


def test_a_server_that_lost_its_weights_gets_no_request_before_it_has_some(
    scene_of: MakeScene,
) -> None:
    scene = scene_of([FakeVLLM(token_s=0.001)], VLLMBackend())
    instance = scene.servers[0].instance
    scene.servers[0].disk_full = True
    with pytest.raises(RuntimeError, match="/collective_rpc"):
        scene.update(1)
    future = scene.ask()
    scene.engine.pause_generation()
    scene.engine.continue_generation()  # it runs, and would die of a request
    scene.servers[0].disk_full = False
    check(future.result(PATIENCE_S))
    assert set(future.result().output_versions) == {1}
    assert scene.servers[0].instance == instance


def test_an_update_that_no_server_can_load_fails_and_names_them(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    for server in scene.servers:
        server.disk_full = True
    with pytest.raises(RuntimeError, match="could load version 1") as caught:
        scene.update(1)
    for server in scene.servers:
        assert server.address in str(caught.value)


def test_an_update_waits_for_a_lone_server_that_is_back_in_time(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.servers[0].die()
    future = scene.begin_update(1)
    scene.servers[0].start()
    future.result(PATIENCE_S)
    assert scene.servers[0].version == 1


def test_a_server_that_restarts_gets_the_weights_before_any_request(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.update(1)
    scene.servers[0].restart()
    for future in [scene.ask() for _ in range(8)]:
        assert set(future.result(PATIENCE_S).output_versions) == {1}
    scene.until(lambda: scene.servers[0].version == 1)
    scene.until_state(0, ServerState.SERVING)


def test_an_answer_of_an_older_version_is_not_used(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.update(2)
    scene.servers[0].claims_version = 1
    for future in [scene.ask() for _ in range(4)]:
        assert set(future.result(PATIENCE_S).output_versions) == {2}
    assert scene.engine.export_stats()["servers/stale_answers"] >= 1


def test_weights_are_fetched_over_http(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.engine.update_weights_from_url("http://127.0.0.1:1/v3", 3).result(PATIENCE_S)
    assert [server.version for server in scene.servers] == [3, 3]
    assert scene.servers[0].seen[-1].payload["url"] == "http://127.0.0.1:1/v3"
    with pytest.raises(NotImplementedError, match="vLLM"):
        scene_of([FakeVLLM()], VLLMBackend()).engine.update_weights_from_url("http://h/", 1)


# --- weights by group


def group(num_servers: int, version: int | None = None) -> WeightUpdateMeta:
    allocation = ModelAllocation.from_str(f"sglang:d{num_servers}")
    return WeightUpdateMeta(type="xccl", gen_allocation=allocation, version=version)


SPECS = [ParamSpec("w", (2, 3), "float32")]


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_a_group_update_ends_with_continue_generation(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.005), fake(token_s=0.005)], backend())
    engine = scene.engine
    engine.init_weights_update_group(group(2)).result(PATIENCE_S)
    future = scene.ask(count=60)
    engine.pause_generation()  # at once: the request may not have reached its server yet
    for _ in range(2):
        engine.update_weights_from_distributed(group(2, 1), SPECS).result(PATIENCE_S)
    assert engine.obstacle() is not None
    engine.continue_generation()
    found = future.result(PATIENCE_S)
    check(found, count=60)
    assert found.output_versions[-1] == 1
    assert [server.version for server in scene.servers] == [1, 1]


def test_a_server_outside_the_group_waits_for_the_next_epoch(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    engine = scene.engine
    engine.init_weights_update_group(group(1)).result(PATIENCE_S)
    epoch = engine.membership_epoch
    late = FakeSGLang()
    scene.servers.append(late)
    engine.add_server(late.start())
    scene.until_state(1, ServerState.SERVING)  # with the base weights, which are current
    assert engine.membership_epoch > epoch
    engine.update_weights_from_distributed(group(1, 1), SPECS).result(PATIENCE_S)
    engine.set_version(1)
    assert scene.state(0) is ServerState.SERVING
    assert scene.state(1) is ServerState.STALE
    assert set(scene.ask().result(PATIENCE_S).output_versions) == {1}
    members = engine.reachable_servers()
    engine.init_weights_update_group(group(2), servers=members).result(PATIENCE_S)
    engine.update_weights_from_distributed(group(2, 2), SPECS).result(PATIENCE_S)
    engine.set_version(2)
    assert scene.state(0) is scene.state(1) is ServerState.SERVING


def test_a_group_of_another_size_than_the_allocation_is_refused(scene_of: MakeScene) -> None:
    engine = scene_of([FakeSGLang()]).engine
    with pytest.raises(ConfigError, match="2 replicas and the weight group 1 servers"):
        engine.init_weights_update_group(group(2))
    with pytest.raises(RuntimeError, match="no weight group"):
        engine.update_weights_from_distributed(group(1), SPECS)


def test_a_member_that_fails_a_bucket_is_left_out(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    engine = scene.engine
    engine.init_weights_update_group(group(2)).result(PATIENCE_S)
    scene.servers[0].disk_full = True
    engine.update_weights_from_distributed(group(2, 1), SPECS).result(PATIENCE_S)
    engine.set_version(1)
    assert scene.state(1) is ServerState.SERVING
    assert scene.state(0) is ServerState.STALE
    scene.servers[1].disk_full = True
    with pytest.raises(RuntimeError, match="no inference server took the weights"):
        engine.update_weights_from_distributed(group(2, 2), SPECS).result(PATIENCE_S)


# --- administration


def test_adapters_go_by_versioned_names(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()], use_lora=True)
    meta = WeightUpdateMeta(
        type="disk", path="/w/a", version=1, use_lora=True, lora_name="default_lora"
    )
    scene.engine.update_weights_from_disk(meta).result(PATIENCE_S)
    scene.ask().result(PATIENCE_S)
    assert scene.servers[0].seen[-1].payload["lora_path"] == "default_lora-v1"


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_scores_stand_where_the_loss_mask_is(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    engine = scene_of([fake(), fake()], backend()).engine
    data = {
        "input_ids": torch.tensor([[0, 5, 6, 7, 8], [9, 8, 7, 6, 5]]),
        "attention_mask": torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
        "loss_mask": torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]),
    }
    expected = torch.zeros(2, 5)
    expected[0, 3], expected[0, 4] = logprob(7), logprob(8)
    (found,) = engine.compute_logp([data])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(engine.compute_logp(data), expected)


def test_scores_survive_the_death_of_a_server(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.servers[0].die()
    ones = torch.ones(4, 6, dtype=torch.int64)
    found = scene.engine.compute_logp(
        {"input_ids": ones * 5, "attention_mask": ones, "loss_mask": ones}
    )
    # The first token of a prompt has nothing before it that could give it a probability.
    torch.testing.assert_close(found[:, 1:], torch.full((4, 5), logprob(5)))
    assert not found[:, 0].any()


def test_memory_is_given_back_and_taken_again(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang(), FakeSGLang()])
    scene.engine.offload(["weights"])
    scene.engine.onload()
    for server in scene.servers:
        assert [(seen.endpoint, seen.payload) for seen in server.seen] == [
            ("/release_memory_occupation", {"tags": ["weights"]}),
            ("/resume_memory_occupation", {}),
        ]


def test_nothing_is_buffered_on_servers(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.engine.clear_batches(["0"])
    assert scene.engine.fetch_buffer_stats() == {}
    with pytest.raises(NotImplementedError, match="start_proxy_gateway"):
        scene.engine.set_proxy_gateway_addr("http://127.0.0.1:1")


@pytest.mark.parametrize(("fake", "backend"), KINDS)
def test_aborted_requests_are_taken_up_again(
    scene_of: MakeScene, fake: type[FakeServer], backend: type[Any]
) -> None:
    scene = scene_of([fake(token_s=0.005)], backend())
    future = scene.ask(count=40)
    scene.until_asked(0)
    scene.engine.abort_all_requests()
    check(future.result(PATIENCE_S), count=40)
    scene.until_asked(0, 2)


def test_a_pause_takes_the_configured_grace(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()], pause_grace_period=0.05)
    started = time.monotonic()
    scene.engine.pause_generation()
    assert time.monotonic() - started >= 0.05
    assert "paused" in (scene.engine.obstacle() or "")


def test_a_server_that_cannot_pause_is_named(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()], VLLMBackend())
    with pytest.raises(RequestRefusedError, match=r"/pause.*404"):
        scene.engine.pause_generation()
    assert scene.engine.obstacle() is None


def test_a_chat_with_images_begins_anew_when_it_is_interrupted(scene_of: MakeScene) -> None:
    scene = scene_of([FakeVLLM(token_s=0.005)], VLLMBackend())
    chat = [{"role": "user", "content": [{"type": "image"}]}]
    future = scene.ask(count=30, image_data=["aGk="], vision_msg_vllm=[chat])
    scene.until(lambda: scene.servers[0].count("/v1/chat/completions") == 1)
    scene.update(1)
    found = future.result(PATIENCE_S)
    assert found.output_tokens == [next_token(i) for i in range(30)]
    assert set(found.output_versions) == {1}


# --- discovery and processes


def test_addresses_come_from_the_environment_without_any_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = FakeSGLang()
    monkeypatch.setenv("AREAL_LLM_SERVER_ADDRS", f" {server.start()}, ")
    engine = RemoteInfEngine(InferenceEngineConfig(backend="sglang:d1"), SGLangBackend())
    engine.initialize()
    assert engine.choose_server() == server.address
    engine.destroy()
    server.stop()


def test_without_any_address_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AREAL_LLM_SERVER_ADDRS", raising=False)
    engine = RemoteInfEngine(InferenceEngineConfig(backend="sglang:d1"), SGLangBackend())
    with pytest.raises(RuntimeError, match="AREAL_LLM_SERVER_ADDRS"):
        engine.initialize()
    with pytest.raises(RuntimeError, match="initialize"):
        engine.workflow_executor  # noqa: B018  (that it raises is the point)
    engine.destroy()


def test_servers_that_never_answer_are_named() -> None:
    config = InferenceEngineConfig(backend="sglang:d1", setup_timeout=0.3)
    engine = RemoteInfEngine(config, SGLangBackend())
    with pytest.raises(TimeoutError, match=r"127\.0\.0\.1:1 starting"):
        engine.initialize(addr="127.0.0.1:1")
    assert not engine.initialized


def test_whoever_waits_learns_of_the_end(scene_of: MakeScene) -> None:
    scene = scene_of([FakeSGLang()])
    scene.servers[0].die()
    future = scene.ask()
    scene.until_state(0, ServerState.DEAD)
    scene.engine.destroy()
    with pytest.raises(RuntimeError, match="not running"):
        future.result(PATIENCE_S)


SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class LaunchingBackend(SGLangBackend):
    """Starts a program in the place of SGLang."""

    def __init__(self, *command: str) -> None:
        super().__init__()
        self.command = command

    def launch_server(self, server_args: dict[str, Any]) -> Popen[Any]:
        command = [part.format(**server_args) for part in self.command]
        return Popen([sys.executable, "-c", *command], start_new_session=True)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_launched_server_ends_with_all_that_it_started(tmp_path: Path) -> None:
    config = InferenceEngineConfig(backend="sglang:d1", setup_timeout=30)
    backend = LaunchingBackend(SERVER.replace("{", "{{").replace("}", "}}"), "{port}")
    backend.command = (*backend.command, str(tmp_path / "child"))
    engine = RemoteInfEngine(config, backend)
    info = engine.launch_server({})
    child = int((tmp_path / "child").read_text())
    assert is_running(child)
    assert info.process.poll() is None
    engine.initialize()
    assert engine.choose_server() == f"127.0.0.1:{info.port}"
    engine.destroy()
    assert info.process.poll() is not None
    give_up_at = time.monotonic() + PATIENCE_S
    while is_running(child):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_a_server_that_exits_is_reported_at_once() -> None:
    config = InferenceEngineConfig(backend="sglang:d1", setup_timeout=300)
    engine = RemoteInfEngine(config, LaunchingBackend("raise SystemExit(7)"))
    with pytest.raises(RuntimeError, match="ended with code 7"):
        engine.launch_server({})
    assert not engine._launched.servers


def test_a_server_that_does_not_get_ready_is_ended() -> None:
    config = InferenceEngineConfig(backend="sglang:d1", setup_timeout=0.3)
    engine = RemoteInfEngine(config, LaunchingBackend("import time; time.sleep(600)"))
    with pytest.raises(TimeoutError, match="setup_timeout"):
        engine.launch_server({})
    assert not engine._launched.servers


def test_servers_whose_log_probabilities_leave_the_temperature_out_are_refused(
    scene_of: MakeScene,
) -> None:
    # The fake one answers with the same numbers whatever the temperature.
    scene = scene_of([FakeVLLM()], VLLMBackend())
    scene.engine.check_temperature([5, 6], 1.0)
    assert scene.servers[0].count("/v1/completions") == 0
    with pytest.raises(ConfigError, match="--logprobs-mode processed_logprobs"):
        scene.engine.check_temperature([5, 6], 0.5)

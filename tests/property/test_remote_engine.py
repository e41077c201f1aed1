"""Is every row of a run kept, whatever happens to the servers behind it?"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.io_struct import ModelRequest, WeightUpdateMeta
from areal.api.workflow_api import RolloutWorkflow
from areal.engine import SGLangBackend, VLLMBackend
from areal.infra.remote_inf_engine import RemoteInfEngine
from tests.fake_servers import FakeServer, FakeSGLang, FakeVLLM, next_token

PATIENCE_S = 60.0
NUM_ROWS = 24


class Asking(RolloutWorkflow):
    """Asks for as many tokens as the row says, and notes what came."""

    def __init__(self) -> None:
        self.answers: dict[int, list[Any]] = {}

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any]:
        gconfig = GenerationHyperparameters(max_new_tokens=data["count"])
        answer = await engine.agenerate(ModelRequest(input_ids=[1] * 4, gconfig=gconfig))
        self.answers.setdefault(data["row"], []).append(answer)
        length = 4 + len(answer.output_tokens)
        return {
            "input_ids": torch.tensor([[1] * 4 + answer.output_tokens], dtype=torch.int32),
            "attention_mask": torch.ones(1, length, dtype=torch.bool),
            "loss_mask": torch.tensor([[0] * 4 + [1] * (length - 4)], dtype=torch.int32),
            "logprobs": torch.tensor([[0.0] * 4 + answer.output_logprobs]),
            "versions": torch.tensor([[-1] * 4 + answer.output_versions], dtype=torch.int32),
            "rewards": torch.tensor([float(data["row"])]),
        }


class Watched(RemoteInfEngine):
    """Notes which server was asked in which state, at the moment of asking."""

    def __init__(self, config: InferenceEngineConfig, backend: Any) -> None:
        super().__init__(config, backend)
        self.wrong: list[str] = []
        choose = self._pool.fleet.choose

        def watched(*args: Any, **kwargs: Any) -> Any:
            server = choose(*args, **kwargs)
            fleet = self._pool.fleet
            if server is not None and (
                server.state.value != "serving" or server.version != fleet.version
            ):
                self.wrong.append(fleet.describe())
            return server

        self._pool.fleet.choose = watched  # type: ignore[method-assign]


def disturb(engine: RemoteInfEngine, servers: list[FakeServer], events: list[Any]) -> int:
    """Does to the servers what an example says, and returns the last version given out."""
    version = 0
    for kind, which, pause_s in events:
        server = servers[which % len(servers)]
        if kind == "kill":
            server.restart()
        elif kind == "join":
            servers.append(type(server)(token_s=server.token_s, load_s=server.load_s))
            engine.add_server(servers[-1].start())
        elif kind == "leave" and len(engine._pool.fleet.servers) > 1:
            engine.remove_server(server.address)
        elif kind == "pause":
            engine.pause_generation()
            time.sleep(pause_s)
            engine.continue_generation()
        elif kind == "update":
            version += 1
            meta = WeightUpdateMeta(type="disk", path=f"/w/v{version}", version=version)
            engine.update_weights_from_disk(meta).result(PATIENCE_S)
        elif kind == "kill while loading":
            version += 1
            meta = WeightUpdateMeta(type="disk", path=f"/w/v{version}", version=version)
            future = engine.update_weights_from_disk(meta)
            server.restart()
            future.result(PATIENCE_S)
        elif kind == "garbage":
            server.garbage = not server.garbage
        elif kind == "disk full":
            server.disk_full = not server.disk_full and any(
                other is not server and not other.disk_full for other in servers
            )
        elif kind == "lie":
            server.claims_version = None if server.claims_version is not None else 0
        time.sleep(pause_s)
    return version


KINDS = [
    "disk full",
    "garbage",
    "join",
    "kill",
    "kill while loading",
    "leave",
    "lie",
    "pause",
    "update",
]
EVENTS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.sampled_from([0.0, 0.005, 0.03])),
    min_size=3,
    max_size=10,
)


@pytest.mark.parametrize(
    ("fake", "backend"), [(FakeSGLang, SGLangBackend), (FakeVLLM, VLLMBackend)]
)
@settings(max_examples=max(8, settings.default.max_examples // 8))
@given(events=EVENTS, seed=st.integers(0, 1000))
def test_every_row_ends_once_with_tokens_of_versions_that_were_given_out(
    fake: type[FakeServer], backend: type[Any], events: list[Any], seed: int
) -> None:
    servers: list[FakeServer] = [fake(token_s=0.001, load_s=0.003) for _ in range(2)]
    # One server stays sound, or there would be nobody to answer.
    sound = fake(token_s=0.001, load_s=0.003)
    config = InferenceEngineConfig(
        backend="sglang:d2",
        consumer_batch_size=NUM_ROWS,
        max_concurrent_rollouts=NUM_ROWS,
        max_head_offpolicyness=100,
        request_retries=1000,
        setup_timeout=PATIENCE_S,
        request_timeout=PATIENCE_S,
        poll_interval=0.05,
    )
    engine = Watched(config, backend())
    engine.initialize(addr=[server.start() for server in [sound, *servers]])
    workflow = Asking()
    draw = random.Random(seed)
    try:
        rows = [{"row": i, "count": draw.choice([1, 5, 40, 80])} for i in range(NUM_ROWS)]
        for row in rows:
            engine.submit(row, workflow)
        last: list[int] = []
        worker = threading.Thread(target=lambda: last.append(disturb(engine, servers, events)))
        worker.start()
        results = engine.wait(NUM_ROWS, timeout=PATIENCE_S)
        worker.join(PATIENCE_S)
        assert last, "the events did not come to an end"
        assert not engine.wrong
        kept = [result for result in results if result is not None]
        assert sorted(int(result["rewards"]) for result in kept) == list(range(NUM_ROWS))
        for row in rows:
            (answer,) = workflow.answers[row["row"]]
            assert answer.output_tokens == [next_token(4 + i) for i in range(row["count"])]
            assert answer.output_versions == sorted(answer.output_versions)
            assert set(answer.output_versions) <= set(range(last[0] + 1))
    finally:
        engine.destroy()
        for server in [sound, *servers]:
            server.stop()

"""RLVR over two servers, one of which dies, comes back and gets the weights."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import torch

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.io_struct import WeightUpdateMeta
from areal.engine import RemoteSGLangEngine
from areal.workflow import RLVRWorkflow
from tests.fake_servers import FakeSGLang, next_token
from tests.fakes import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
BATCH_SIZE = 8
GROUP_SIZE = 2
NUM_STEPS = 4
NUM_NEW = 40


class Rows:
    """A dataloader whose rows are told apart by the length of their prompts."""

    batch_size = BATCH_SIZE

    def __iter__(self) -> Any:
        for step in range(NUM_STEPS + 2):
            yield [row(step * BATCH_SIZE + i) for i in range(BATCH_SIZE)]


def row(number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "1" * (number + 1)}], "answer": "1"}


def test_no_row_is_lost_when_a_server_dies_and_comes_back() -> None:
    servers = [FakeSGLang(token_s=0.002, load_s=0.01), FakeSGLang(token_s=0.002, load_s=0.01)]
    config = InferenceEngineConfig(
        backend="sglang:d2",
        consumer_batch_size=BATCH_SIZE,
        max_head_offpolicyness=1,
        setup_timeout=30.0,
        request_timeout=60.0,
        poll_interval=0.1,
    )
    engine = RemoteSGLangEngine(config)
    gconfig = GenerationHyperparameters(max_new_tokens=NUM_NEW)
    workflow = RLVRWorkflow("arithmetic", gconfig, TOKENIZER)
    engine.initialize(addr=[server.start() for server in servers])
    killed = threading.Event()

    def kill_one() -> None:
        while servers[0].count("/generate") < 4:
            killed.wait(0.002)
        servers[0].restart()
        killed.set()

    killer = threading.Thread(target=kill_one)
    killer.start()
    batches = []
    try:
        for step in range(NUM_STEPS):
            batches.append(engine.prepare_batch(Rows(), workflow, group_size=GROUP_SIZE))
            meta = WeightUpdateMeta(type="disk", path="/w", version=step + 1)
            engine.update_weights_from_disk(meta).result(60)
        stats = engine.export_stats()
    finally:
        killed.set()
        killer.join(30)
        engine.destroy()
        for server in servers:
            server.stop()
    seen: Counter[int] = Counter()
    for step, batch in enumerate(batches):
        assert len(batch) == BATCH_SIZE
        for trajectory in batch:
            check(trajectory, latest=step)
            seen[int(trajectory["loss_mask"][0].argmax())] += 1
    # Oldest first, and each once: the rows of the first batches, none twice, none left out.
    shortest = min(seen)
    assert seen == Counter(range(shortest, shortest + NUM_STEPS * BATCH_SIZE))
    assert stats["servers/retries"] >= 1
    assert stats["rollout/failed"] == 0
    assert stats["rollout/accepted"] >= NUM_STEPS * BATCH_SIZE * GROUP_SIZE
    assert stats["servers/serving"] == 2
    # The one that restarted was given the weights and work again.
    assert stats[f"servers/tokens/{servers[0].address}"] > 0
    assert servers[0].version == NUM_STEPS


def check(trajectory: dict[str, Any], latest: int) -> None:
    """Asserts that both answers are whole, and no newer than they can be."""
    assert trajectory["input_ids"].shape[0] == GROUP_SIZE
    for ids, mask, versions in zip(
        trajectory["input_ids"], trajectory["loss_mask"], trajectory["versions"], strict=True
    ):
        start = int(mask.argmax())
        assert int(mask.sum()) == NUM_NEW
        expected = [next_token(start + i) for i in range(NUM_NEW)]
        assert ids[start : start + NUM_NEW].tolist() == expected
        generated = versions[start : start + NUM_NEW]
        assert torch.equal(generated, generated.sort().values)
        assert int(generated[0]) >= 0
        assert latest - 1 <= int(generated[-1]) <= latest

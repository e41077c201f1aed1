"""How weights travel where servers are slow, or gone."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from areal.api.io_struct import WeightUpdateMeta
from areal.engine.weight_sync import WeightGroup, WeightPublisher, WeightSyncError
from areal.utils.network import find_free_ports

CPU = torch.device("cpu")


def test_the_group_gives_up_within_minutes() -> None:
    # PyTorch's own default is half an hour, and AReaL's two hours.
    assert inspect.signature(WeightGroup).parameters["timeout_s"].default <= 120


def outcome(function: Callable[[], object]) -> BaseException | None:
    """Returns what a call raises within a minute; what waits in C cannot be interrupted."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            function()
            raised.append(None)
        except WeightSyncError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert raised, "it still waits"
    return raised[0]


def test_a_member_that_does_not_come_is_not_waited_for() -> None:
    (port,) = find_free_ports(1)
    error = outcome(lambda: WeightGroup("127.0.0.1", port, 0, 2, "weights", CPU, timeout_s=0.5))
    assert re.search(r"0 of 2 could not join .* within 0\.5 s", str(error))


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "hangs"])
def test_a_member_that_is_lost_in_a_broadcast_breaks_the_group(is_gone: bool) -> None:
    (port,) = find_free_ports(1)

    def join(rank: int) -> WeightGroup:
        return WeightGroup("127.0.0.1", port, rank, 2, "weights", CPU, timeout_s=2.0)

    with ThreadPoolExecutor() as threads:
        trainer, server = threads.map(join, range(2))
    if is_gone:
        server.close()
    error = outcome(lambda: trainer.broadcast(torch.zeros(8 << 20)))  # more than sockets buffer
    assert "'weights' broke" in str(error)


class Servers:
    """Notes what is asked of the servers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_generation(self) -> None:
        self.calls.append("pause")

    def update_weights_from_disk(self, meta: WeightUpdateMeta) -> Future[None]:
        self.calls.append("load")
        done: Future[None] = Future()
        done.set_result(None)
        return done


def test_generation_goes_on_while_weights_are_written(tmp_path: Path) -> None:
    servers = Servers()
    seen_by_write: list[list[str]] = []

    def write(folder: Path) -> None:
        seen_by_write.append(list(servers.calls))
        (folder / "model.safetensors").touch()

    def parameters() -> Iterator[tuple[str, torch.Tensor]]:
        raise AssertionError("they are written, and not sent")

    publisher = WeightPublisher(write, parameters, servers, CPU)
    meta = WeightUpdateMeta("disk", path=str(tmp_path / "weight_update_v1"), version=1)
    publisher.publish(meta)
    publisher.close()
    assert seen_by_write == [[]]
    assert servers.calls == ["load"]

"""How weights travel where servers are slow, or gone."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
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


def test_a_member_that_does_not_come_is_not_waited_for() -> None:
    (port,) = find_free_ports(1)
    with pytest.raises(WeightSyncError, match=r"0 of 2 could not join .* within 0\.5 s"):
        WeightGroup("127.0.0.1", port, 0, 2, "weights", CPU, timeout_s=0.5)


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "hangs"])
def test_a_member_that_is_lost_in_a_broadcast_breaks_the_group(is_gone: bool) -> None:
    (port,) = find_free_ports(1)

    def join(rank: int) -> WeightGroup:
        return WeightGroup("127.0.0.1", port, rank, 2, "weights", CPU, timeout_s=2.0)

    with ThreadPoolExecutor() as threads:
        trainer, server = threads.map(join, range(2))
    if is_gone:
        server.close()
    started = time.monotonic()
    with pytest.raises(WeightSyncError, match="'weights' broke"):
        trainer.broadcast(torch.zeros(8 << 20))  # more than sockets buffer
    assert time.monotonic() - started < 60


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

    publisher = WeightPublisher(write, parameters, servers, CPU)  # type: ignore[arg-type]
    meta = WeightUpdateMeta("disk", path=str(tmp_path / "weight_update_v1"), version=1)
    publisher.publish(meta)
    publisher.close()
    assert seen_by_write == [[]]
    assert servers.calls == ["load"]

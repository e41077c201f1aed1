"""Rows and results between the first process and the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from areal.api.errors import EpisodeFailureError, RankError
from areal.engine.processes import is_first
from areal.trainer.hub import Hub
from tests.integration.areal.conftest import environment
from tests.rank_processes import run_ranks

# The second and the third process share their rows.
REPLICAS = (0, 1, 1)


def batch_of(lengths: list[int]) -> dict[str, Any]:
    width = max(lengths)
    mask = torch.tensor([[i < length for i in range(width)] for length in lengths])
    rows = torch.arange(len(lengths))
    return {
        "attention_mask": mask,
        "input_ids": mask * (rows[:, None] + 1),
        "rewards": rows.float(),
        "names": [f"row {row}" for row in rows.tolist()],
    }


def test_one_process_copies_nothing() -> None:
    hub = Hub(SimpleNamespace(data_parallel_rank=0))  # type: ignore[arg-type]  # it asks no more
    batch = batch_of([3, 1])
    assert hub.scatter(batch) is batch
    values = torch.rand(2, 3)
    assert hub.gather(values) is values
    assert hub.gather_all([1]) == [[1]]
    assert hub.first(lambda: 5) == hub.same(5) == 5
    with pytest.raises(KeyError):
        hub.first(lambda: {}["x"])


@pytest.mark.heavy
def test_several_processes_get_their_rows_and_give_back_results(tmp_path: Path) -> None:
    run_ranks(len(REPLICAS), [__file__, str(tmp_path)], environment())
    first, *others = (json.loads((tmp_path / f"{i}.json").read_text()) for i in range(3))
    for case, lengths in CASES.items():
        shares = [found[case]["rows"] for found in (first, *others)]
        assert shares[1] == shares[2]
        assert sorted(shares[0] + shares[1]) == list(range(len(lengths)))
        if len(lengths) > 1:
            tokens = [sum(lengths[row] for row in share) for share in shares[:2]]
            assert abs(tokens[0] - tokens[1]) <= max(lengths)
        # In the order of the batch, whoever computed what.
        assert first[case]["gathered"] == [
            [10.0 * row] * max(lengths) for row in range(len(lengths))
        ]
        assert first[case]["collected"] == [["0"], ["2"]]
        assert [found[case]["gathered"] for found in others] == [None, None]
    assert [found["errors"] for found in (first, *others)] == [
        ["KeyError", "EpisodeFailureError"],
        ["RankError", "EpisodeFailureError"],
        ["RankError", "EpisodeFailureError"],
    ]
    assert [found["same"] for found in (first, *others)] == ["of the first"] * 3


CASES = {"uneven": [9, 2, 2, 2, 3, 1], "one row": [4]}


def _raises(error: Exception) -> Any:
    raise error


def _work(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    engine: Any = SimpleNamespace(data_parallel_rank=REPLICAS[rank], cpu_group=dist.group.WORLD)
    hub = Hub(engine)
    found: dict[str, Any] = {}
    for case, lengths in CASES.items():
        share = hub.scatter(batch_of(lengths) if is_first() else None)
        rows = [int(row) for row in share["rewards"].tolist()]
        assert share["names"] == [f"row {row}" for row in rows]
        values = share["rewards"][:, None].expand(-1, max(lengths)) * 10
        gathered = hub.gather(values)
        # As in a pipeline, where the last process of a replica has what there is to report.
        collected = hub.gather_all([str(rank)] if rank != 1 else [])
        found[case] = {
            "rows": rows,
            "gathered": None if gathered is None else gathered.tolist(),
            "collected": collected,
        }
    found["errors"] = []
    for error in (KeyError("x"), EpisodeFailureError("all failed")):
        try:
            hub.first(lambda error=error: _raises(error))
        except (KeyError, EpisodeFailureError, RankError) as raised:
            found["errors"].append(type(raised).__name__)
    found["same"] = hub.same("of the first" if rank == 0 else "of another")
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()  # who leaves first takes the connections of the others along
    dist.destroy_process_group()


if __name__ == "__main__":
    _work(Path(sys.argv[1]))

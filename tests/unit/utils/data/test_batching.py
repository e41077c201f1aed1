from __future__ import annotations

import pytest
import torch

from areal.utils.data import TrajBatchMeta, batched_call, concat_batch, split_batch


def trajectories() -> list[dict[str, object]]:
    out = []
    for i, (rows, length) in enumerate([(2, 3), (1, 5), (3, 2)]):
        ids = torch.full((rows, length), i)
        out.append(
            {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids, dtype=torch.bool),
                "rewards": torch.arange(rows).float() + i,
                "names": [f"{i}.{k}" for k in range(rows)],
            }
        )
    return out


def assert_equal(left: dict[str, object], right: dict[str, object]) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        same = torch.equal(value, right[key]) if torch.is_tensor(value) else value == right[key]
        assert same, key


def test_splitting_undoes_concatenating() -> None:
    batch, meta = concat_batch(trajectories())
    assert meta == TrajBatchMeta(n_trajs=3, traj_group_sizes=[2, 1, 3], traj_seqlens=[3, 5, 2])
    assert batch["input_ids"].shape == (6, 5)
    for part, original in zip(split_batch(batch, meta), trajectories(), strict=True):
        assert_equal(part, original)
    with pytest.raises(ValueError, match="no trajectory"):
        concat_batch([])


def test_results_are_cut_by_their_shape() -> None:
    batch, meta = concat_batch(trajectories())
    per_token = split_batch(batch["input_ids"] * 10, meta)
    assert [tuple(t.shape) for t in per_token] == [(2, 3), (1, 5), (3, 2)]
    assert [t.tolist() for t in split_batch(batch["rewards"], meta)] == [[0, 1], [1], [2, 3, 4]]
    assert split_batch(None, meta) == [None] * 3
    assert split_batch({"lr": 0.1, "n": torch.tensor(2)}, meta)[2] == {"lr": 0.1, "n": 2}


def test_calls_once_for_all_trajectories() -> None:
    seen: list[object] = []

    def double(batch: dict[str, torch.Tensor], meta: TrajBatchMeta | None = None) -> torch.Tensor:
        seen.append(meta)
        return batch["rewards"] * 2

    parts = batched_call(double, trajectories())
    assert [p.tolist() for p in parts] == [[0, 2], [2], [4, 6, 8]]
    assert batched_call(double, trajectories(), unpack=False).shape == (6,)
    batched_call(double, trajectories(), pass_meta=True)
    batch, _ = concat_batch(trajectories())
    assert batched_call(double, batch).shape == (6,)
    assert [m.n_trajs if m else None for m in seen] == [None, None, 3, None]

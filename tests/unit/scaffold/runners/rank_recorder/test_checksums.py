"""The checksums that ranks record: of a whole, and of the shards that it lies in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"


@pytest.fixture
def checksums(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RUNNERS))
    from rank_recorder import checksums  # type: ignore[import-not-found]

    return checksums


def shard(checksums: Any, whole: torch.Tensor, dim: int, start: int, stop: int) -> dict[str, Any]:
    """Measures a part of a tensor as the shard of a DTensor."""
    part = whole.narrow(dim, start, stop - start)
    offset = [start if at == dim else 0 for at in range(whole.dim())]
    placed = {"offset": offset, "strides": checksums._strides(whole.shape)}
    return checksums._numbers(part.reshape(-1), placed, tuple(part.shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_shards_add_up_to_the_whole(checksums: Any, dim: int, dtype: torch.dtype) -> None:
    whole = (torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(1)) * 100).to(dtype)
    cut = whole.shape[dim] // 2  # parts of different sizes
    parts = [
        shard(checksums, whole, dim, 0, cut),
        shard(checksums, whole, dim, cut, whole.shape[dim]),
    ]
    measured = checksums.measure(whole)
    assert sum(part["sum"] for part in parts) % (1 << 64) == measured["sum"]
    assert sum(part["norm"] for part in parts) == pytest.approx(measured["norm"])
    assert max(part["largest"] for part in parts) == measured["largest"]


def test_a_changed_or_moved_element_shows(checksums: Any) -> None:
    tensor = torch.arange(1000, dtype=torch.float32)
    sums = {checksums.measure(tensor)["sum"]}
    changed = tensor.clone()
    changed[500] += 2**-14
    sums.add(checksums.measure(changed)["sum"])
    sums.add(checksums.measure(tensor.flip(0))["sum"])
    assert len(sums) == 3


def test_the_two_zeros_are_one(checksums: Any) -> None:
    zeros = [checksums.measure(torch.tensor([value]))["sum"] for value in (0.0, -0.0)]
    assert zeros[0] == zeros[1]


def test_what_is_not_finite_is_counted_apart(checksums: Any) -> None:
    measured = checksums.measure(torch.tensor([1.0, float("nan"), float("inf"), -2.0]))
    assert (measured["nan"], measured["inf"]) == (1, 1)
    assert (measured["norm"], measured["largest"]) == (5.0, 2.0)
    assert measured["samples"] == [1.0, "nan", "inf", -2.0]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0),
        torch.tensor(3.0),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.ones(4, 4).t()[1:],
        torch.ones(2, requires_grad=True),
    ],
)
def test_any_tensor_can_be_measured(checksums: Any, tensor: torch.Tensor) -> None:
    measured = checksums.measure(tensor)
    assert measured["shape"] == list(tensor.shape)
    assert 0 <= measured["sum"] < 1 << 64


@pytest.mark.parametrize("tensor", [torch.ones(2, device="meta"), torch.eye(3).to_sparse()])
def test_what_holds_no_plain_numbers_is_left_out(checksums: Any, tensor: torch.Tensor) -> None:
    assert checksums.measure(tensor) is None


def test_pieces_of_a_large_tensor_are_as_one(
    checksums: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = torch.randn(1000, generator=torch.Generator().manual_seed(2))
    at_once = checksums.measure(tensor)["sum"]
    monkeypatch.setattr(checksums, "CHUNK", 64)
    assert checksums.measure(tensor)["sum"] == at_once

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from areal.utils.seqpack import (
    balanced_greedy_partition,
    ffd_allocate,
    karmarkar_karp,
    kk_allocate,
    partition_sizes,
)

sizes_strategy = st.lists(st.integers(0, 50), min_size=1, max_size=20)


def loads(groups: list[list[int]], sizes: list[int]) -> list[int]:
    return [sum(sizes[i] for i in g) for g in groups]


@settings(max_examples=150, deadline=None)
@given(
    sizes=sizes_strategy,
    capacity=st.one_of(st.none(), st.integers(1, 120)),
    min_groups=st.integers(1, 8),
    divisor=st.integers(1, 3),
    algorithm=st.sampled_from(["ffd", "kk"]),
)
def test_partitions_keep_every_promise(
    sizes: list[int], capacity: int | None, min_groups: int, divisor: int, algorithm: str
) -> None:
    try:
        groups = partition_sizes(
            sizes, capacity=capacity, min_groups=min_groups, divisor=divisor, algorithm=algorithm
        )
    except ValueError:
        # Only where no multiple of the divisor can hold: the largest one may be too few groups.
        most = len(sizes) // divisor * divisor
        assert most == 0 or (capacity is not None and most < len(sizes))
        return
    assert sorted(itertools.chain(*groups)) == list(range(len(sizes)))
    assert all(groups)
    assert all(g == sorted(g) for g in groups)
    assert groups == sorted(groups)
    assert len(groups) % divisor == 0
    assert len(groups) >= min(min_groups, len(sizes) // divisor * divisor)
    if capacity is not None:
        over = [g for g, load in zip(groups, loads(groups, sizes), strict=True) if load > capacity]
        assert all(len(g) == 1 for g in over)


def test_first_fit_decreasing_fills_the_first_group_with_room() -> None:
    assert partition_sizes([4, 8, 1, 4, 2, 1], capacity=10) == [[0, 2, 3, 5], [1, 4]]


def test_one_group_where_all_fits() -> None:
    assert partition_sizes([3, 1, 2], capacity=100) == [[0, 1, 2]]


def test_karmarkar_karp_on_the_textbook_case() -> None:
    # Differencing 8, 7, 6, 5, 4 leaves 2: the best is 0, greedy gets 4.
    groups = karmarkar_karp([8, 7, 6, 5, 4], 2)
    assert sorted(loads(groups, [8, 7, 6, 5, 4])) == [14, 16]


@settings(max_examples=80, deadline=None)
@given(sizes=st.lists(st.integers(0, 30), min_size=3, max_size=15))
def test_karmarkar_karp_leaves_no_group_empty(sizes: list[int]) -> None:
    groups = karmarkar_karp(sizes, 3)
    assert sorted(itertools.chain(*groups)) == list(range(len(sizes)))
    assert all(groups)


def test_allocations_of_a_capacity() -> None:
    sizes = [4, 8, 1, 4, 2, 1]
    assert ffd_allocate(sizes, 10) == [[0, 2, 3, 5], [1, 4]]
    assert loads(kk_allocate(sizes, 10), sizes) == [10, 10]
    assert len(ffd_allocate(sizes, 100, 3)) == len(kk_allocate(sizes, 100, min_groups=3)) == 3
    assert ffd_allocate([9, 30, 1], 10) == [[0, 2], [1]], "what is too long is alone"


def test_a_balanced_partition_is_one_of_weight_and_count() -> None:
    sizes = [9, 1, 5, 5, 4, 0]
    assert loads(balanced_greedy_partition(sizes, 3), sizes) == [9, 9, 6]
    assert sorted(map(len, balanced_greedy_partition([0] * 5, 2))) == [2, 3]
    with pytest.raises(ValueError, match="cannot make 3"):
        balanced_greedy_partition([1, 2], 3)


@pytest.mark.parametrize("algorithm", ["ffd", "kk"])
def test_equal_sizes_are_shared_out_evenly(algorithm: str) -> None:
    groups = partition_sizes([5] * 12, min_groups=4, algorithm=algorithm)
    assert [len(g) for g in groups] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"sizes": []}, "empty batch"),
        ({"sizes": [1, 2], "divisor": 3}, "n_mbs_divisor=3"),
        ({"sizes": [1], "algorithm": "best"}, "known: ffd, kk"),
    ],
)
def test_refuses(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        partition_sizes(**kwargs)

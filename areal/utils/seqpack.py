"""Partitions of sequence sizes into micro-batches: first-fit decreasing and Karmarkar-Karp.

All functions take sizes (token counts) and return groups of indices; they are pure Python, as
there are a few hundred sizes a step and the partition decides what is copied afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Groups = list[list[int]]

ALGORITHMS = ("ffd", "kk")


def ffd_allocate(values: Sequence[int], capacity: int, min_groups: int = 1) -> Groups:
    """Partition sizes by first-fit decreasing; see ``partition_sizes``."""
    return partition_sizes(values, capacity=capacity, min_groups=min_groups, algorithm="ffd")


def kk_allocate(values: Sequence[int], capacity: int, min_groups: int = 1) -> Groups:
    """Partition sizes by Karmarkar and Karp's method; see ``partition_sizes``."""
    return partition_sizes(values, capacity=capacity, min_groups=min_groups, algorithm="kk")


def partition_sizes(
    sizes: Sequence[int],
    *,
    capacity: int | None = None,
    min_groups: int = 1,
    divisor: int = 1,
    algorithm: str = "ffd",
) -> Groups:
    """Partition sizes into groups that respect a capacity and are about equally heavy.

    A size above the capacity gets a group of its own: a sequence that is too long is trained
    alone rather than lost. Indices ascend within a group and groups by their first index, so that
    the result depends on nothing but the arguments.

    Args:
        sizes: Non-negative sizes, at least one.
        capacity: Upper bound on a group's sum; None for no bound.
        min_groups: At least so many groups, or as many as there are sizes where these are fewer.
        divisor: The number of groups is a multiple of it.
        algorithm: "ffd" (first-fit decreasing) or "kk" (Karmarkar-Karp).

    Raises:
        ValueError: There are no sizes, fewer than the divisor needs, or the algorithm is unknown.
    """
    if not sizes:
        raise ValueError("cannot partition an empty batch")
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ValueError(f"unknown packing_algorithm {algorithm!r}; known: {known}")
    at_least = min(_round_up(min_groups, divisor), len(sizes) // divisor * divisor)
    _check_enough(max(at_least, divisor), len(sizes), divisor)
    partition = _partition_ffd if algorithm == "ffd" else _partition_kk
    is_alone = [capacity is not None and size > capacity for size in sizes]
    groups = [[i] for i, alone in enumerate(is_alone) if alone]
    others = [i for i, alone in enumerate(is_alone) if not alone]
    if others:
        wanted = min(max(at_least - len(groups), 1), len(others))
        parts = partition([sizes[i] for i in others], capacity, wanted)
        groups += [[others[k] for k in part] for part in parts]
    num_groups = _round_up(max(len(groups), at_least), divisor)
    _check_enough(num_groups, len(sizes), divisor)
    return split_groups(groups, sizes, num_groups)


def split_groups(groups: Groups, sizes: Sequence[int], num_groups: int) -> Groups:
    """Halve the heaviest group that can be halved until there are ``num_groups``.

    Halving never makes a group heavier, so a capacity that held still holds.

    Raises:
        ValueError: There are fewer sizes than groups wanted.
    """
    _check_enough(num_groups, sum(map(len, groups)), 1)
    groups = list(groups)
    while len(groups) < num_groups:
        heaviest = max(
            (i for i, g in enumerate(groups) if len(g) > 1),
            key=lambda i: sum(sizes[j] for j in groups[i]),
        )
        members = groups.pop(heaviest)
        halves = balanced_greedy_partition([sizes[j] for j in members], 2)
        groups += [[members[k] for k in half] for half in halves]
    return _ordered(groups)


def karmarkar_karp(sizes: Sequence[int], num_groups: int) -> Groups:
    """Partition sizes into exactly ``num_groups`` groups by the largest differencing method.

    Each partial partition keeps its groups from heaviest to lightest; the two whose spread is
    widest are merged, heaviest onto lightest, until one is left.

    Args:
        sizes: At least as many as groups.
        num_groups: Groups wanted; none is empty.

    Source:
        Karmarkar and Karp, "The differencing method of set partitioning", UCB/CSD 82/113 (1982).
    """
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = []
    for order, size in enumerate(sizes):
        # A size of 0 must still occupy its slot, or a group could end up empty: weigh it 1.
        partition = [(max(size, 1), [order])] + [(0, [])] * (num_groups - 1)
        heap.append((-max(size, 1), order, partition))
    heapq.heapify(heap)
    order = len(heap)
    while len(heap) > 1:
        a, b = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        merged = [(x + y, m + n) for (x, m), (y, n) in zip(a, reversed(b), strict=True)]
        merged.sort(key=lambda group: -group[0])
        heapq.heappush(heap, (merged[-1][0] - merged[0][0], order, merged))
        order += 1
    return _ordered([members for _, members in heap[0][2]])


def balanced_greedy_partition(nums: Sequence[int], num_groups: int) -> Groups:
    """Partition sizes into exactly ``num_groups`` groups of about one weight, and one count.

    The next largest size goes to the lightest group; the group with fewer members wins ties.

    Args:
        nums: At least as many as groups.
        num_groups: Groups wanted; none is empty.

    Raises:
        ValueError: There are fewer sizes than groups wanted.
    """
    _check_enough(num_groups, len(nums), 1)
    heap = [(0, 0, g) for g in range(num_groups)]
    groups: Groups = [[] for _ in range(num_groups)]
    for i in _by_size_descending(nums):
        load, count, g = heapq.heappop(heap)
        groups[g].append(i)
        heapq.heappush(heap, (load + nums[i], count + 1, g))
    return groups


def _partition_ffd(sizes: Sequence[int], capacity: int | None, min_groups: int) -> Groups:
    if capacity is None:
        return balanced_greedy_partition(sizes, min_groups)
    groups: Groups = []
    room: list[int] = []
    for i in _by_size_descending(sizes):
        fit = next((g for g, left in enumerate(room) if sizes[i] <= left), None)
        if fit is None:
            groups.append([i])
            room.append(capacity - sizes[i])
        else:
            groups[fit].append(i)
            room[fit] -= sizes[i]
    return split_groups(groups, sizes, max(len(groups), min_groups))


def _partition_kk(sizes: Sequence[int], capacity: int | None, min_groups: int) -> Groups:
    if capacity is None:
        return karmarkar_karp(sizes, min_groups)
    for num_groups in range(max(min_groups, -(-sum(sizes) // max(capacity, 1))), len(sizes)):
        groups = karmarkar_karp(sizes, num_groups)
        if max(sum(sizes[i] for i in g) for g in groups) <= capacity:
            return groups
    return [[i] for i in range(len(sizes))]


def _by_size_descending(sizes: Sequence[int]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda i: -sizes[i])


def _ordered(groups: Groups) -> Groups:
    return sorted(sorted(g) for g in groups)


def _round_up(n: int, divisor: int) -> int:
    return -(-n // divisor) * divisor


def _check_enough(num_groups: int, num_sizes: int, divisor: int) -> None:
    if num_groups > num_sizes:
        raise ValueError(
            f"cannot make {num_groups} micro-batches (a multiple of "
            f"mb_spec.n_mbs_divisor={divisor}) from {num_sizes} units of sequences"
        )

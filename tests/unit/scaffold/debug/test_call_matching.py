"""The first call in which ranks do not agree."""

from __future__ import annotations

import pytest

from scaffold.debug.matching import first_divergence, line_divergence
from scaffold.debug.records import SET_UP, Group, Place
from tests.unit.scaffold.debug.builders import call, job, waiting

SAME = call(number=1)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("collective", call(number=2), call("broadcast", 2)),
        ("shape", call(number=2), call(number=2, tensors=(("float32", (5,)),))),
        ("dtype", call(number=2), call(number=2, tensors=(("int32", (4,)),))),
        (
            "root",
            call("broadcast", 2, options={"root": 0}),
            call("broadcast", 2, options={"root": 1}),
        ),
        (
            "reduction",
            call(number=2, options={"red": "SUM"}),
            call(number=2, options={"red": "MAX"}),
        ),
    ],
)
def test_what_differs_is_told(kind: str, left: object, right: object) -> None:
    found = first_divergence(job([SAME, left], [SAME, right]))  # type: ignore[list-item]
    assert found is not None
    assert (found.kind, found.number, found.odd) == (kind, 2, (0, 1))


def test_the_same_calls_in_another_order_are_told_as_such() -> None:
    small, large = (("float32", (3,)),), (("float32", (5,)),)
    left = [call(number=1, tensors=small), waiting(number=2, tensors=large)]
    right = [call(number=1, tensors=large), waiting(number=2, tensors=small)]
    found = first_divergence(job(left, right))
    assert found is not None
    assert (found.kind, found.number) == ("order", 1)


def test_most_ranks_are_right() -> None:
    ranks = [[SAME, call(number=2)] for _ in range(4)]
    ranks[2] = [SAME, call("barrier", 2)]
    found = first_divergence(job(*ranks))
    assert found is not None
    assert found.odd == (2,)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # The lists of these may differ between ranks.
        ("all_to_all_single", (("float32", (6,)),)),
        ("all_gather", (("float32", (7,)),)),
        # As many elements in another shape go over the wire alike.
        ("all_reduce", (("float32", (2, 2)),)),
    ],
)
def test_what_may_differ_is_no_fault(left: str, right: tuple[tuple[str, tuple[int, ...]]]) -> None:
    assert first_divergence(job([call(left)], [call(left, tensors=right)])) is None


def test_a_rank_that_is_behind_has_not_parted() -> None:
    assert first_divergence(job([SAME, waiting(number=2)], [SAME])) is None


def test_groups_are_looked_at_apart() -> None:
    group = Group("1", (0, 1))
    left = [call(number=1, group="1", entered_s=7.0), call(number=1, entered_s=8.0)]
    right = [call("barrier", 1, group="1", entered_s=7.5), call("barrier", 1, entered_s=8.0)]
    found = first_divergence(job(left, right, groups=(group,)))
    assert found is not None
    assert found.group == "1", "the earlier one"


def test_ranks_that_make_other_groups_are_told() -> None:
    left = [call("new_group", 1, group=SET_UP, tensors=(), options={"ranks": [0, 1]})]
    right = [call("new_group", 1, group=SET_UP, tensors=(), options={"ranks": [0]})]
    found = first_divergence(job(left, right))
    assert found is not None
    assert found.kind == "groups"


def test_of_a_call_of_c_no_options_are_known() -> None:
    native = call(number=1, is_native=True)
    assert first_divergence(job([native], [call(options={"red": "SUM"})])) is None


def test_a_call_of_c_where_others_call_from_python_is_another_call() -> None:
    found = first_divergence(job([call(is_native=True)], [call(tensors=(("float32", ()),))]))
    assert found is not None
    assert found.kind == "collective"


def test_calls_from_other_lines_are_evidence_and_no_fault() -> None:
    other = call(at=(Place("train.py", 99, "step"),))
    found = line_divergence(job([SAME], [other]), "0")
    assert found is not None
    assert found.number == 1
    assert first_divergence(job([SAME], [other])) is None

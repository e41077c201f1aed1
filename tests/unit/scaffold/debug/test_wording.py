"""Calls, ranks and ends in words."""

from __future__ import annotations

import pytest

from scaffold.debug.records import SET_UP, Group
from scaffold.debug.wording import call_text, end_text, group_text, ranks_text, status_text
from tests.unit.scaffold.debug.builders import call, failure, process


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((1,), "rank 1"),
        ((0, 1), "ranks 0-1"),
        ((5, 0, 2, 3, 4), "ranks 0, 2-5"),
        ((), "ranks unknown"),
    ],
)
def test_ranks(ranks: tuple[int, ...], text: str) -> None:
    assert ranks_text(ranks) == text


@pytest.mark.parametrize(
    ("status", "orderly", "text"),
    [
        (0, True, "exited with status 0"),
        (3, False, "exited with status 3"),
        (-9, False, "was killed by SIGKILL"),
        (-99, False, "was killed by signal 99"),
        (None, True, "came to its end"),
        (None, False, "ended without a message, killed or by os._exit"),
    ],
)
def test_how_a_process_ended(status: int | None, orderly: bool, text: str) -> None:
    assert status_text(status, orderly) == text


def test_an_exception_is_told_without_the_line_of_c_that_raised_it() -> None:
    lost = failure("RuntimeError", "[/src/gloo/tcp/pair.cc:553] Connection closed\nmore")
    assert end_text(process(0, [], failure=lost)) == "RuntimeError: Connection closed"
    assert end_text(process(0, [], failure=failure("KeyError", ""))) == "KeyError"
    long = failure("ValueError", "x" * 999)
    assert len(end_text(process(0, [], failure=long))) == 200


def test_a_call_says_what_users_know_of_it() -> None:
    assert call_text(call(options={"red": "SUM"})) == "all_reduce SUM float32[4]"
    inner = call("broadcast", via="broadcast_object_list", options={"root": 0})
    assert call_text(inner) == "broadcast (in broadcast_object_list) root 0 float32[4]"
    assert call_text(call("send", peer=1, tag=7)) == "send to rank 1 tag 7 float32[4]"
    assert call_text(call(is_native=True)) == "all_reduce of C++ float32[4]"
    made = call("new_group", group=SET_UP, tensors=(), options={"ranks": [0, 1]})
    assert call_text(made) == "new_group ranks=[0, 1]"


def test_a_group_goes_by_what_people_called_it() -> None:
    assert group_text(Group("0", (0, 1), "default_pg")) == "the default group (ranks 0-1)"
    assert group_text(Group("3", (0, 2), "mesh_tp")) == "group mesh_tp (ranks 0, 2)"
    assert group_text(Group("3", (0, 2), "undefined")) == "group 3 (ranks 0, 2)"

"""Whom ranks wait for."""

from __future__ import annotations

from scaffold.debug.matching import blamed, cycle, open_call, waits
from scaffold.debug.records import Group
from tests.unit.scaffold.debug.builders import call, job, process, waiting


def test_who_waits_is_told_with_those_who_have_not_come() -> None:
    found = waits(job([waiting(number=2)], [call(number=1)], [waiting(number=2)]))
    assert {rank: wait.for_ranks for rank, wait in found.items()} == {0: (1,), 2: (1,)}
    assert blamed(found) == (1,)
    assert cycle(found) == ()


def test_ranks_that_all_came_wait_for_nobody() -> None:
    found = waits(job([waiting()], [waiting()]))
    assert blamed(found) == ()
    assert cycle(found) == ()


def test_groups_in_another_order_are_a_ring() -> None:
    groups = (Group("1", (0, 1)), Group("2", (0, 1)))
    found = waits(job([waiting(group="1")], [waiting(group="2")], groups=groups))
    assert set(cycle(found)) == {0, 1}
    assert blamed(found) == ()


def test_the_blame_goes_to_the_end_of_the_chain() -> None:
    pair = Group("1", (1, 2))
    found = waits(job([waiting(number=2)], [waiting(group="1")], [call()], groups=(pair,)))
    assert blamed(found) == (2,)


def test_a_message_waits_for_its_partner() -> None:
    receive = waiting("recv", 0, peer=1, nth=1)
    found = waits(job([receive], [call()]))
    assert found[0].for_ranks == (1,)
    sent = call("send", 0, peer=0, nth=1)
    assert waits(job([receive], [sent]))[0].for_ranks == ()


def test_a_second_message_needs_a_second_partner() -> None:
    first = call("recv", 0, peer=1, id=8, nth=1)
    second = waiting("recv", 0, peer=1, id=9, nth=2)
    sent = call("send", 0, peer=0, nth=1)
    assert waits(job([first, second], [sent]))[0].for_ranks == (1,)


def test_another_tag_is_another_message() -> None:
    receive = waiting("recv", 0, peer=1, tag=3, nth=1)
    assert waits(job([receive], [call("send", 0, peer=0, tag=4, nth=1)]))[0].for_ranks == (1,)


def test_peers_are_numbered_in_their_group() -> None:
    pair = Group("1", (1, 2))
    receive = waiting("recv", 0, peer=1, group="1")
    assert waits(job([], [receive], [], groups=(pair,)))[1].for_ranks == (2,)


def test_the_call_of_the_main_thread_counts_first() -> None:
    side = waiting(number=1, thread="loader", since_s=1.0)
    main = waiting(number=2, since_s=5.0)
    assert open_call(process(0, [side, main])) is main
    assert open_call(process(0, [side])) is side
    assert open_call(process(0, [call()])) is None

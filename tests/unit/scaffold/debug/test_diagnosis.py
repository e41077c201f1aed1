"""The verdict about a job, from what its ranks recorded."""

from __future__ import annotations

import pytest

from scaffold.debug.diagnosis import KINDS, diagnose, is_definite
from scaffold.debug.records import SET_UP, Call, Group, Job, Place
from scaffold.debug.stacks import Stack
from tests.unit.scaffold.debug.builders import call, failure, job, process, snapshot, waiting

LOST = "Connection closed by peer [127.0.0.1]:1"


def kind_of(*args: object, **fields: object) -> tuple[str, tuple[int, ...]]:
    found = diagnose(snapshot(*args, **fields))  # type: ignore[arg-type]
    assert found is not None
    assert found.kind in KINDS
    return found.kind, found.ranks


def test_a_sound_job_has_no_verdict() -> None:
    assert diagnose(snapshot(job([call()], [call()]), alive=(), status=0)) is None


def test_a_finished_job_whose_ranks_disagree_has_one() -> None:
    wrong = call(tensors=(("int32", (4,)),))
    assert kind_of(job([call()], [wrong]), alive=(), status=0) == ("dtype", (0, 1))


@pytest.mark.parametrize(
    "right",
    [
        [call("broadcast"), call(number=2)],
        [call(), call(number=2, is_native=True, tensors=(("float32", (9,)),))],
    ],
    ids=["other calls", "counted by two recorders"],
)
def test_a_job_that_ended_well_refutes_a_difference_of_order(right: list[Call]) -> None:
    left = [call(), call("broadcast", number=2)]
    assert diagnose(snapshot(job(left, right), alive=(), status=0)) is None
    assert diagnose(snapshot(job(left, right), alive=(), status=1)) is not None


def test_an_abort_in_a_call_is_laid_to_the_rank_that_did_not_come() -> None:
    """A backend aborts where the bytes of another call come in; the launcher ends the others."""
    mean = waiting(number=2, tensors=(("float32", ()),))
    broken = job([call(), mean], [call()], [call(), mean])
    broken.ranks[0].status, broken.ranks[1].status, broken.ranks[2].status = -6, -15, -15
    stack = Stack("main", True, (Place("train.py", 6, "backward"),))

    found = diagnose(snapshot(broken, alive=(), status=1, stacks={101: (stack,)}))

    assert found is not None
    assert (found.kind, found.ranks) == ("outside", (1,))
    assert "was elsewhere when the job was ended, at train.py:6 backward; ranks 0, 2 wait" in (
        found.text
    )


def test_a_rank_outside_of_communication_is_shown_with_its_line() -> None:
    stuck = job([waiting(number=2)], [call()])
    stack = Stack("main", True, (Place("/lib/python3.11/site-packages/x.py", 3, "read"),
                                 Place("data.py", 7, "load")))  # fmt: skip
    found = diagnose(snapshot(stuck, stacks={101: (stack,)}))
    assert found is not None
    assert (found.kind, found.ranks) == ("outside", (1,))
    assert "at data.py:7 load" in found.text
    assert "call 2 of the default group (ranks 0-1)" in found.text


def test_a_rank_that_left_is_the_cause_though_its_launcher_ended_it() -> None:
    """A slow end after `sys.exit`: others fail meanwhile, and SIGTERM reaches it on its way out."""
    left = job([waiting(number=2)], [call()])
    left.ranks[0].failure = failure("RuntimeError", "Connection closed by peer")
    left.ranks[1].ended_s, left.ranks[1].status = 3.0, -15
    found = diagnose(snapshot(left, alive=(), status=1))
    assert found is not None
    assert (found.kind, found.ranks) == ("exited", (1,))
    assert found.text.startswith("rank 1 came to its end, and rank 0 waits for it in all_reduce")


def test_a_rank_that_ended_while_others_wait() -> None:
    ended = job([waiting(number=2)], [call()])
    ended.ranks[1].ended_s, ended.ranks[1].status = 3.0, 0
    assert kind_of(ended, alive={0}) == ("exited", (1,))
    assert is_definite(snapshot(ended, alive={0}))


def test_the_first_failure_counts_and_not_what_follows_from_it() -> None:
    broken = job([call(number=2, state="failed")], [call()])
    broken.ranks[0].failure = failure("RuntimeError", LOST, at_s=2.0)
    broken.ranks[1].failure = failure("ValueError", "no such sample", at_s=9.0)
    found = diagnose(snapshot(broken, alive=(), status=1))
    assert found is not None
    assert (found.kind, found.ranks) == ("exited", (1,))
    assert "train.py:20 load: ValueError: no such sample" in found.text


def test_a_failure_that_nobody_waits_for() -> None:
    broken = job([call()], [call()])
    broken.ranks[0].failure = failure("KeyError", "'x'")
    assert kind_of(broken, alive=(), status=1) == ("failed", (0,))


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB"),
        (
            "RuntimeError",
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        ),
        ("MemoryError", ""),
    ],
)
def test_a_rank_that_ran_out_of_memory(type: str, message: str) -> None:
    broken = job([call(number=2, state="failed")], [call()])
    broken.ranks[0].failure = failure("RuntimeError", LOST)
    broken.ranks[1].failure = failure(type, message)
    assert kind_of(broken, alive=(), status=1) == ("memory", (1,))


def test_a_killed_rank_is_told_by_its_signal() -> None:
    killed = job([call(number=2, state="failed")], [call()])
    killed.ranks[0].failure = failure("RuntimeError", LOST)
    killed.ranks[1].status = -9
    found = diagnose(snapshot(killed, alive=(), status=1))
    assert found is not None
    assert (found.kind, found.ranks) == ("exited", (1,))
    assert "was killed by SIGKILL" in found.text


def test_another_call_while_an_error_is_handled_is_laid_to_the_error() -> None:
    barrier = waiting("barrier", 2, during="KeyError: 'w'", during_at=Place("a.py", 3, "f"))
    found = diagnose(snapshot(job([waiting(number=2)], [barrier])))
    assert found is not None
    assert (found.kind, found.ranks) == ("exited", (1,))
    assert "failed at a.py:3 f: KeyError: 'w'" in found.text


def test_a_rank_that_never_joined() -> None:
    joining = waiting("init_process_group", 1, group=SET_UP, tensors=())
    alone = Job(2, {0: process(0, [joining], joined=None)}, [])
    assert kind_of(alone, alive={0}) == ("absent", (1,))
    there = Job(2, {**alone.ranks, 1: process(1, [], joined=None)}, [])
    assert kind_of(there, alive={0, 1}) == ("absent", (1,))


def test_ranks_that_receive_from_each_other() -> None:
    both = job([waiting("recv", 0, peer=1, nth=1)], [waiting("recv", 0, peer=0, nth=1)])
    assert kind_of(both) == ("peer", (0, 1))
    assert is_definite(snapshot(both))


def test_ranks_in_groups_of_another_order() -> None:
    groups = (Group("1", (0, 1)), Group("2", (0, 1)))
    ring = job([waiting(group="1")], [waiting(group="2")], groups=groups)
    assert kind_of(ring)[0] == "groups"


def test_a_call_that_all_came_to() -> None:
    assert kind_of(job([waiting()], [waiting()])) == ("stalled", (0, 1))
    assert not is_definite(snapshot(job([waiting()], [waiting()])))


def test_a_slow_rank_may_still_come() -> None:
    assert not is_definite(snapshot(job([waiting(number=2)], [call()])))


def test_a_job_that_failed_before_its_ranks() -> None:
    assert kind_of(Job(0, {}, []), alive=(), status=2) == ("job", ())


def test_a_job_that_was_stopped() -> None:
    assert kind_of(job([call()], [call()]), interrupted=True) == ("interrupted", ())
    stuck = job([waiting(number=2)], [call()])
    assert kind_of(stuck, interrupted=True) == ("outside", (1,))


def test_the_skipped_call_is_pointed_to() -> None:
    line = (Place("train.py", 11, "step"),)
    left = [call(number=1), call(number=2, at=line), waiting(number=3)]
    right = [call(number=1), call(number=2)]
    found = diagnose(snapshot(job(left, right)))
    assert found is not None
    assert any("call 2 is the first that ranks make from different lines" in each
               for each in found.notes)  # fmt: skip


def test_who_was_ended_because_another_timed_out_is_the_one_that_was_waited_for() -> None:
    late = job([call(number=2, state="failed")], [call()])
    late.ranks[0].failure = failure("RuntimeError", "Timed out waiting 4000ms for recv operation")
    late.ranks[1].status = -15
    stack = Stack("main", True, (Place("data.py", 7, "load"),))
    found = diagnose(snapshot(late, alive=(), status=1, stacks={101: (stack,)}))
    assert found is not None
    assert (found.kind, found.ranks) == ("outside", (1,))
    assert "at data.py:7 load" in found.text

"""What a stack waits in, and what the stacks of all ranks say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.debug.attach import Look, conclude
from scaffold.debug.records import Place
from scaffold.debug.stacks import Waiting, waiting_in

SITE = "/v/lib/python3.11/site-packages/torch"
OWN = Place("/app/train.py", 12, "step")
GROUPS = f"{SITE}/distributed/distributed_c10d.py"


@pytest.mark.parametrize(
    ("inner", "kind", "words"),
    [
        ([Place(GROUPS, 3252, "all_reduce")], "collective", "all_reduce"),
        (
            [Place(GROUPS, 9, "_store_based_barrier"), Place(GROUPS, 1800, "init_process_group")],
            "collective",
            "init_process_group",
        ),
        ([Place(f"{SITE}/autograd/graph.py", 824, "_engine_run_backward")], "backward", "backward"),
        ([Place(f"{SITE}/cuda/__init__.py", 950, "synchronize")], "device", "wait for the device"),
        ([Place(f"{SITE}/utils/data/dataloader.py", 7, "_try_get_data")], "data", "DataLoader"),
        ([Place("/v/lib/python3.11/threading.py", 3, "wait")], "", "in wait"),
        ([], "", "in its own code"),
    ],
)
def test_the_frame_that_counts_is_below_the_programs_own_line(
    inner: list[Place], kind: str, words: str
) -> None:
    above = Place(f"{SITE}/distributed/run.py", 5, "main")
    found = waiting_in([*inner, OWN, above])
    assert (found.kind, found.place) == (kind, OWN)
    assert words in found.words


def test_a_line_that_waits_in_cpp_is_read(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("work.wait()\nloss.item()\nx = loss + 1\n")
    kinds = [waiting_in([Place(str(program), line, "step")]).kind for line in (1, 2, 3)]
    assert kinds == ["handle", "device", ""]


def look(kind: str, line: int = 1, *, moved: bool = False, words: str = "all_reduce") -> Look:
    return Look((), Waiting(kind, words, Place("/app/train.py", line, "step")), moved)


def test_no_verdict_while_any_rank_goes_on() -> None:
    verdict, notes = conclude({0: look("collective"), 1: look("", 9, moved=True)}, ())
    assert verdict is None
    assert "rank 0 waits in all_reduce at /app/train.py:1 step, while rank 1 moved" in notes[0]
    assert conclude({0: look("", 3), 1: look("", 3)}, ())[0] is None, "nobody waits"


def test_who_stands_elsewhere_is_named() -> None:
    looks = {0: look("collective"), 1: look("", 9, words="in write"), 2: look("collective")}
    verdict, _ = conclude(looks, ())
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("outside", (1,))
    looks[1] = look("collective", 7, words="broadcast")
    verdict, _ = conclude(looks, ())
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("collective", (1,))


def test_ranks_that_were_not_seen_are_said_to_be() -> None:
    verdict, _ = conclude({0: look("collective"), 1: look("collective")}, (2, 3))
    assert verdict is not None
    assert verdict.kind == "stalled"
    assert "ranks 2-3 were not seen" in verdict.text

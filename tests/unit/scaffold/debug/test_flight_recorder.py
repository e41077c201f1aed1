"""What torch's flight recorder adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scaffold.debug.flight_recorder import add_native_calls
from scaffold.debug.records import Job, Place
from scaffold.debug.stacks import Stack
from tests.unit.scaffold.debug.builders import call, job, waiting


def entry(number: int, at_s: float, **fields: Any) -> dict[str, Any]:
    return {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "profiling_name": "gloo:all_reduce",
        "input_dtypes": ["Float"],
        "input_sizes": [[12]],
        "time_created_ns": int(at_s * 1e9),
        "retired": True,
        **fields,
    }


def fly(folder: Path, job: Job, rank: int, *entries: dict[str, Any]) -> None:
    (folder / f"{job.ranks[rank].pid}.flight.json").write_text(json.dumps(entries))


def test_calls_that_only_torch_saw_take_their_place(tmp_path: Path) -> None:
    first = call(number=1, issued_s=1.002)
    made = job([first, call(number=2, entered_s=9.0, issued_s=9.0)], [first])
    for rank in (0, 1):
        fly(tmp_path, made, rank, entry(1, 1.001), entry(2, 5.0))
    add_native_calls(made, tmp_path, {})
    assert [(each.number, each.is_native) for each in made.ranks[0].calls] == [
        (1, False),
        (2, True),
        (3, False),
    ]


def test_a_call_of_c_shortly_before_one_of_python_is_another_one(tmp_path: Path) -> None:
    """DDP reduces its last bucket milliseconds before the program reduces the loss."""
    made = job([call(entered_s=1.0, issued_s=1.001)])
    fly(tmp_path, made, 0, entry(1, 0.997), entry(2, 1.0005), entry(3, 1.004))

    add_native_calls(made, tmp_path, {})

    assert [each.is_native for each in made.ranks[0].calls] == [True, False, True]


def test_an_open_call_of_c_is_shown_at_the_line_that_led_there(tmp_path: Path) -> None:
    made = job([call()], [call()])
    fly(tmp_path, made, 0, entry(1, 1.0), entry(2, 5.0, retired=False))
    fly(tmp_path, made, 1, entry(1, 1.0))
    stack = Stack("main", True, (Place("train.py", 30, "backward"),))
    add_native_calls(made, tmp_path, {100: (stack,)})
    last = made.ranks[0].calls[-1]
    assert last.is_open
    assert last.at == (Place("train.py", 30, "backward"),)
    assert len(made.ranks[1].calls) == 1


def test_a_killed_rank_is_taken_to_have_made_what_ended_elsewhere(tmp_path: Path) -> None:
    late = waiting(number=2, entered_s=8.0, tensors=(("float32", (4,)),))
    made = job([call()], [call(), late])
    fly(tmp_path, made, 0, entry(1, 1.0), entry(2, 5.0), entry(3, 7.0, retired=False))
    add_native_calls(made, tmp_path, {})
    assert [each.number for each in made.ranks[1].calls] == [1, 2, 3]
    assert made.ranks[1].calls[-1].tensors == (("float32", (4,)),)


def test_a_broken_word_is_none(tmp_path: Path) -> None:
    made = job([call()], [call()])
    (tmp_path / "100.flight.json").write_text("[{")
    add_native_calls(made, tmp_path, {})
    assert [len(process.calls) for process in made.ranks.values()] == [1, 1]

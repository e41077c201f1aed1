"""Records as processes leave them: whole, cut short, begun anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scaffold.debug.records import Records, read_job


def write(file: Path, *rows: dict[str, Any], end: str = "\n") -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n".join(json.dumps(row) for row in rows) + end)


def head(folder: Path, pid: int, rank: int, *rows: dict[str, Any], restart: int = 0) -> None:
    env = {"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": str(restart)}
    first = {"kind": "process", "pid": pid, "parent": 1, "env": env, "t": float(pid)}
    write(folder / f"{pid}.head.jsonl", first, *rows)


ENTER = {"e": "+", "i": 1, "g": "0", "op": "all_reduce", "n": 1, "in": [["float32", [2, 3]]]}


def test_a_call_goes_through_its_states(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    calls = tmp_path / "7.calls.0.jsonl"
    records = Records(tmp_path)
    for step, state in (("+", "entering"), ("-", "issued"), ("w", "waiting"), ("W", "done")):
        row = {**ENTER, "t": 2.0} if step == "+" else {"e": step, "i": 1, "t": 3.0}
        write(calls, row)
        records.update()
        (call,) = records.job().ranks[0].calls
        assert call.state == state
    assert call.elements == (("float32", 6),)


def test_a_line_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    calls = tmp_path / "7.calls.0.jsonl"
    text = json.dumps({**ENTER, "t": 2.0})
    calls.write_text(text[:20])
    records = Records(tmp_path)
    records.update()
    assert records.job().ranks[0].calls == []
    with calls.open("a") as stream:
        stream.write(text[20:] + "\n")
    records.update()
    assert len(records.job().ranks[0].calls) == 1


def test_broken_lines_are_left_out(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    stray = b'{"t":1.0}\n{"t":1.0,"kind":"group"}\n{"t":1.0,"e":"-"}\n'
    (tmp_path / "7.calls.0.jsonl").write_bytes(b'{"e":"+",\xff\n[1]\n\n' + stray)
    assert read_job(tmp_path).ranks[0].calls == []


def test_a_segment_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    calls = tmp_path / "7.calls.0.jsonl"
    write(calls, {**ENTER, "t": 2.0}, {"e": "W", "i": 1, "t": 2.1})
    records = Records(tmp_path)
    records.update()
    calls.write_text("")
    records.update()
    write(calls, {**ENTER, "i": 2, "n": 2, "t": 3.0})
    records.update()
    assert [call.number for call in records.job().ranks[0].calls] == [1, 2]


def test_of_several_starts_the_last_one_counts(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    head(tmp_path, 9, 0, restart=1)
    assert read_job(tmp_path).ranks[0].pid == 9


def test_who_joins_is_the_rank_and_not_a_child_with_its_variables(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    head(tmp_path, 8, 0, {"kind": "joined", "rank": 0, "world": 2, "t": 9.0})
    job = read_job(tmp_path)
    assert job.ranks[0].pid == 8
    assert [other.pid for other in job.others] == [7]
    assert job.missing == [1]


def test_the_parent_tells_how_a_child_ended(tmp_path: Path) -> None:
    head(tmp_path, 7, 0)
    launcher = {"kind": "process", "pid": 1, "env": {}, "t": 0.0}
    write(tmp_path / "1.head.jsonl", launcher, {"kind": "child", "pid": 7, "status": -9, "t": 5.0})
    assert read_job(tmp_path).ranks[0].status == -9


def test_an_exception_is_kept_with_its_frames(tmp_path: Path) -> None:
    row = {"kind": "exception", "type": "ValueError", "message": "no", "frames": [["a.py", 3, "f"]]}
    head(tmp_path, 7, 0, {**row, "t": 4.0}, {"kind": "end", "t": 5.0})
    process = read_job(tmp_path).ranks[0]
    assert process.failure is not None
    assert process.failure.frames[0].line == 3
    assert process.ended_s == 5.0

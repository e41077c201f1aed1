"""The dumps of torch's flight recorder, matched by collective."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from scaffold.debug.flight import read_flights
from scaffold.errors import RequestError
from scaffold.report import Report

FRAMES = [
    {"name": "all_reduce", "filename": "/lib/python3.11/site-packages/torch/x.py", "line": 9},
    {"name": "step", "filename": "train.py", "line": 30},
]


def entry(number: int, op: str = "all_reduce", size: int = 4, **fields: Any) -> dict[str, Any]:
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "profiling_name": f"nccl:{op}",
        "input_dtypes": ["BFloat16"],
        "input_sizes": [[size]],
        "time_created_ns": number * 10**9,
        "state": "completed",
        "frames": FRAMES,
        "is_p2p": False,
        **fields,
    }


def write(folder: Path, rank: int, *entries: dict[str, Any], world: int = 3) -> None:
    ranks = str(list(range(world)))
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    dump = {"version": "2.10", "pg_config": config, "entries": list(entries)}
    folder.mkdir(exist_ok=True)
    (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))


def read(*places: Path) -> Report:
    return read_flights([str(each) for each in places], Path.cwd())


def test_a_rank_with_another_call_of_one_number_is_named(tmp_path: Path) -> None:
    """Numbers decide and not clocks: the machine of the last rank is an hour ahead."""
    late = 3600 * 10**9
    for rank in (0, 1):
        write(tmp_path / "one", rank, entry(1), entry(2, state="started"))
    odd = entry(2, size=8, state="started", time_created_ns=late)
    write(tmp_path / "other", 2, entry(1, time_created_ns=late), odd)

    found = read(tmp_path / "one", tmp_path / "other")

    assert not found.ok
    verdict = found.extra["debug"]["verdict"]
    assert (verdict["kind"], verdict["ranks"]) == ("shape", [2])
    assert "bfloat16[8] at train.py:30 step" in verdict["text"]


def test_who_did_not_come_is_named_with_the_line_of_those_who_wait(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path, rank, entry(1), entry(2, state="scheduled"))
    write(tmp_path, 2, entry(1))
    verdict = read(tmp_path).extra["debug"]["verdict"]
    assert (verdict["kind"], verdict["ranks"]) == ("outside", [2])
    assert "ranks 0-1 wait for it in all_reduce bfloat16[4], call 2" in verdict["text"]


def test_a_rank_whose_dump_is_missing_is_not_called_absent(tmp_path: Path) -> None:
    write(tmp_path, 0, entry(1), entry(2, state="started"))
    write(tmp_path, 1, entry(1), entry(2, state="started"))
    verdict = read(tmp_path).extra["debug"]["verdict"]
    assert verdict["ranks"] == [2]
    assert verdict["text"].startswith("rank 2 left no dump here; ranks 0-1 wait for it in")


def test_ranks_that_agree_have_no_verdict(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, entry(1), entry(1, "send", is_p2p=True), entry(2))
    found = read(tmp_path)
    assert found.ok
    assert found.text == "ok         3 ranks agree in what they recorded, up to 2 calls\n"


class Runs:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (eval, ("open('ran', 'w')",))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps({"entries": [Runs()]}), "it names builtins.eval, which no dump does"),
        (b"\x80\x04nonsense", "is no dump of torch's flight recorder"),
        (pickle.dumps([1]), "it has no entries"),
        (b"{", "is no dump of torch's flight recorder"),
    ],
    ids=["code", "damaged", "another thing", "half of JSON"],
)
def test_what_is_no_dump_is_refused_and_not_run(
    data: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace_0").write_bytes(data)
    with pytest.raises(RequestError, match=words):
        read(tmp_path / "trace_0")
    assert not (tmp_path / "ran").exists()


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "one", 0, entry(1))
    write(tmp_path / "other", 0, entry(1))
    with pytest.raises(RequestError, match="are both of rank 0"):
        read(tmp_path / "one", tmp_path / "other")
    with pytest.raises(RequestError, match="holds no file whose name ends in a rank"):
        read(tmp_path)

"""The first tensor in which two runs part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scaffold.debug.checksums import Checksum, whole
from scaffold.debug.compare import compare_runs, difference
from scaffold.errors import RequestError


def row(phase: str, name: str, checksum: int = 1, **fields: Any) -> dict[str, Any]:
    given = {"step": 0, "phase": phase, "name": name, "part": "", "n": 1, "dtype": "float32"}
    numbers = {"norm": 4.0, "largest": 2.0, "total": 0.0, "nan": 0, "inf": 0, "samples": [1.0]}
    return {**given, "shape": [4], "sum": checksum, **numbers, **fields}


def record(folder: Path, *ranks: list[dict[str, Any]]) -> str:
    folder.mkdir()
    for rank, rows in enumerate(ranks):
        pid, env = 50 + rank, {"RANK": str(rank), "WORLD_SIZE": str(len(ranks))}
        head = {"kind": "process", "pid": pid, "env": env, "t": 1.0}
        (folder / f"{pid}.head.jsonl").write_text(json.dumps(head) + "\n")
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (folder / f"{pid}.sums.jsonl").write_text(text)
    return str(folder)


def compare(*records: str, **fields: Any) -> Any:
    return compare_runs(records, **fields)


GOOD = [row("forward", "m.a"), row("forward", "m.b"), row("gradient", "m.a.w")]


def test_runs_that_agree(tmp_path: Path) -> None:
    report = compare(record(tmp_path / "a", GOOD), record(tmp_path / "b", GOOD))
    assert report.ok
    assert report.extra["debug"]["agree"] == 3


def test_a_step_that_only_one_run_has_is_named(tmp_path: Path) -> None:
    longer = [*GOOD, row("forward", "m.a", step=1), row("forward", "m.b", step=1)]
    runs = [record(tmp_path / "short", GOOD), record(tmp_path / "long", longer)]
    for order in (runs, runs[::-1]):
        told = compare(*order).text.splitlines()
        assert told == [
            "ok         3 tensors agree bit by bit (2 only on one side)",
            f"alone      m.a, forward, step 1 is the first that only {runs[1]} rank 0 has",
        ]


def test_the_first_in_the_order_of_execution_is_named(tmp_path: Path) -> None:
    bad = [GOOD[0], row("forward", "m.b", 2), row("gradient", "m.a.w", 2)]
    report = compare(record(tmp_path / "a", GOOD), record(tmp_path / "b", bad))
    assert not report.ok
    assert report.extra["debug"]["first"]["name"] == "m.b"
    assert "m.b, forward, step 0 is the first that differs: values" in report.text
    assert len(report.extra["debug"]["differences"]) == 2


def test_gradients_come_in_the_order_of_the_backward_pass(tmp_path: Path) -> None:
    forward = [row("forward", "m.a"), row("forward", "m.b")]
    good = [*forward, row("gradient", "m.a.w"), row("gradient", "m.b.w")]
    bad = [*forward, row("gradient", "m.a.w", 2), row("gradient", "m.b.w", 2)]
    report = compare(record(tmp_path / "a", good), record(tmp_path / "b", bad))
    assert report.extra["debug"]["first"]["name"] == "m.b.w"


def test_ranks_of_one_run(tmp_path: Path) -> None:
    folder = record(tmp_path / "a", GOOD, [GOOD[0], GOOD[1], row("gradient", "m.a.w", 9)])
    assert compare(folder, ranks="0,1").extra["debug"]["first"]["phase"] == "gradient"
    assert compare(folder, ranks="0,1", phases=("forward",)).ok


def placed(checksum: int, offset: int, copy: bool = True) -> dict[str, Any]:
    said = {"placements": ["S(0)"], "partial": False, "counts": copy, "offset": [offset]}
    return row("start", "m.w", checksum, norm=2.0, placed=said)


def test_shards_are_put_together(tmp_path: Path) -> None:
    plain = record(tmp_path / "a", [row("start", "m.w", 7)])
    sharded = record(tmp_path / "b", [placed(3, 0)], [placed(4, 2)])
    assert compare(plain, sharded).ok
    wrong = record(tmp_path / "c", [placed(3, 0)], [placed(5, 2)])
    assert not compare(plain, wrong).ok


def test_copies_of_a_shard_count_once() -> None:
    each = Checksum("float32", (4,), 5, 1.0, 1.0, 0.0, 0, 0, placements=("R",))
    copy = Checksum(**{**each.__dict__, "counts": False})
    joined = whole({0: {("k"): each}, 1: {("k"): copy}})  # type: ignore[dict-item]
    assert {one.checksum for sums in joined.values() for one in sums.values()} == {5}


def test_partial_sums_are_left_undecided(tmp_path: Path) -> None:
    said = {"placements": ["P(sum)"], "partial": True, "counts": True, "offset": [0]}
    folder = record(tmp_path / "a", [GOOD[0], row("forward", "m.p", placed=said)])
    report = compare(folder, record(tmp_path / "b", GOOD))
    assert (report.ok, report.extra["debug"]["undecided"], report.extra["debug"]["alone"]) == (
        True,
        0,
        3,
    )


@pytest.mark.parametrize(
    ("fields", "rtol", "why"),
    [
        ({}, 0, ""),
        ({"checksum": 2}, 0, "values"),
        ({"checksum": 2}, 1e-6, ""),
        ({"shape": (5,)}, 1e-3, "shape"),
        ({"nan": 1}, 1e-3, "nan"),
        ({"dtype": "bfloat16"}, 0, "dtype"),
        ({"dtype": "bfloat16"}, 1e-2, ""),
        ({"norm": 4.1}, 1e-3, "norm"),
        ({"largest": 2.1}, 1e-3, "largest"),
        ({"total": 1.0}, 1e-3, "sum"),
        ({"samples": (1.5,)}, 1e-3, "samples"),
        ({"samples": (1.0001,), "checksum": 2}, 1e-3, ""),
        ({"checksum": None}, 0, ""),
    ],
)
def test_how_two_tensors_differ(fields: dict[str, Any], rtol: float, why: str) -> None:
    left = Checksum("float32", (4,), 1, 4.0, 2.0, 0.0, 0, 0, (1.0,))
    assert difference(left, Checksum(**{**left.__dict__, **fields}), rtol) == why


@pytest.mark.parametrize("records", [(), ("a", "b", "c")])
def test_records_are_two_or_one(records: tuple[str, ...]) -> None:
    with pytest.raises(RequestError):
        compare(*records)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    good = record(tmp_path / "a", GOOD)
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "5.sums.jsonl").write_text('{"step": 1}\n')
    for other in ("nowhere", "empty", "odd"):
        with pytest.raises(RequestError) as caught:
            compare(good, str(tmp_path / other))
        assert caught.value.code == "record_invalid"
    for ranks in ("0,7", "7"):
        with pytest.raises(RequestError):
            compare(good, good, ranks=ranks)
    with pytest.raises(RequestError):
        compare(good, ranks="one")
    with pytest.raises(RequestError):
        compare(good)
    with pytest.raises(RequestError, match="no tensor in common"):
        compare(good, record(tmp_path / "b", [row("forward", "other")]))

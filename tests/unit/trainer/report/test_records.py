from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from areal.trainer.report.records import (
    EpisodeSample,
    JsonLines,
    episode_row,
    keep_rows,
    plain_stats,
    read_rows,
    set_aside,
    write_json,
)


class Scalar:
    """Is a number of some library: it converts to float and is not a Python number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


def test_plain_stats_keeps_ints_converts_scalars_and_blanks_what_is_not_finite():
    stats = {"rows": 16, "loss": Scalar(0.1), "kl": math.nan, "norm": -math.inf}
    assert plain_stats(stats) == {"rows": 16, "loss": 0.1, "kl": None, "norm": None}


def test_floats_survive_the_file_bit_for_bit(tmp_path: Path):
    value = 0.1 + 0.2 / 3
    writer = JsonLines(tmp_path / "stats.jsonl")
    writer.append([{"loss": value}])
    assert read_rows(writer.path)[0]["loss"] == value
    writer.close()


@pytest.mark.parametrize(
    "text", ["plain", "größer 数学 🙂", "a\nb\u2028c\x00", "lone \udc80 surrogate", ""]
)
def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str):
    sample = EpisodeSample(3, "row-1", text, text, 1.0, 2, "stop", text)
    writer = JsonLines(tmp_path / "episodes.jsonl")
    writer.append([episode_row(sample)])
    writer.close()
    (row,) = read_rows(writer.path)
    assert (row["prompt"], row["completion"], row["answer"]) == (text, text, text)


def test_a_killed_process_loses_no_row_that_was_appended(tmp_path: Path):
    path = tmp_path / "stats.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from areal.trainer.report.records import JsonLines\n"
        "writer = JsonLines(Path(sys.argv[1]))\n"
        "for step in range(50): writer.append([{'step': step}])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert result.returncode == -9
    assert [row["step"] for row in read_rows(path)] == list(range(50))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path, cut: int):
    path = tmp_path / "stats.jsonl"
    path.write_bytes(b'{"step": 1}\n' + b'{"step": 2}\n'[:-1][:-cut])
    assert read_rows(path) == [{"step": 1}]


def test_a_damaged_line_before_the_last_is_an_error_that_names_it(tmp_path: Path):
    path = tmp_path / "stats.jsonl"
    path.write_bytes(b'{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"stats\.jsonl:2 is not valid JSON"):
        read_rows(path)


def test_no_file_reads_as_no_rows(tmp_path: Path):
    assert read_rows(tmp_path / "none.jsonl") == []


def test_keep_rows_drops_the_rest_and_the_cut_line_and_can_be_appended_to(tmp_path: Path):
    path = tmp_path / "stats.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"step": 3}\n{"step"')
    keep_rows(path, lambda row: row["step"] <= 2)
    writer = JsonLines(path)
    writer.append([{"step": 3, "again": True}])
    writer.close()
    assert read_rows(path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]
    assert [found.name for found in tmp_path.iterdir()] == ["stats.jsonl"]


def test_set_aside_keeps_every_earlier_run(tmp_path: Path):
    for content in ("first", "second"):
        (tmp_path / "stats.jsonl").write_text(content)
        (tmp_path / "run.json").write_text(content)
        set_aside(tmp_path, ["stats.jsonl", "run.json"])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["run.1.json", "run.2.json", "stats.1.jsonl", "stats.2.jsonl"]
    assert (tmp_path / "stats.1.jsonl").read_text() == "first"


def test_set_aside_leaves_empty_files_alone(tmp_path: Path):
    (tmp_path / "stats.jsonl").touch()
    assert set_aside(tmp_path, ["stats.jsonl"]) is None
    assert (tmp_path / "stats.jsonl").exists()


def test_write_json_replaces_the_file_and_leaves_no_part(tmp_path: Path):
    path = tmp_path / "run.json"
    write_json(path, {"status": "running", "at": Path("x")})
    write_json(path, {"status": "completed"})
    assert json.loads(path.read_text()) == {"status": "completed"}
    assert list(tmp_path.iterdir()) == [path]

"""`add-dataset --from`: columns of real forms of data, generated tests on their rows."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Scaffold = Callable[..., Any]
Row = dict[str, Any]

LONG = "Natalia sold clips to 48 of her friends, and then half as many in May. How many in all?"
QUESTIONS: list[Row] = [
    {"id": n, "problem": f"{n}. {LONG}", "answer": f"48/2 = <<24>>24 clips\n#### {n}"}
    for n in range(3)
]
CHATS: list[Row] = [
    {
        "messages": [
            {"role": "system", "content": 'You are "brief".'},
            {"role": "user", "content": f"{n}. {LONG}"},
            {"role": "assistant", "content": f"{n}"},
        ]
    }
    for n in range(3)
]
TRANSCRIPTS: list[Row] = [
    {
        "chosen": f"\n\nHuman: {n}. {LONG}\n\nAssistant: It is {n}.",
        "rejected": f"\n\nHuman: {n}. {LONG}\n\nAssistant: I won't say.",
    }
    for n in range(3)
]
CHAT_PAIRS: list[Row] = [
    {
        "prompt": f"{n}?",
        "chosen": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}"}],
        "rejected": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "?"}],
        "score_chosen": 9.5,
    }
    for n in range(3)
]
MIXED: list[Row] = [
    {"instruction": f"{n}?", "output": f"{n}", "chosen": f"{n}!", "rejected": "?"} for n in range(3)
]


def write_jsonl(path: Path, rows: list[Row]) -> str:
    path.mkdir(parents=True)
    (path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "test.jsonl").write_text(json.dumps(rows[0]) + "\n")
    return str(path)


def write_csv(path: Path, rows: list[Row]) -> str:
    path.mkdir(parents=True)
    with (path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path / "rows.csv")


def write_parquet(path: Path, rows: list[Row]) -> str:
    datasets = pytest.importorskip("datasets")
    path.mkdir(parents=True)
    datasets.Dataset.from_list(rows).to_parquet(path / "train-00000-of-00001.parquet")
    return str(path)


CASES = [
    ("questions", QUESTIONS, write_jsonl, ["rl", "sft"], {"question": "problem"}),
    ("table", QUESTIONS, write_csv, ["rl", "sft"], {"question": "problem", "answer": "answer"}),
    ("chats", CHATS, write_jsonl, ["rl", "sft"], {"question": "messages", "answer": "messages"}),
    ("arrow_chats", CHATS, write_parquet, ["sft"], {"answer": "messages"}),
    ("transcripts", TRANSCRIPTS, write_csv, ["rw", "dpo"], {"prompt": ""}),
    ("chat_pairs", CHAT_PAIRS, write_parquet, ["rw", "dpo"], {"prompt": "prompt"}),
    ("mixed", MIXED, write_jsonl, ["rl", "sft", "rw", "dpo"], {"answer": "output"}),
]
# Each verification starts two processes with torch. The walk through add-dataset verifies two units
# of two types each in every run.
IN_EVERY_RUN = ("arrow_chats",)


@pytest.mark.heavy
@pytest.mark.parametrize("rows_of", ["sample", pytest.param("test", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "rows", "write", "types", "expected"),
    [
        pytest.param(*case, id=case[0], marks=[pytest.mark.slow] * (case[0] not in IN_EVERY_RUN))
        for case in CASES
    ],
)
def test_columns_are_found_and_the_unit_is_finished(
    scaffold: Scaffold,
    project: Path,
    tmp_path: Path,
    name: str,
    rows: list[Row],
    write: Callable[[Path, list[Row]], str],
    types: list[str],
    expected: dict[str, str],
    rows_of: str,
) -> None:
    name = f"{name}_{rows_of}"
    source = write(tmp_path / "data", rows)
    options = [f"--type={each}" for each in types]
    added = scaffold(project, "add-dataset", name, *options, "--from", source, "--json")
    assert added.status == 0, added.text
    assert added.report["unfinished"] == []
    found = {row["role"]: row["name"] for row in added.report["columns"]}
    assert found.items() >= expected.items()
    data = ["--data", source] if rows_of == "sample" else []
    done = scaffold(project, "verify", name, "--json", *data)
    assert (done.status, done.report["verdict"]) == (0, "ok"), done.text
    assert str(tmp_path) not in "".join(
        path.read_text() for path in project.rglob(f"*{name}*") if path.is_file()
    )


def test_the_mapping_is_shown_and_a_second_run_changes_nothing(
    scaffold: Scaffold, project: Path, tmp_path: Path
) -> None:
    source = write_jsonl(tmp_path / "data", QUESTIONS)
    request = ["add-dataset", "shown", "--type", "rl", "--from", source]
    first, second = scaffold(project, *request), scaffold(project, *request)
    assert "question_column = problem: texts, 3 of 3 rows, by its name" in first.text
    assert "not used: id (numbers, 3 of 3 rows)" in first.text
    assert "nothing to do" in second.text
    test = (project / "tests" / "dataset" / "test_shown.py").read_text()
    kept = re.findall(r'"problem": "(.*)"', test)
    assert [text[:9] for text in kept] == ["0. Natali", "1. Natali"]
    assert max(map(len, kept)) < len(LONG)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--from", "nothing.jsonl"], "sample_invalid", "there is no such file"),
        (["--from", "openai/gsm8k"], "sample_invalid", "there is no such file"),
        (["--from", "README.md"], "sample_invalid", "ends in none of"),
        (["--from", "pyproject.toml"], "sample_invalid", "ends in none of"),
        (["--from", "two.csv"], "columns_unclear", "--question-column left"),
        (["--from", "two.csv", "--question-column", "x"], "columns_unclear", "no column 'x'"),
        (["--samples", "[1]"], "answer_invalid", "must be a JSON list of objects"),
        (["--samples", "[{"], "answer_invalid", "is not valid JSON"),
        (["--samples", '[{"a": NaN}]'], "answer_invalid", "NaN"),
    ],
)
def test_what_cannot_be_told_is_refused_and_nothing_written(
    scaffold: Scaffold, project: Path, options: list[str], code: str, message: str
) -> None:
    (project / "two.csv").write_text("left,right\na,b\n")
    done = scaffold(project, "add-dataset", "unclear", "--type", "rl", *options, "--json")
    assert (done.status, done.report["error"]["code"]) == (2, code), done.text
    assert message in done.report["error"]["message"]
    assert not list(project.rglob("*unclear*"))


def test_a_column_that_is_named_settles_it(scaffold: Scaffold, project: Path) -> None:
    (project / "two.csv").write_text("left,right\na,b\n")
    named = ["--question-column", "left", "--from", "two.csv"]
    done = scaffold(project, "add-dataset", "settled", "--type", "rl", *named, "--json")
    assert done.status == 0, done.text
    assert [row["name"] for row in done.report["columns"]] == ["left", "right"]

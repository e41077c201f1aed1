"""Samples: the first rows of every form of file, and what is kept of them for a test."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from areal.dataset.files import read_local, require_columns
from scaffold.errors import RequestError
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.sample import MAX_TEXT, lacking_rows, read_sample, rows_for_test

ROWS = [{"q": 'a, "b"\nc', "n": "007"}, {"q": "None", "n": "é\N{GRINNING FACE}"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CSV = 'q,n\n"a, ""b""\nc",007\nNone,é\N{GRINNING FACE}\n'

FILES = {
    "rows.jsonl": LINES,
    "bom.jsonl": "\ufeff" + LINES.replace("\n", "\r\n") + "\n\n",
    "lines.json": LINES,
    "array.json": json.dumps(ROWS, indent=1),
    "tight.json": json.dumps(ROWS, separators=(",", ":")),
    "rows.csv": CSV,
    "bom.csv": "\ufeff" + CSV,
    "ROWS.CSV": CSV,
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_gives_the_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name].encode())
    assert read_sample(tmp_path / name) == ROWS
    assert read_sample(tmp_path / name, 1) == ROWS[:1]


def test_parquet_gives_the_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    assert read_sample(tmp_path) == ROWS


def test_parquet_without_its_reader_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.parquet").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RequestError, match="read with pyarrow, which is not installed"):
        read_sample(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("others", "path"),
    [
        (["test.jsonl", "README.md"], "train.jsonl"),
        (["test.csv"], "train-00000-of-00002.jsonl"),
        (["LICENSE"], "data/train.jsonl"),
        ([], "train/0.jsonl"),
        (["notes.txt"], "everything.jsonl"),
    ],
)
def test_a_folder_gives_its_training_rows(tmp_path: Path, others: list[str], path: str) -> None:
    for name in others:
        (tmp_path / name).write_text('{"no": 1}\n')
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(LINES)
    assert read_sample(tmp_path) == ROWS


WRONG = [
    ("a.jsonl", "", "it has no rows"),
    ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2: broken JSON"),
    ("a.jsonl", "[1]\n", "line 1: a row must be a JSON object, not list"),
    ("a.json", "[1]", "entry 0: a row must be a JSON object, not int"),
    ("a.json", "[]", "it has no rows"),
    ("a.json", '[{"a": ', "Expecting value"),
    ("a.csv", "a,b\n", "it has no rows"),
    ("a.csv", 'a\n"x\n', "unexpected end of data"),
    ("a.csv", "q,a,a\n1,2,3\n", "two columns are called 'a'"),
    ("a.txt", "a", "ends in none of"),
    ("a.parquet", "PAR?", "Parquet"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RequestError, match=message) as refusal:
        read_sample(tmp_path / name)
    assert refusal.value.code == "sample_invalid"
    assert name in refusal.value.message


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("q\ngrün\n".encode("latin-1"))
    with pytest.raises(RequestError, match="utf-8"):
        read_sample(tmp_path / "a.csv")


def test_a_hub_id_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file") as refusal:
        read_sample(Path("openai/gsm8k"))
    assert "hub id" in refusal.value.hint
    with pytest.raises(RequestError, match="it has no file"):
        read_sample(tmp_path)


def kept(rows: list[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    return json.loads(rows_for_test(rows, columns) or "[]")


def test_a_few_whole_rows_are_kept_with_the_asked_columns() -> None:
    rows = [{"q": "x", "a": None}, *({"q": f"x{n}", "a": n, "secret": 1} for n in range(1, 5))]
    assert kept(rows, "q", "a") == [{"q": "x1", "a": 1}, {"q": "x2", "a": 2}]
    assert kept([{"q": "x"}], "q", "a") == []


def test_long_texts_keep_their_beginning_and_their_end() -> None:
    ((row), *_) = kept([{"q": "Natalia " + "x" * 500 + " #### 72"}], "q")
    assert len(row["q"]) <= MAX_TEXT
    assert row["q"].startswith("Natalia")
    assert row["q"].endswith("#### 72")


def test_messages_keep_role_and_content() -> None:
    message = {"role": "user", "content": "x" * 200, "name": None}
    ((row), *_) = kept([{"m": [message]}], "m")
    assert list(row["m"][0]) == ["role", "content"]
    assert len(row["m"][0]["content"]) <= MAX_TEXT


def test_pairs_still_differ_after_the_cut() -> None:
    same = {"c": "x" * 50 + "5" + "x" * 50, "r": "x" * 50 + "6" + "x" * 50}
    short = {"c": "5", "r": "6"}
    assert kept([same, short], "c", "r") == [short]
    assert kept([same], "c", "r") == [same]


def test_unusual_characters_are_made_storable() -> None:
    ((row), *_) = kept([{"q": "a\x00b\ud800"}], "q")
    assert row["q"] == "ab?"


def test_rows_for_a_test_keep_objects_around_what_is_used() -> None:
    rows = [{"a.b": "own", "a": {"b": "inner", "c": {"d": "5", "e": "left out"}}, "x": "?"}]
    kept = json.loads(rows_for_test(rows, ("x", "a.c.d", "a.b")))
    assert kept == [{"x": "?", "a": {"c": {"d": "5"}}, "a.b": "own"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "d.jsonl",
            '{"q": "a", "a": "b"}\n{"q": "a"}\n{"q": "c", "a": null}\n{"q": "a", "n": 1}\n',
        ),
        ("d.json", '[{"q": "a", "a": 1}, {"q": "a"}, {"q": "c", "a": null}, {"n": 1}]'),
        ("d.csv", "q,a\na,b\na\nc,\nx\n"),
    ],
)
def test_rows_that_lack_a_column_are_told_with_their_count(
    tmp_path: Path, name: str, text: str
) -> None:
    """As the loaders do; a value of null or of no length is a row that they leave out."""
    (tmp_path / name).write_text(text)
    told = lacking_rows(tmp_path / name, ("a",))
    assert told.startswith(f"2 of 4 rows of {tmp_path / name} lack a column, the first row 1 'a'")
    with pytest.raises(ValueError, match=r"row 1 of .* lacks the column 'a'"):
        require_columns(read_local(tmp_path / name, None), ("a",), "d")


def test_a_column_inside_an_object_needs_the_object_alone(tmp_path: Path) -> None:
    rows = [{"s": {"a": 1}}, {"s": {}}, {"s": None}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lacking_rows(tmp_path / "d.jsonl", ("s.a",)) == ""
    assert "3 of 3 rows" in lacking_rows(tmp_path / "d.jsonl", ("s.a", "t"))


def test_a_dataset_is_added_with_a_word_on_the_rows_that_training_refuses(project: Path) -> None:
    (project / "d.jsonl").write_text('{"question": "a?", "answer": "b"}\n{"question": "c?"}\n')
    options = Options(project, sample="d.jsonl")
    report = add_unit(load_kind("dataset"), "sums", ["rl"], {}, options)
    assert [text.partition(" rows of ")[0] for text in report.warnings] == ["1 of 2"]

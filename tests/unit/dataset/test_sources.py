from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from areal.api.errors import DatasetError
from areal.dataset.sources import Source, load_saved_dataset

ROWS = [{"question": f"q{number}", "answer": str(number)} for number in range(3)]
SOURCE = Source("demo", ("question", "answer"), hint="ask the author for it")


@pytest.fixture(autouse=True)
def _working_folder_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Names like "demo" are looked for in the working folder first, where somebody may have one."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


def write_jsonl(path: Path, rows: list[dict[str, str]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_json(path: Path) -> Path:
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return path


def write_csv(path: Path) -> Path:
    path.write_text("question,answer\n" + "".join(f"q{n},{n}\n" for n in range(3)), "utf-8")
    return path


def write_parquet(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(ROWS).to_parquet(str(path))
    return path


def read(path: Path | str, split: str | None = "train", source: Source = SOURCE) -> list[dict]:
    return [dict(row) for row in source.read(str(path), split)]


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".jsonl", write_jsonl),
        (".json", write_json),
        (".json", write_jsonl),
        (".csv", write_csv),
        (".parquet", write_parquet),
    ],
)
def test_each_format_is_read_from_a_file_and_from_a_folder(
    tmp_path: Path, suffix: str, write: Callable[[Path], Path]
) -> None:
    file = write(tmp_path / f"train{suffix}")
    assert read(file) == ROWS
    assert read(tmp_path) == ROWS


@pytest.mark.parametrize(
    "place",
    [
        "train.jsonl",
        "data/train.jsonl",
        "main/train.jsonl",
        "train-00000-of-00001.jsonl",
        "data/train-00000-of-00001.jsonl",
        "train/part.jsonl",
    ],
)
def test_a_split_is_found_where_hub_snapshots_keep_it(tmp_path: Path, place: str) -> None:
    write_jsonl(tmp_path / place)
    write_jsonl(tmp_path / "test.jsonl", ROWS[:1])
    assert read(tmp_path, "train") == ROWS
    assert read(tmp_path, "test") == ROWS[:1]
    assert read(tmp_path, None) == ROWS


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train-00001-of-00002.jsonl", ROWS[2:])
    write_jsonl(tmp_path / "train-00000-of-00002.jsonl", ROWS[:2])
    assert read(tmp_path) == ROWS


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path: Path) -> None:
    text = "\ufeff" + "\n\n".join(json.dumps(row) for row in ROWS) + "\n\n"
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    assert read(tmp_path) == ROWS


@pytest.mark.parametrize("is_dict", [False, True])
def test_a_saved_dataset_is_read(tmp_path: Path, is_dict: bool) -> None:
    saved = datasets.Dataset.from_list(ROWS)
    (datasets.DatasetDict(train=saved) if is_dict else saved).save_to_disk(str(tmp_path / "saved"))
    assert read(tmp_path / "saved") == ROWS
    assert list(load_saved_dataset(tmp_path / "saved", None)) == ROWS
    if is_dict:
        with pytest.raises(DatasetError, match="no split 'test'; it has: train"):
            read(tmp_path / "saved", "test")


@pytest.mark.parametrize("path", ["demo", "org/demo"])
def test_an_environment_variable_names_a_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    write_jsonl(tmp_path / "train.jsonl")
    monkeypatch.setenv("AREAL_DEMO_DIR", str(tmp_path))
    assert read(path, source=Source("demo", ("question",), hub_id="org/demo")) == ROWS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"question": "q", "answer": "1"}\n{"question": "q",\n', r"train\.jsonl:2: broken JSON"),
        ('{"question": "q", "answer": "1"}\n[1]\n', r"train\.jsonl:2: a row must be a JSON object"),
        ("", "holds no rows"),
        ("\n\n", "holds no rows"),
        ('{"question": "q"}\n', "row 0 of .* lacks the column 'answer'.*found: question"),
        ('{"question": "q", "answer": "1"}\n{"answer": "1"}\n', "row 1 of .* lacks .*'question'"),
    ],
)
def test_a_broken_file_is_refused_with_the_place(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "train.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        read(tmp_path)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"question": "\xff"}\n')
    with pytest.raises(DatasetError, match="is not UTF-8"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [('[{"question": ]', r"train\.json:1: broken JSON"), ("[1, 2]", "entry 0: a row must be")],
)
def test_a_broken_json_array_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.json").write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        read(tmp_path)


def test_a_long_csv_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("question,answer\nq0,0\nq1,1,000\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"train\.csv:3: the row has 1 value more than"):
        SOURCE.read(str(tmp_path), "train")


def test_two_csv_columns_of_one_name_are_refused_and_nameless_ones_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.csv").write_text("question,answer,,\nq0,0,,\n", encoding="utf-8")
    assert read(tmp_path)[0] == {"question": "q0", "answer": "0"}
    (tmp_path / "train.csv").write_text("question,answer,answer\nq0,0,1\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"train\.csv: two columns are called 'answer'"):
        read(tmp_path)


def test_a_short_csv_row_lacks_a_column(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("question,answer\nq0,0\nq1\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"row 1 of .* lacks the column 'answer'"):
        read(tmp_path)


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(DatasetError, match=r"cannot read .*train\.parquet' as Parquet"):
        read(tmp_path)


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    datasets.Dataset.from_list([{"question": "q"}]).to_parquet(str(tmp_path / "train.parquet"))
    with pytest.raises(DatasetError, match=r"lacks the column 'answer'.*found: question"):
        read(tmp_path)


def test_a_missing_split_lists_the_files_that_are_there(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl")
    with pytest.raises(DatasetError, match=r"no split 'test'.*test\.jsonl.*there: train\.jsonl"):
        read(tmp_path, "test")


@pytest.mark.parametrize("path", ["/nowhere/demo", "./nowhere", "~/no-such-folder", "no.jsonl"])
def test_a_local_path_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(DatasetError, match=r"does not exist; ask the author.*AREAL_DEMO_DIR"):
        read(path)


def test_a_dataset_on_no_hub_says_where_to_get_it() -> None:
    with pytest.raises(DatasetError, match=r"'demo' is on no hub; ask the author for it"):
        read("demo")


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.xml").write_text("<a/>")
    with pytest.raises(DatasetError, match=r"none of \.jsonl"):
        read(tmp_path / "rows.xml")


def test_what_the_hub_refuses_is_a_dataset_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Offline mode is the hub's own way to answer without a network.
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DatasetError, match=r"cannot load split 'train' of 'org/demo' from the hub"):
        read("demo", source=Source("demo", ("question",), hub_id="org/demo"))

"""A sample of a person's data: its first rows read from files, and a few of them cut for a test."""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.util
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from scaffold.errors import RequestError
from scaffold.templating.spec import Answer
from scaffold.units.columns import ColumnMap, find_columns, is_missing, with_leaves

NUM_ROWS = 64
"""How many rows of the data are looked at."""

NUM_CHECKED = 100_000
"""How many rows are looked at for columns that training refuses to go without."""

NUM_KEPT = 2
NUM_TASKS = 16
MAX_TASKS_TEXT = 30_000
"""How many rows, and characters of them, become a file of tasks to begin with."""

MAX_TEXT = 72
"""Longest text of a row that goes into a test; its middle is left out."""

# Longer conversations would make a test that nobody reads.
MAX_MESSAGES = 6
SOURCE = "sample:"
"""What an answer's ``default_from`` begins with where a sample answers it."""

# A file without line ends is not read into memory as a whole; 16 MiB holds any sensible row.
MAX_LINE_BYTES = 16 * 2**20
# Where data sets keep their files: the folder itself, and those of the hub's usual layouts.
FOLDERS = ("", "data", "main", "default", "train")

Row = dict[str, Any]


def answers_from_sample(
    path: Path, questions: Mapping[str, Answer], styles: Sequence[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], ColumnMap]:
    """Answer from a sample what a manifest looks for in it, with the evidence.

    Args:
        path: The data.
        questions: Name to what is accepted; ``default_from = "sample:question"`` asks for a role,
            ``"sample:rows"`` for a few rows cut for a test, ``"sample:tasks"`` for whole ones.
        styles: The chosen styles.
        given: What was given; it wins.

    Raises:
        RequestError: The sample cannot be read, or does not show what holds what.
    """
    asked = {
        question.default_from.removeprefix(SOURCE): name
        for name, question in questions.items()
        if question.default_from.startswith(SOURCE)
    }
    rows_answer, tasks_answer = asked.pop("rows", ""), asked.pop("tasks", "")
    rows = read_sample(path)
    named = {role: _texts(given[name]) for role, name in asked.items() if given.get(name)}
    # Supervised fine-tuning learns the answer word for word; for RL it is only compared.
    columns = find_columns(rows, asked, named, is_learnt="sft" in styles)
    # A role that was given is matched to that very column, so nothing given is overwritten.
    filled = {**given, **{asked[match.role]: match.answer for match in columns.matches}}
    if rows_answer and not filled.get(rows_answer):
        used = dict.fromkeys(name for match in columns.matches for name in match.columns)
        filled[rows_answer] = rows_for_test(rows, tuple(used))
    if tasks_answer and not filled.get(tasks_answer):
        filled[tasks_answer] = rows_for_tasks(rows)
    return filled, columns


def read_sample(path: Path, limit: int = NUM_ROWS) -> list[Row]:
    """Return the first rows of a file, or of the training file of a folder, without importing.

    Args:
        path: A .jsonl, .json, .csv or .parquet file, or a folder of such.
        limit: How many rows at most.

    Raises:
        RequestError: Nothing can be read there; the message gives the reason.
    """
    file = _file_at(path)
    try:
        rows = list(itertools.islice(_READERS[file.suffix.lower()](file, limit), limit))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise _unreadable(file, str(error)) from error
    if not rows:
        raise _unreadable(file, "it has no rows")
    return rows


def lacking_rows(path: Path, columns: Sequence[str]) -> str:
    """Return what to say of the rows that lack a column, which the loaders refuse; "" of none.

    A row without a value in a column is another thing: the loaders leave it out.
    """
    file, total, lacking = _file_at(path), 0, list[tuple[int, str]]()
    # What cannot be read any further is judged by the rows before it.
    with contextlib.suppress(OSError, UnicodeDecodeError, csv.Error, ValueError):
        rows = itertools.islice(_READERS[file.suffix.lower()](file, NUM_CHECKED), NUM_CHECKED)
        for number, row in enumerate(rows):
            total += 1
            # Of `solution.final` a row has to have `solution`; a short row of a CSV file has None.
            there = {name for name in row if file.suffix.lower() != ".csv" or row[name] is not None}
            missing = [c for c in columns if not {c, c.partition(".")[0]} & there]
            lacking += [(number, missing[0])] if missing else []
    if not lacking:
        return ""
    first, column = lacking[0]
    verb = "lacks" if len(lacking) == 1 else "lack"
    return (
        f"{len(lacking)} of {total} rows of {file} {verb} a column, the first row {first} "
        f"{column!r}: training refuses the data until those rows go or have it (null will do: "
        "a row without a value is left out)"
    )


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of an answer that may be one or several."""
    return (value,) if isinstance(value, str) else tuple(value)


def rows_for_test(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return a few rows as JSON, their texts cut, with these columns alone.

    A column such as ``solution.final`` is the value inside the object.

    Rows without a value are passed over, and so are long conversations and rows that hold the same
    in two columns, perhaps because of the cut, where there are better ones.
    """
    flat = [(row, with_leaves(row)) for row in rows]
    whole = [
        {name: leaves[name] for name in columns}
        for _, leaves in flat
        if not any(is_missing(leaves.get(name)) for name in columns)
    ]
    own = {name for row in rows for name in row}
    cut = [{name: _cut(value) for name, value in row.items()} for row in whole]
    # Cut where rows still differ then, uncut where only that distinguishes columns, else as they
    # are.
    kept = [row for row in cut if _is_good(row)] or [row for row in whole if _is_good(row)] or cut
    nested = [_nested(row, own) for row in kept[:NUM_KEPT]]
    return json.dumps(nested, ensure_ascii=False) if kept else ""


def _nested(row: Row, own: set[str]) -> Row:
    """Return a row with the values of dotted columns inside objects, but for columns of its own."""
    found: Row = {}
    for name, value in row.items():
        *folders, last = [name] if name in own else name.split(".")
        place = found
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return found


def rows_for_tasks(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first rows as JSON, whole, as many as make a small file."""
    kept: list[str] = []
    for row in rows[:NUM_TASKS]:
        kept.append(json.dumps(row, ensure_ascii=False, allow_nan=False, default=str))
        if sum(map(len, kept)) > MAX_TASKS_TEXT:
            kept.pop()
            break
    return f"[{', '.join(kept)}]" if kept else ""


def _is_good(row: Row) -> bool:
    texts = [json.dumps(value) for value in row.values()]
    lists = [cast("list[Any]", value) for value in row.values() if isinstance(value, list)]
    return len(set(texts)) == len(texts) and all(len(each) <= MAX_MESSAGES for each in lists)


def _cut(value: Any) -> Any:
    """Return a value with its long texts cut in the middle, since answers are at the end."""
    if isinstance(value, str):
        # Neither NUL nor a lone surrogate can be in a Python file.
        text = value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
        return text if len(text) <= MAX_TEXT else f"{text[:40].rstrip()} ... {text[-27:].lstrip()}"
    if isinstance(value, list):
        messages = cast("list[Mapping[str, Any]]", value)
        return [{"role": each["role"], "content": _cut(each["content"])} for each in messages]
    return value


# --- files --------------------------------------------------------------------------------------


def _file_at(path: Path) -> Path:
    if path.is_file():
        if path.suffix.lower() not in _READERS:
            raise _unreadable(path, f"its name ends in none of {', '.join(_READERS)}")
        return path
    if not path.is_dir():
        hint = "a hub id cannot be sampled: name its columns with the options" if (
            not path.is_absolute() and len(path.parts) <= 2
        ) else ""  # fmt: skip
        raise _unreadable(path, "there is no such file or folder", hint)
    for folder in FOLDERS:
        found = [file for file in sorted((path / folder).glob("*")) if _is_data(file)]
        train = [file for file in found if "train" in file.name.lower()]
        if found:
            return (train or found)[0]
    raise _unreadable(path, f"it has no file that ends in one of {', '.join(_READERS)}")


def _is_data(file: Path) -> bool:
    return file.suffix.lower() in _READERS and file.is_file()


def _read_lines(file: Path, limit: int) -> Iterator[Row]:
    with file.open("rb") as lines:
        for number in itertools.count(1):
            line = lines.readline(MAX_LINE_BYTES)
            if not line:
                return
            if line.strip():
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield _object(_parse(text, f"line {number}"), f"line {number}")


def _read_json(file: Path, limit: int) -> Iterator[Row]:
    """Read an array of objects, or lines of objects, as many .json files hold."""
    with file.open("rb") as data:
        # The cut may fall into the middle of a character.
        head = data.read(MAX_LINE_BYTES).decode("utf-8-sig", "ignore")
    if not head.lstrip().startswith("["):
        yield from _read_lines(file, limit)
        return
    decoder, at = json.JSONDecoder(), head.index("[") + 1
    for number in range(limit):
        # raw_decode accepts no blanks or commas in front of a value.
        rest = len(head) - len(head[at:].lstrip(" \t\r\n,"))
        if head[rest : rest + 1] in ("]", ""):
            return
        row, at = decoder.raw_decode(head, rest)
        yield _object(row, f"entry {number}")


def _read_csv(file: Path, limit: int) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, strict=True)
        header = reader.fieldnames or ()
        if repeated := [name for name in header if name and header.count(name) > 1]:
            raise ValueError(f"two columns are called {repeated[0]!r}")
        for row in reader:
            # DictReader puts surplus cells under the key None.
            yield {key: value for key, value in row.items() if isinstance(key, str)}


def _read_parquet(file: Path, limit: int) -> Iterator[Row]:
    if importlib.util.find_spec("pyarrow") is None:
        raise _unreadable(
            file,
            "Parquet is read with pyarrow, which is not installed beside scaffold",
            "install pyarrow there, give the rows as JSONL, or name the columns with the options",
        )
    parquet: Any = importlib.import_module("pyarrow.parquet")
    # Batch by batch: a Parquet file may be larger than the memory.
    table = parquet.ParquetFile(file)
    for batch in table.iter_batches(batch_size=limit):
        yield from batch.to_pylist()


_READERS: dict[str, Callable[[Path, int], Iterator[Row]]] = {
    ".jsonl": _read_lines,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
}


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: broken JSON: {error.msg}, column {error.colno}") from error


def _object(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise ValueError(f"{place}: a row must be a JSON object, not {type(row).__name__}")
    return cast("Row", row)


def _unreadable(path: Path, reason: str, hint: str = "") -> RequestError:
    return RequestError(
        f"no rows can be read from {path}: {reason}",
        code="sample_invalid",
        hint=hint
        or "give a JSONL, JSON, CSV or Parquet file or a folder of such, or name the "
        "columns with the options",
    )

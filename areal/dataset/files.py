"""Read rows from JSONL, JSON, CSV and Parquet files, every value as the file has it.

No type is guessed: the text 007 is no number, 2014-07-02 no date and None no gap. It raises
`ValueError` for what it cannot read.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# In this order where a folder has a split in several formats.
SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")
# Where hub snapshots keep their files below the top.
_SUBFOLDERS = ("", "data", "main", "default")

RawRows = Sequence[Mapping[str, Any]]


def read_local(path: str | Path, split: str | None) -> RawRows:
    """Read one split of what is on this machine.

    Args:
        path: A file, a folder with ``<split>.jsonl`` (or ``.json``, ``.parquet``, ``.csv``, also in
            shards ``<split>-*``), or a folder that ``save_to_disk`` wrote.
        split: Such as "train", which None means; a single file is read whatever the split.

    Raises:
        ValueError: Nothing is there, or it cannot be read.
    """
    path = Path(path)
    if path.is_file():
        return _read_files([path])
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return read_saved(path, split)
    files = _split_files(path, split or "train")
    if not files:
        found = sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.suffix in SUFFIXES)
        raise ValueError(
            f"{str(path)!r} has no split {split or 'train'!r}: a file named "
            f"{split or 'train'}.jsonl, .json, .parquet or .csv is wanted; "
            f"data files there: {', '.join(found[:20]) or 'none'}"
        )
    return _read_files(files)


def read_saved(path: str | Path, split: str | None) -> RawRows:
    """Load what ``datasets.Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote.

    Args:
        path: The folder.
        split: Which one of several; None takes the first.

    Raises:
        ValueError: There is no such split.
    """
    import datasets

    loaded = datasets.load_from_disk(str(path))
    if not isinstance(loaded, datasets.DatasetDict):
        return loaded
    split = split or next(iter(loaded))
    if split not in loaded:
        raise ValueError(f"{str(path)!r} has no split {split!r}; it has: {', '.join(loaded)}")
    return loaded[split]


def looks_local(path: str) -> bool:
    """Return whether a path that does not exist was meant as one, and not as a hub id."""
    return (
        path.startswith((".", "~", os.sep))
        or path.count("/") > 1
        or Path(path).suffix.lower() in SUFFIXES
    )


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """Return what a row holds in a column, or inside an object: ``solution.final``.

    A column of that whole name comes first. What is missing inside an object is None.
    """
    if column in row:
        return row[column]
    first, _, rest = column.partition(".")
    value = row.get(first)
    return value_at(value, rest) if rest and isinstance(value, Mapping) else None


def require_columns(rows: RawRows, columns: Sequence[str], origin: str) -> None:
    """Check that every row has the columns; of ``solution.final`` it has to have ``solution``.

    Raises:
        ValueError: One is missing; the message lists those that are there.
    """

    def check(found: Iterable[str], place: str) -> None:
        missing = [
            column for column in columns if not {column, column.partition(".")[0]} & {*found}
        ]
        if missing:
            raise ValueError(
                f"{place} lacks the column {missing[0]!r}; needed: {', '.join(columns)}; "
                f"found: {', '.join(map(str, found))}"
            )

    names = getattr(rows, "column_names", None)
    if names is not None:
        check(names, repr(origin))
        return
    for position, row in enumerate(rows):
        check(list(row), f"row {position} of {origin!r}")


def _split_files(folder: Path, split: str) -> list[Path]:
    for subfolder in _SUBFOLDERS:
        for suffix in SUFFIXES:
            base = folder / subfolder
            if (base / f"{split}{suffix}").is_file():
                return [base / f"{split}{suffix}"]
            shards = [*base.glob(f"{split}-*{suffix}"), *(base / split).glob(f"*{suffix}")]
            if shards:
                return sorted(shards)
    return []


def _read_files(files: list[Path]) -> RawRows:
    suffix = files[0].suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(files)
    readers = {".jsonl": _read_jsonl, ".json": _read_json, ".csv": _read_csv}
    if suffix not in readers:
        raise ValueError(f"{str(files[0])!r} is none of {', '.join(SUFFIXES)}")
    try:
        rows = [row for file in files for row in readers[suffix](file)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(files[0])!r} is not UTF-8 text: {error}") from error
    if not rows:
        raise ValueError(f"{str(files[0])!r} holds no rows")
    return rows


def _read_parquet(files: list[Path]) -> RawRows:
    # Through datasets, which maps large files into memory and decodes images.
    import datasets

    try:
        rows = datasets.load_dataset("parquet", data_files=[str(f) for f in files], split="train")
    except Exception as error:
        # datasets wraps Arrow's errors in types of its own that share no useful base.
        cause = error.__cause__ or error
        raise ValueError(f"cannot read {str(files[0])!r} as Parquet: {cause}") from error
    if not len(rows):
        raise ValueError(f"{str(files[0])!r} holds no rows")
    return rows


def _read_jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _parse_json_row(line, f"{file}:{number}")


def _read_json(file: Path) -> Iterator[dict[str, Any]]:
    """Read an array of objects, or lines of objects as many ``.json`` files hold."""
    text = file.read_text(encoding="utf-8-sig")
    if not text.lstrip().startswith("["):
        yield from _read_jsonl(file)
        return
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}:{error.lineno}: broken JSON: {error.msg}") from error
    for position, row in enumerate(rows):
        yield _as_object(row, f"{file}, entry {position}")


def _parse_json_row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: broken JSON: {error.msg} (column {error.colno})") from error
    return _as_object(row, place)


def _as_object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"{place}: a row must be a JSON object, not {type(row).__name__}")
    return row


def _read_csv(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        header = reader.fieldnames or ()
        # DictReader keeps the last of them, and nobody knows whether that is the one meant.
        if repeated := [name for name in header if name and header.count(name) > 1]:
            raise ValueError(f"{file}: two columns are called {repeated[0]!r}")
        for row in reader:
            if extra := row.get(None):
                raise ValueError(
                    f"{file}:{reader.line_num}: the row has {len(extra)} "
                    f"value{'s' * (len(extra) > 1)} more than the header; a comma inside of a "
                    "value needs quotes around the value"
                )
            # Short rows give None, which is a missing column here as in the other formats.
            yield {key: value for key, value in row.items() if key and value is not None}

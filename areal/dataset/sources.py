"""Reads raw rows: JSONL, JSON, CSV or Parquet files and folders, saved datasets, hub ids."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from areal.api.errors import DatasetError
from areal.utils.hf_utils import load_hf_or_local_file

# In this order where a folder has a split in several formats.
SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")
# Where hub snapshots keep their files below the top.
_SUBFOLDERS = ("", "data", "main", "default")

RawRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Source:
    """Where a dataset's raw rows come from.

    Args:
        name: The registered name. ``AREAL_<NAME>_DIR`` names a local folder for it.
        columns: What every row must have.
        hub_id: Which repository a bare name means; empty if the data is on no hub.
        hub_config: The repository's configuration, if it has several.
        hint: Where else to get the data, for the error message.
    """

    name: str
    columns: tuple[str, ...]
    hub_id: str = ""
    hub_config: str | None = None
    hint: str = ""

    def read(self, path: str, split: str | None) -> RawRows:
        """Read one split.

        Args:
            path: A file, a folder with ``<split>.jsonl`` (or ``.json``, ``.parquet``, ``.csv``,
                also in shards ``<split>-*``), a folder that ``save_to_disk`` wrote, a hub id, an
                ``hf-dataset://`` file, or the registered name.
            split: Such as "train"; a single file is read whatever the split.

        Raises:
            DatasetError: Nothing is there, it cannot be read, or a column is missing.
        """
        path = os.path.expanduser(load_hf_or_local_file(path))
        folder = os.environ.get(f"AREAL_{self.name.upper()}_DIR")
        if not os.path.exists(path) and self._is_generic(path) and folder:
            path = folder
        if os.path.exists(path):
            rows, origin = _read_local(Path(path), split), path
        elif _looks_local(path):
            raise DatasetError(f"{path!r} does not exist; {self._advice()}")
        else:
            rows, origin = self._read_hub(path, split or "train"), path
        _require_columns(rows, self.columns, origin)
        return rows

    def _is_generic(self, path: str) -> bool:
        return path in (self.name, self.name.replace("_", "-"), self.hub_id)

    def _read_hub(self, path: str, split: str) -> RawRows:
        repository = path if "/" in path else self.hub_id
        if not repository:
            raise DatasetError(f"{path!r} is on no hub; {self._advice()}")
        import datasets

        try:
            return datasets.load_dataset(repository, name=self.hub_config, split=split)
        except Exception as error:
            # datasets raises a dozen unrelated types for "not found", "no network", "no split".
            raise DatasetError(
                f"cannot load split {split!r} of {repository!r} from the hub "
                f"({type(error).__name__}: {error}); {self._advice()}"
            ) from error

    def _advice(self) -> str:
        advice = (
            f"give a folder with <split>.jsonl or <split>.parquet, "
            f"or set AREAL_{self.name.upper()}_DIR to one"
        )
        return f"{self.hint}; {advice}" if self.hint else advice


def load_saved_dataset(path: str | Path, split: str | None) -> RawRows:
    """Load what ``datasets.Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote.

    Args:
        path: The folder.
        split: Which one of several; None takes the first.

    Raises:
        DatasetError: There is no such split.
    """
    import datasets

    loaded = datasets.load_from_disk(str(path))
    if not isinstance(loaded, datasets.DatasetDict):
        return loaded
    split = split or next(iter(loaded))
    if split not in loaded:
        raise DatasetError(f"{str(path)!r} has no split {split!r}; it has: {', '.join(loaded)}")
    return loaded[split]


def _looks_local(path: str) -> bool:
    return (
        path.startswith((".", "~", os.sep))
        or path.count("/") > 1
        or Path(path).suffix.lower() in SUFFIXES
    )


def _read_local(path: Path, split: str | None) -> RawRows:
    if path.is_file():
        return _read_files([path])
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return load_saved_dataset(path, split)
    files = _split_files(path, split or "train")
    if not files:
        found = sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.suffix in SUFFIXES)
        raise DatasetError(
            f"{str(path)!r} has no split {split or 'train'!r}: a file named "
            f"{split or 'train'}.jsonl, .json, .parquet or .csv is wanted; "
            f"data files there: {', '.join(found[:20]) or 'none'}"
        )
    return _read_files(files)


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
        raise DatasetError(f"{str(files[0])!r} is none of {', '.join(SUFFIXES)}")
    try:
        rows = [row for file in files for row in readers[suffix](file)]
    except UnicodeDecodeError as error:
        raise DatasetError(f"{str(files[0])!r} is no UTF-8 text: {error}") from error
    if not rows:
        raise DatasetError(f"{str(files[0])!r} holds no rows")
    return rows


def _read_parquet(files: list[Path]) -> RawRows:
    # Through datasets, which maps large files into memory and decodes images.
    import datasets

    try:
        rows = datasets.load_dataset("parquet", data_files=[str(f) for f in files], split="train")
    except Exception as error:
        # datasets wraps Arrow's errors in types of its own that share no useful base.
        cause = error.__cause__ or error
        raise DatasetError(f"cannot read {str(files[0])!r} as Parquet: {cause}") from error
    if not len(rows):
        raise DatasetError(f"{str(files[0])!r} holds no rows")
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
        raise DatasetError(f"{file}:{error.lineno}: broken JSON: {error.msg}") from error
    for position, row in enumerate(rows):
        yield _as_object(row, f"{file}, entry {position}")


def _parse_json_row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{place}: broken JSON: {error.msg} (column {error.colno})") from error
    return _as_object(row, place)


def _as_object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DatasetError(f"{place}: a row must be a JSON object, not {type(row).__name__}")
    return row


def _read_csv(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines):
            # Short rows give None, which is a missing column here as in the other formats.
            yield {key: value for key, value in row.items() if key and value is not None}


def _require_columns(rows: RawRows, columns: Sequence[str], origin: str) -> None:
    def check(found: Sequence[str], place: str) -> None:
        missing = [column for column in columns if column not in found]
        if missing:
            raise DatasetError(
                f"{place} lacks the column {missing[0]!r}; needed: {', '.join(columns)}; "
                f"found: {', '.join(map(str, found))}"
            )

    names = getattr(rows, "column_names", None)
    if names is not None:
        check(names, repr(origin))
        return
    for position, row in enumerate(rows):
        check(list(row), f"row {position} of {origin!r}")

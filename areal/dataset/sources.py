"""Reads raw rows: JSONL, JSON, CSV or Parquet files and folders, saved datasets, hub ids."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from areal.api.errors import DatasetError
from areal.dataset.files import RawRows, looks_local, read_local, read_saved, require_columns
from areal.utils.hf_utils import load_hf_or_local_file


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
        if not os.path.exists(path) and looks_local(path):
            raise DatasetError(f"{path!r} does not exist; {self._advice()}")
        try:
            is_here = os.path.exists(path)
            rows = read_local(path, split) if is_here else self._read_hub(path, split or "train")
            require_columns(rows, self.columns, path)
        except DatasetError:
            raise
        except ValueError as error:
            raise DatasetError(str(error)) from error
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
    """Load what ``save_to_disk`` of datasets wrote; see `areal.dataset.files.read_saved`.

    Raises:
        DatasetError: There is no such split.
    """
    try:
        return read_saved(path, split)
    except ValueError as error:
        raise DatasetError(str(error)) from error

"""The safetensors files of a checkpoint folder: checked before they are read, written in shards."""

from __future__ import annotations

import ctypes
import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import INDEX_NAME
from areal.experimental.models.archon.state_dict.plan import listed
from areal.experimental.models.archon.state_dict.rules import Shape

SINGLE_NAME = "model.safetensors"
DEFAULT_SHARD_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Entry:
    """Where a tensor is and what it looks like."""

    file: Path
    shape: Shape


@dataclass(frozen=True)
class CheckpointFiles:
    """Where every tensor of a checkpoint is; all of its files were found to be whole."""

    folder: Path
    entries: dict[str, Entry]

    @classmethod
    def open(cls, folder: str | Path) -> CheckpointFiles:
        """Read the index and the head of every shard, no tensor.

        Raises:
            ConfigError: There is no checkpoint, a shard is missing or truncated, or index and
                shards disagree; all findings are named.
        """
        folder = Path(folder)
        weight_map = _read_weight_map(folder)
        files = _files(folder, weight_map)
        entries: dict[str, Entry] = {}
        problems: list[str] = []
        for file in files:
            try:
                found = _read_head(file)
            except (SafetensorError, OSError) as error:
                problems.append(f"cannot read {file.name}: {error}; is the file complete?")
                continue
            if twice := found.keys() & entries.keys():
                problems.append(f"in several shards: {listed(twice)}")
            entries |= found
            if weight_map is not None:
                problems += _disagreements(file.name, found, weight_map)
        if problems:
            raise ConfigError(f"{folder} is damaged: " + "; ".join(problems))
        return cls(folder, entries)

    @contextmanager
    def reading(self, names: Iterable[str]) -> Iterator[Iterator[tuple[str, Tensor]]]:
        """Yield an iterator over some tensors, in the order in which they lie.

        A tensor is mapped from its file, and its memory is given back when the next one is taken.
        """
        iterator = self._read(set(names))
        try:
            yield iterator
        finally:
            iterator.close()

    def _read(self, names: set[str]) -> Any:
        files = sorted({self.entries[name].file for name in names})
        for file in files:
            with safe_open(file, framework="pt") as shard:
                for name in shard.offset_keys():
                    if name in names:
                        tensor = shard.get_tensor(name)
                        yield name, tensor
                        _unmap_pages(tensor)


def _unmap_pages(tensor: Tensor) -> None:
    """Drop the pages of a mapped file under a tensor, which would count as memory of ours.

    The kernel keeps or frees the file's cache as it likes; reading the tensor again reads the file.
    """
    begin = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end and hasattr(mmap, "MADV_DONTNEED"):
        size = ctypes.c_size_t(end - begin)
        _libc().madvise(ctypes.c_void_p(begin), size, mmap.MADV_DONTNEED)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _read_weight_map(folder: Path) -> dict[str, str] | None:
    path = folder / INDEX_NAME
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text())["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not an index of a checkpoint: {error!r}") from error


def _files(folder: Path, weight_map: Mapping[str, str] | None) -> list[Path]:
    if weight_map is None:
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ConfigError(f"no *.safetensors in {folder}")
        return files
    names = sorted(set(weight_map.values()))
    absent = [name for name in names if not (folder / name).is_file()]
    if absent:
        raise ConfigError(f"{folder} lacks {listed(absent)}, which {INDEX_NAME} names")
    return [folder / name for name in names]


def _read_head(file: Path) -> dict[str, Entry]:
    with safe_open(file, framework="pt") as shard:
        return {
            name: Entry(file, tuple(shard.get_slice(name).get_shape()))
            for name in shard.offset_keys()
        }


def _disagreements(
    file: str, found: Mapping[str, Entry], weight_map: Mapping[str, str]
) -> list[str]:
    promised = {name for name, where in weight_map.items() if where == file}
    lost, unlisted = promised - found.keys(), found.keys() - promised
    problems = [f"{file} lacks {listed(lost)}, which {INDEX_NAME} places there"] if lost else []
    if unlisted:
        problems.append(f"{INDEX_NAME} does not place {listed(unlisted)} in {file}, where they are")
    return problems


class ShardWriter:
    """Writes tensors that come one at a time into numbered shards, and their index at the end.

    Args:
        folder: Has no weights yet.
        groups: Names of the tensors of each shard, in the order in which they come.
    """

    def __init__(self, folder: str | Path, groups: list[list[str]]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if there := [p.name for p in self.folder.glob("*.safetensors*")]:
            raise ConfigError(
                f"{folder} already has {listed(there)}; save into a folder without weights"
            )
        self._groups = groups
        self._shard: dict[str, Tensor] = {}
        self._weight_map: dict[str, str] = {}
        self._num_bytes = 0

    def add(self, name: str, tensor: Tensor) -> None:
        """Take the next tensor; the shard is written when it has all of its own."""
        self._shard[name] = tensor
        number = len(set(self._weight_map.values()))
        group = self._groups[number]
        if len(self._shard) < len(group):
            return
        assert list(self._shard) == group, "tensors arrived in a different order than planned"
        file = self._file_name(number)
        save_file(self._shard, self.folder / file, metadata={"format": "pt"})
        self._weight_map |= dict.fromkeys(group, file)
        self._num_bytes += sum(t.numel() * t.element_size() for t in self._shard.values())
        self._shard = {}

    def _file_name(self, number: int) -> str:
        if len(self._groups) == 1:
            return SINGLE_NAME
        return f"model-{number + 1:05d}-of-{len(self._groups):05d}.safetensors"

    def finish(self) -> None:
        """Write the index, where there is more than one shard."""
        assert not self._shard, "the last shard misses tensors"
        if len(self._groups) > 1:
            index = {"metadata": {"total_size": self._num_bytes}, "weight_map": self._weight_map}
            (self.folder / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n")


def write_shards(
    folder: str | Path,
    tensors: Sequence[tuple[str, Tensor]],
    max_shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> None:
    """Write tensors that are all at hand into shards, with their index.

    Args:
        folder: Has no weights yet.
        tensors: By their names on the Hub.
        max_shard_bytes: Of the tensors of one shard.
    """
    sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors}
    writer = ShardWriter(folder, group_by_size(sizes, max_shard_bytes))
    for name, tensor in tensors:
        writer.add(name, tensor.contiguous())
    writer.finish()


def group_by_size(sizes: Mapping[str, int], max_bytes: int) -> list[list[str]]:
    """Divide tensors, in their order, into shards; a larger tensor gets a shard of its own.

    Args:
        sizes: Bytes of each tensor.
        max_bytes: Of the tensors of one shard.
    """
    groups: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > max_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups

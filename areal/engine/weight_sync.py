"""How new weights reach the servers: a folder that both see, HTTP, or a process group.

A folder of weights carries a manifest with the size and SHA-256 of each file, so that a copy that
was cut short or mixed up is refused and never loaded. A process group stands alone, apart from the
groups of training: it has its own store, a short time-out, and is made anew when servers join.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor

from areal.api.engine_api import InferenceEngine
from areal.api.errors import ArealError
from areal.api.io_struct import WeightUpdateMeta
from areal.engine.model.checkpoint import atomic_folder
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import is_first

logger = logging.getLogger("WeightSync")

MANIFEST = "manifest.json"
GROUP_TIMEOUT_S = 60.0
_PULL_TIMEOUT_S = 60.0
_CHUNK_BYTES = 1 << 20
# Where Linux keeps files in memory: received tensors are read back from there at once.
_MEMORY_FOLDER = Path("/dev/shm")

# Name, dtype ("bfloat16") and shape of a tensor on its way.
TensorSpec = tuple[str, str, Sequence[int]]


class WeightSyncError(ArealError, RuntimeError):
    """Weights did not arrive as they were sent; the old ones are still in place."""


# --- the trainer's side ---------------------------------------------------------------------------


def publish_on_disk(
    write: Callable[[Path], None], inference: InferenceEngine | None, meta: WeightUpdateMeta
) -> None:
    """Write the weights where servers read them, have them load, and delete older versions.

    Generation goes on while the trainer gathers and writes. The newest version stays, for servers
    that join later.

    Args:
        write: Puts the weights into a folder; all processes call it together.
        inference: Talks to the servers; None in all processes but the first.
        meta: Has the folder, ``.../weight_update_v{version}``, and the version.
    """
    assert meta.path is not None
    folder = Path(meta.path)
    with atomic_folder(folder) as staged:
        write(staged)
        if is_first():
            write_manifest(staged)
    if inference is None:
        return
    inference.update_weights_from_disk(meta).result()
    for older in folder.parent.glob("weight_update_v*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)


# --- folders --------------------------------------------------------------------------------------


def write_manifest(folder: Path) -> None:
    """Describe the files of a folder in a manifest; call it when they are complete."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != MANIFEST
    }
    (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=1) + "\n")


def check_manifest(folder: Path) -> int:
    """Compare a folder with its manifest and return the number of bytes; 0 without a manifest.

    Raises:
        WeightSyncError: A file is missing, or differs from what was written.
    """
    if not (folder / MANIFEST).is_file():
        return 0
    total = 0
    for name, expected in _read_manifest((folder / MANIFEST).read_bytes(), str(folder)).items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise WeightSyncError(f"{path} is missing or incomplete; write the weights again")
        if _sha256(path) != expected["sha256"]:
            raise WeightSyncError(f"{path} differs from its manifest; write the weights again")
        total += expected["bytes"]
    return total


def _read_manifest(text: bytes, where: str) -> dict[str, dict[str, Any]]:
    try:
        files: dict[str, dict[str, Any]] = json.loads(text)["files"]
        plain = all(Path(name).name == name and name not in (".", "..") for name in files)
        if not plain or not all({"bytes", "sha256"} <= each.keys() for each in files.values()):
            raise ValueError("a file name or an entry is malformed")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WeightSyncError(f"the manifest of {where} cannot be read: {error}") from error
    return files


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- process groups -------------------------------------------------------------------------------


class WeightGroup:
    """A process group for weights alone: the trainer is rank 0, servers follow.

    Gloo on a CPU and NCCL on a GPU take the same way. The prefixes of the store are those that
    PyTorch gives a named group, so that any server that joins one in PyTorch's way meets this one.

    Args:
        host: Where rank 0 keeps the store.
        port: Of the store.
        rank: Of this process.
        world_size: Of the group.
        name: Of the group.
        device: Of the tensors; decides between gloo and NCCL.
        timeout_s: For joining and for every broadcast.

    Raises:
        WeightSyncError: The others did not join in time.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rank: int,
        world_size: int,
        name: str,
        device: torch.device,
        timeout_s: float = GROUP_TIMEOUT_S,
    ) -> None:
        self.name = name
        self.device = device
        timeout = timedelta(seconds=timeout_s)
        try:
            # Rank 0 keeps the store and must not wait here for servers that it has yet to call.
            self._store = dist.TCPStore(
                host, port, None, is_master=rank == 0, timeout=timeout, wait_for_workers=False
            )
            store: dist.Store = dist.PrefixStore(f"{name}/", dist.PrefixStore(name, self._store))
            store = dist.PrefixStore(f"{device.type}/", store)
            if device.type == "cuda":
                self._group: Any = dist.ProcessGroupNCCL(store, rank, world_size, timeout)
            else:
                self._group = dist.ProcessGroupGloo(store, rank, world_size, timeout)
        except RuntimeError as error:
            raise WeightSyncError(
                f"rank {rank} of {world_size} could not join the weight group {name!r} at "
                f"{host}:{port} within {timeout_s:g} s: {error}"
            ) from error

    def broadcast(self, tensor: Tensor) -> None:
        """Send a tensor from rank 0 into the same tensor of all others.

        Raises:
            WeightSyncError: A process of the group is gone, or too slow.
        """
        try:
            self._group.broadcast(tensor, 0).wait()
        except RuntimeError as error:
            raise WeightSyncError(f"the weight group {self.name!r} broke: {error}") from error

    def close(self) -> None:
        """Leave the group."""
        del self._group, self._store


# --- the server's side ----------------------------------------------------------------------------


class WeightReceiver:
    """Puts weights that arrive into a model that is being served, all or nothing.

    Generation goes on while weights arrive and are compared, and waits for the swap alone.

    Args:
        weights: The served model.
        on_swapped: Called with the new version, None where none was named, before generation goes
            on.
        api_key: Shown to the trainer whose files are pulled.
    """

    def __init__(
        self, weights: SharedWeights, on_swapped: Callable[[int | None], None], api_key: str = ""
    ) -> None:
        self._weights = weights
        self._on_swapped = on_swapped
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._groups: dict[str, WeightGroup] = {}
        self._received: dict[str, Tensor] = {}
        self._num_bytes = {"disk": 0, "group": 0, "http": 0}

    def counts(self) -> dict[str, int]:
        """Return how many bytes came by each way."""
        return dict(self._num_bytes)

    def close(self) -> None:
        """Leave all groups."""
        self._groups.clear()
        self._received.clear()

    def load_folder(self, folder: Path, version: int | None) -> None:
        """Load a folder of safetensors after comparing it with its manifest."""
        self._num_bytes["disk"] += check_manifest(folder)
        self._swap(folder, version)

    def _swap(self, folder: Path, version: int | None) -> None:
        with self._weights.writing():
            self._weights.lm.read(folder)
            self._on_swapped(version)

    def pull(self, url: str, version: int | None) -> None:
        """Fetch a folder of weights over HTTP, compare it with its manifest, and load it.

        Raises:
            WeightSyncError: The trainer cannot be reached, or something else arrived.
        """
        with tempfile.TemporaryDirectory(prefix="areal-weights-") as temporary:
            folder = Path(temporary)
            try:
                with httpx.Client(headers=self._headers, timeout=_PULL_TIMEOUT_S) as client:
                    self._fetch_all(client, url.rstrip("/"), folder)
            except httpx.HTTPError as error:
                raise WeightSyncError(f"cannot fetch the weights from {url}: {error}") from error
            self._num_bytes["http"] += check_manifest(folder)
            self._swap(folder, version)

    def _fetch_all(self, client: httpx.Client, url: str, folder: Path) -> None:
        manifest = client.get(f"{url}/{MANIFEST}").raise_for_status().content
        for name, expected in _read_manifest(manifest, url).items():
            left = int(expected["bytes"])
            with (
                client.stream("GET", f"{url}/{quote(name)}") as response,
                (folder / name).open("wb") as file,
            ):
                response.raise_for_status()
                for chunk in response.iter_bytes(_CHUNK_BYTES):
                    left -= len(chunk)
                    if left < 0:
                        raise WeightSyncError(f"{url}/{name} is longer than its manifest allows")
                    file.write(chunk)
        (folder / MANIFEST).write_bytes(manifest)

    def join(self, host: str, port: int, rank: int, world_size: int, name: str) -> None:
        """Join a weight group; one of the same name is left first."""
        self.leave(name)
        self._groups[name] = WeightGroup(
            host, port, rank, world_size, name, self._weights.lm.device
        )

    def leave(self, name: str) -> None:
        """Leave a group, if this server is in it."""
        if (group := self._groups.pop(name, None)) is not None:
            group.close()

    def receive(self, name: str, specs: Sequence[TensorSpec]) -> None:
        """Receive tensors and keep them until ``load_received``.

        Raises:
            WeightSyncError: There is no such group, a tensor cannot be made, or the group broke.
        """
        if (group := self._groups.get(name)) is None:
            known = ", ".join(self._groups) or "none"
            raise WeightSyncError(f"this server is not in the weight group {name!r}; in: {known}")
        for tensor_name, dtype_name, shape in specs:
            dtype = getattr(torch, dtype_name.removeprefix("torch."), None)
            if not isinstance(dtype, torch.dtype):
                raise WeightSyncError(f"{tensor_name} has the unknown dtype {dtype_name!r}")
            tensor = torch.empty(tuple(shape), dtype=dtype, device=group.device)
            try:
                group.broadcast(tensor)
            except WeightSyncError:
                # Half of an update is none; the trainer makes another group.
                self._received.clear()
                self.leave(name)
                raise
            self._received[tensor_name] = tensor
            self._num_bytes["group"] += tensor.nbytes

    def load_received(self, version: int | None) -> None:
        """Load what has been received since the last time."""
        received, self._received = self._received, {}
        with _memory_folder() as folder:
            # The model's own reader knows how a checkpoint's names and blocks map onto it.
            tensors = {name: tensor.cpu().contiguous() for name, tensor in received.items()}
            save_file(tensors, folder / "model.safetensors")
            self._swap(folder, version)


@contextmanager
def _memory_folder() -> Iterator[Path]:
    base = _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="areal-weights-", dir=base) as folder:
        yield Path(folder)

"""Takes new weights in and puts them into the served model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import torch
from safetensors.torch import save_file
from torch import Tensor

from areal.engine.model.lora import put_adapter
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.weight_sync import (
    MANIFEST,
    WeightGroup,
    WeightSyncError,
    check_manifest,
    read_manifest,
)

_PULL_TIMEOUT_S = 60.0
_CHUNK_BYTES = 1 << 20
# Where Linux keeps files in memory: received tensors are read back from there at once.
_MEMORY_FOLDER = Path("/dev/shm")

# Name, dtype ("bfloat16") and shape of a tensor on its way.
TensorSpec = tuple[str, str, Sequence[int]]


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
        self._num_bytes = {"adapter": 0, "disk": 0, "group": 0, "http": 0}

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

    def load_adapter(self, folder: Path, version: int | None) -> None:
        """Load a LoRA adapter, in the place of the last one, after comparing it with its manifest.

        Raises:
            ConfigError: It does not fit the model.
        """
        self._num_bytes["adapter"] += check_manifest(folder)
        with self._weights.writing():
            put_adapter(self._weights, folder)
            self._on_swapped(version)

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
        for name, expected in read_manifest(manifest, url).items():
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
        if not received:
            raise WeightSyncError("nothing has been received since the last update")
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

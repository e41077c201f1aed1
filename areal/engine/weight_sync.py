"""How new weights reach the servers: a folder that both see, HTTP, or a process group.

A folder of weights carries a manifest with the size and SHA-256 of each file, so that a copy that
was cut short or mixed up is refused and never loaded. A process group is separate, apart from the
groups of training: it has its own store, a short time-out, and is made again when servers join.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from aiohttp import web
from safetensors.torch import save_file
from torch import Tensor

from areal.api.alloc_mode import ModelAllocation
from areal.api.errors import ArealError, ConfigError
from areal.api.io_struct import ParamSpec, WeightUpdateMeta
from areal.engine.model.checkpoint import atomic_folder, staged_folder
from areal.engine.processes import from_first, is_first, open_store
from areal.infra.loop_thread import LoopThread
from areal.infra.remote.http import RequestRefusedError
from areal.utils.network import find_free_ports, gethostip, is_loopback

if TYPE_CHECKING:
    from areal.infra.remote_inf_engine import RemoteInfEngine

logger = logging.getLogger("WeightSync")

MANIFEST = "manifest.json"
GROUP_TIMEOUT_S = 60.0
# A server that dies in a broadcast breaks the group; the next one is without it.
GROUP_ATTEMPTS = 3


class WeightSyncError(ArealError, RuntimeError):
    """Weights did not arrive as they were sent; the old ones are still in place."""


# --- the trainer's side ---------------------------------------------------------------------------


class WeightPublisher:
    """Gives the servers of an inference engine the weights of a model under training.

    All processes call ``publish`` together. Generation goes on while weights are gathered and
    written. However the weights travel, the newest version also lies in a folder at the end: a
    server that joins or comes back loads it from there.

    Args:
        write: Puts the weights into a folder; all processes call it together.
        parameters: Yields the tensors under their names on the Hub, to all processes together;
            only the first process needs to get them whole.
        inference: Talks to the servers; None in all processes but the first.
        device: Of the tensors.
    """

    def __init__(
        self,
        write: Callable[[Path], None],
        parameters: Callable[[], Iterator[tuple[str, Tensor]]],
        inference: RemoteInfEngine | None,
        device: torch.device,
    ) -> None:
        self._write = write
        self._parameters = parameters
        self._inference = inference
        self._device = device
        self._group: WeightGroup | None = None
        self._epoch = -1  # of the servers when the group was made
        self._files: WeightFileServer | None = None
        self._keeper = ThreadPoolExecutor(1, "areal-weights")

    def close(self) -> None:
        """Leave the group and stop serving files."""
        self._keeper.shutdown()
        if self._group is not None:
            self._group.close()
            self._group = None
        if self._files is not None:
            self._files.stop()
            self._files = None

    def publish(self, meta: WeightUpdateMeta) -> None:
        """Bring all servers to the weights of now; return when those that can have them.

        Args:
            meta: The way, the folder ``.../weight_update_v{version}``, and the version.

        Raises:
            ConfigError: There is no such way.
            RuntimeError: No server could load the weights.
        """
        if meta.path is None or meta.version is None:
            raise ConfigError("a weight update needs meta.path and meta.version")
        if meta.type == "xccl":
            self._publish_by_group(meta, meta.version)
        elif meta.type in ("disk", "http"):
            self._publish_files(Path(meta.path), meta, meta.version)
        else:
            raise ConfigError(f"weight_update_mode {meta.type!r} is not available here")

    def _publish_files(self, folder: Path, meta: WeightUpdateMeta, version: int) -> None:
        with atomic_folder(folder) as staged:
            self._write(staged)
            if is_first():
                write_manifest(staged)
        if self._inference is None:
            return
        if meta.type == "http":
            if self._files is None:
                host = _address_for(self._inference.reachable_servers())
                self._files = WeightFileServer(folder.parent, host, self._inference.api_key)
            url = f"{self._files.url}/{folder.name}"
            self._inference.update_weights_from_url(url, version).result()
        else:
            self._inference.update_weights_from_disk(meta).result()
        _delete_older(folder)

    # --- by group

    def _publish_by_group(self, meta: WeightUpdateMeta, version: int) -> None:
        for attempt in range(1, GROUP_ATTEMPTS + 1):
            # Where all servers are gone, others may be on their way.
            from_first(self._inference is not None and self._inference.await_server())
            error = self._send(meta, version)
            if error is not None:
                logger.warning("attempt %d to send the weights failed: %s", attempt, error)
                self._leave()
                # What is refused as wrong is wrong the next time too.
                if attempt == GROUP_ATTEMPTS or isinstance(error, RequestRefusedError):
                    raise error
            # The others only know what the first process learns of the servers.
            if not from_first(error is not None):
                return

    def _send(self, meta: WeightUpdateMeta, version: int) -> Exception | None:
        """Send all parameters once; return why it failed, in the first process."""
        parameters = self._parameters()
        if self._inference is None:
            _exhaust(parameters)
            return None
        kept: dict[str, Tensor] = {}
        try:
            self._keeper.submit(lambda: None).result()  # the last version is written by now
            group = self._join(self._inference, meta)
            self._inference.pause_generation()
            try:
                for bucket in _buckets(parameters, meta.weight_chunked_mem_mb << 20):
                    specs = [
                        ParamSpec(
                            name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
                        )
                        for name, tensor in bucket
                    ]
                    received = self._inference.update_weights_from_distributed(meta, specs)
                    for name, tensor in bucket:
                        group.broadcast(tensor.contiguous())
                        kept[name] = tensor.detach().to("cpu", copy=True)
                    received.result(GROUP_TIMEOUT_S)
            finally:
                self._inference.continue_generation()
        except (ArealError, RuntimeError, TimeoutError) as error:
            # The others go on gathering until the last parameter.
            _exhaust(parameters)
            return error
        self._keeper.submit(self._keep, self._inference, kept, meta)
        return None

    def _join(self, inference: RemoteInfEngine, meta: WeightUpdateMeta) -> WeightGroup:
        """Return the group of the servers that are there now."""
        if self._group is not None and self._epoch == inference.membership_epoch:
            return self._group
        self._leave()
        epoch, servers = inference.membership_epoch, inference.reachable_servers()
        if not servers:
            raise WeightSyncError("no inference server can be reached")
        allocation = _for_replicas(inference.config.backend, len(servers))
        place = dataclasses.replace(
            meta,
            nccl_master_address=_address_for(servers),
            nccl_master_port=find_free_ports(1)[0],
            gen_allocation=allocation,
        )
        joined = inference.init_weights_update_group(place, servers=servers)
        made = _in_thread(
            lambda: WeightGroup(
                place.nccl_master_address,
                place.nccl_master_port,
                0,
                1 + allocation.world_size,
                meta.nccl_group_name,
                self._device,
            )
        )
        # A server that refuses to join is known at once, and missed in the group much later.
        wait([joined, made], 2 * GROUP_TIMEOUT_S, FIRST_EXCEPTION)
        if joined.done():
            joined.result()
        self._group = made.result(0)
        self._epoch = epoch
        return self._group

    def _leave(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def _keep(
        self, inference: RemoteInfEngine, tensors: dict[str, Tensor], meta: WeightUpdateMeta
    ) -> None:
        """Write what was sent where servers that join later find it."""
        assert meta.path is not None
        folder = Path(meta.path)
        try:
            with staged_folder(folder) as staged:
                save_file(tensors, staged / "model.safetensors")
                write_manifest(staged)
            inference.offer_weights(meta)
            _delete_older(folder)
        except Exception:
            # Nobody waits for this thread, and a run without joining servers does not need it.
            logger.exception("the weights of version %s could not be kept", meta.version)


def _address_for(servers: list[str]) -> str:
    """Return where servers reach this process: on this machine where they all are."""
    is_here = all(server.startswith(("127.", "localhost:")) for server in servers)
    return "127.0.0.1" if is_here else gethostip()


def _in_thread(function: Callable[[], WeightGroup]) -> Future[WeightGroup]:
    """Run a function in a thread that nobody waits for at the end of the program."""
    future: Future[WeightGroup] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="areal-weight-group", daemon=True).start()
    return future


def _for_replicas(backend: str, count: int) -> ModelAllocation:
    """Return an allocation with another number of replicas: as many as there are servers now."""
    allocation = ModelAllocation.from_str(backend)
    parallel = dataclasses.replace(allocation.parallel, data_parallel_size=count)
    return dataclasses.replace(allocation, parallel=parallel)


def _exhaust(parameters: Iterator[Any]) -> None:
    for _ in parameters:
        pass


def _buckets(
    parameters: Iterator[tuple[str, Tensor]], max_bytes: int
) -> Iterator[list[tuple[str, Tensor]]]:
    """Yield lists of tensors of about ``max_bytes`` together."""
    bucket: list[tuple[str, Tensor]] = []
    size = 0
    for name, tensor in parameters:
        if bucket and size + tensor.nbytes > max_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append((name, tensor))
        size += tensor.nbytes
    if bucket:
        yield bucket


def _delete_older(folder: Path) -> None:
    for older in folder.parent.glob("weight_update_v*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)


class WeightFileServer:
    """Hands out the files of a folder's subfolders to servers that share no file system.

    Args:
        root: The folder.
        host: Where to listen; anything but a loopback address needs a key.
        api_key: What servers show.

    Raises:
        ConfigError: The address is open to other machines and there is no key.
    """

    def __init__(self, root: Path, host: str, api_key: str) -> None:
        if host != "127.0.0.1" and not api_key:
            raise ConfigError(
                "weight_update_mode=http would hand the weights to whoever asks; give servers and "
                "trainer a key in AREAL_SERVER_KEY"
            )
        self._root = root
        self._api_key = api_key
        self._thread = LoopThread("areal-weight-files")
        self._runner, self.url = self._thread.start_with(self._listen(host))

    async def _listen(self, host: str) -> tuple[web.AppRunner, str]:
        app = web.Application(middlewares=[self._check_key])
        app.router.add_static("/", self._root, follow_symlinks=False)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        return runner, f"http://{host}:{runner.addresses[0][1]}"

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if self._api_key and not hmac.compare_digest(given.encode(), self._api_key.encode()):
            raise web.HTTPUnauthorized
        answer: web.StreamResponse = await handler(request)
        return answer

    def stop(self) -> None:
        """Stop serving."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._thread.loop).result(10)
        self._thread.stop()


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
    for name, expected in read_manifest((folder / MANIFEST).read_bytes(), str(folder)).items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise WeightSyncError(f"{path} is missing or incomplete; write the weights again")
        if _sha256(path) != expected["sha256"]:
            raise WeightSyncError(f"{path} differs from its manifest; write the weights again")
        total += expected["bytes"]
    return total


def read_manifest(text: bytes, where: str) -> dict[str, dict[str, Any]]:
    """Return size and checksum of each file by its name.

    Raises:
        WeightSyncError: It is no manifest, or names a file outside of its folder.
    """
    try:
        files: dict[str, dict[str, Any]] = json.loads(text)["files"]
        plain = all(Path(name).name == name and name not in (".", "..") for name in files)
        if not plain or not all({"bytes", "sha256"} <= each.keys() for each in files.values()):
            raise ValueError("a file name or an entry is malformed")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
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
            self._store = open_store(host, port, rank == 0, timeout)
            store: dist.Store = dist.PrefixStore(f"{name}/", dist.PrefixStore(name, self._store))
            store = dist.PrefixStore(f"{device.type}/", store)
            if device.type == "cuda":
                self._group: Any = dist.ProcessGroupNCCL(store, rank, world_size, timeout)
            else:
                options = dist.ProcessGroupGloo._Options()
                options._timeout = timeout
                # Left alone, gloo listens where this machine's name leads.
                options._devices = [
                    dist.ProcessGroupGloo.create_device(hostname=host)
                    if is_loopback(host)
                    else dist.ProcessGroupGloo.create_default_device()
                ]
                self._group = dist.ProcessGroupGloo(store, rank, world_size, options)
        except (OSError, RuntimeError) as error:
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

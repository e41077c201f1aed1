"""A worker: holds engines and calls their methods for a controller.

    python -m areal.infra.rpc.rpc_server --experiment-name E --trial-name T --role actor

The key is taken from the environment. Engines are classes of ``areal`` alone, no route runs a
command, and bodies are read by ``areal.infra.rpc.wire``.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import inspect
import logging
import os
import signal
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from aiohttp import web

from areal.api.cli_args import NameResolveConfig
from areal.api.engine_api import InferenceEngine, TrainEngine
from areal.api.errors import ArealError
from areal.api.registry import import_from_string
from areal.api.reward_pool.worker import die_with
from areal.infra.launch import KEY_VARIABLE
from areal.infra.managed_process import PARENT_VARIABLE
from areal.infra.rpc import wire
from areal.utils import name_resolve, names
from areal.utils.network import gethostip, is_loopback, reserve_ports

logger = logging.getLogger("RpcServer")

# A batch of 512 rows of 4,096 tokens is 60 MB.
MAX_BODY_BYTES = 1 << 30
# Results that a caller may ask for again; it does so at once, or never.
_KEPT_RESULTS = 16
_KEEPALIVE_S = 60.0

# Engines by short names; besides them, any engine of ``areal`` by its import path.
ENGINES: dict[str, str] = {
    "archon": "areal.engine.training.by_config:ArchonEngine",
    "fsdp": "areal.engine.training.by_config:FSDPEngine",
    "local": "areal.engine.remote:RemoteLocalEngine",
    "sglang": "areal.engine.sglang_remote:RemoteSGLangEngine",
    "vllm": "areal.engine.vllm_remote:RemotevLLMEngine",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CallError(ArealError, RuntimeError):
    """A request is refused; ``status`` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RpcServer:
    """Serves engines to a controller.

    Calls run one at a time, in one thread, unless there are more. A call that is repeated under its
    id is not run again: it gets the first one's result.

    Args:
        api_key: What callers have to know; without one only this machine may listen.
        role: Of this worker, for seeds.
        index: Of this worker.
        num_threads: How many calls may run side by side.
    """

    def __init__(
        self, api_key: str, role: str = "worker", index: int = 0, num_threads: int = 1
    ) -> None:
        self._api_key = api_key
        self._role = role
        self._index = index
        self._engines: dict[str, Any] = {}
        # Of engines that somebody else made, what may be called; they are not destroyed here.
        self._offered: dict[str, frozenset[str]] = {}
        self._thread = ThreadPoolExecutor(num_threads, "areal-engine")
        self._calls: OrderedDict[str, asyncio.Future[Any]] = OrderedDict()
        self._reserved: list[socket.socket] = []
        self._runner: web.AppRunner | None = None

    def offer(self, name: str, engine: Any, methods: frozenset[str]) -> None:
        """Serve some methods of an engine that exists, and make no others.

        Args:
            name: Of the engine.
            engine: Stays its owner's.
            methods: And properties that callers may use.
        """
        self._engines[name] = engine
        self._offered[name] = methods

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return where.

        Raises:
            ValueError: Other machines could connect, and there is no key.
            OSError: The port is taken.
        """
        if not self._api_key and not is_loopback(host):
            raise ValueError(
                f"{host} is open to other machines, and whoever connects could use the engines; "
                f"set a key in {KEY_VARIABLE}, or listen on 127.0.0.1"
            )
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.add_routes(
            [web.get("/health", self._health), web.post("/call", self._answer(self._call))]
        )
        if not self._offered:
            app.add_routes(
                [
                    web.post("/configure", self._answer(self._configure)),
                    web.post("/set_env", self._answer(self._set_env)),
                    web.post("/create_engine", self._answer(self._create_engine)),
                    web.post("/alloc_ports", self._answer(self._alloc_ports)),
                ]
            )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address: tuple[str, int] = self._runner.addresses[0][:2]
        return address

    async def stop(self) -> None:
        """Destroy the engines and stop listening."""
        for name, engine in self._engines.items():
            if name in self._offered:
                continue
            try:
                await self._in_thread(engine.destroy)
            except Exception:
                logger.exception("an engine could not be destroyed")
        if self._runner is not None:
            await self._runner.cleanup()
        for sock in self._reserved:
            sock.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- the way of a request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._api_key and request.path != "/health":
            given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
            if not hmac.compare_digest(given.encode(), self._api_key.encode()):
                return web.json_response({"error": "this worker needs its key"}, status=401)
        return await handler(request)

    def _answer(self, method: Callable[[dict[str, Any]], Awaitable[Any]]) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            try:
                body = wire.load(await request.read())
                if not isinstance(body, dict):
                    raise CallError(400, "the body must be a mapping")
                result = {"status": "success", "result": await method(body)}
                message = await asyncio.to_thread(wire.dump, result)
            except CallError as error:
                return web.json_response({"error": str(error)}, status=error.status)
            except wire.WireError as error:
                return web.json_response({"error": str(error)}, status=400)
            except Exception as error:  # of an engine: the caller gets it, the worker lives on
                logger.exception("a call failed")
                return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=500)
            return web.Response(body=message, content_type=wire.MEDIA_TYPE)

        return handle

    def _in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    # --- routes

    async def _health(self, _: web.Request) -> web.Response:
        content = {
            "status": "healthy",
            "engine_count": len(self._engines),
            "engines": sorted(self._engines),
        }
        return web.json_response(content)

    async def _configure(self, body: dict[str, Any]) -> None:
        from areal.utils.seeding import set_random_seed  # torch, which an idle worker needs not

        role, rank = body.get("role", self._role), body.get("rank", self._index)
        seed = int(body["config"]["seed"])
        await self._in_thread(lambda: set_random_seed(seed, key=f"{role}{rank}"))

    async def _set_env(self, body: dict[str, Any]) -> None:
        os.environ.update({str(name): str(value) for name, value in body["env"].items()})

    async def _alloc_ports(self, body: dict[str, Any]) -> list[int]:
        reserved = reserve_ports(int(body["count"]))
        self._reserved += reserved
        return [sock.getsockname()[1] for sock in reserved]

    async def _create_engine(self, body: dict[str, Any]) -> str:
        name = str(body.get("engine_name") or "engine")
        if name in self._engines:
            raise CallError(400, f"there is an engine {name!r} already; choose another name")
        cls = _engine_class(str(body.get("engine")))
        args, kwargs = body.get("init_args") or [], body.get("init_kwargs") or {}
        self._engines[name] = await self._in_thread(lambda: cls(*args, **kwargs))
        return name

    async def _call(self, body: dict[str, Any]) -> Any:
        call_id = str(body.get("call_id") or "")
        running = self._calls.get(call_id)
        if running is None:
            running = asyncio.ensure_future(self._run(body))
            if call_id:
                self._calls[call_id] = running
                finished = [key for key, call in self._calls.items() if call.done()]
                for key in finished[: max(0, len(finished) - _KEPT_RESULTS)]:
                    del self._calls[key]
        # A caller that hangs up does not end the call, which it may come back for.
        return await asyncio.shield(running)

    async def _run(self, body: dict[str, Any]) -> Any:
        engine = self._find(body.get("engine_name"))
        method = str(body.get("method"))
        offered = self._offered.get(str(body.get("engine_name")))
        is_open = not method.startswith("_") and (offered is None or method in offered)
        function = getattr(engine, method, None) if is_open else None
        if function is None:
            raise CallError(400, f"{type(engine).__name__} has no method {method!r}")
        args, kwargs = body.get("args") or [], body.get("kwargs") or {}
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)

        def call() -> Any:
            given = args, kwargs
            if (body.get("rpc_meta") or {}).get("broadcast"):
                given = _from_head(engine, given)
            # A property is read, and what is not callable returned.
            result = function(*given[0], **given[1]) if callable(function) else function
            if isinstance(result, Future):
                result = result.result()
            # `train()` returns the engine itself.
            return None if result is engine else result

        return await self._in_thread(call)

    def _find(self, name: str | None) -> Any:
        if name is None and len(self._engines) == 1:
            return next(iter(self._engines.values()))
        if name not in self._engines:
            known = ", ".join(sorted(self._engines)) or "none"
            raise CallError(404, f"there is no engine {name!r}; known: {known}")
        return self._engines[name]


def _engine_class(path: str) -> type[Any]:
    """Return the class of an engine.

    Raises:
        CallError: It is none of this package, or cannot be imported.
    """
    if path not in ENGINES and not path.startswith("areal."):
        raise CallError(400, f"{path!r} is not an engine of areal, and a worker creates no other")
    try:
        cls = import_from_string(ENGINES.get(path, path))
    except (ImportError, AttributeError, ValueError) as error:
        raise CallError(400, f"cannot import the engine {path!r}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, (TrainEngine, InferenceEngine))):
        raise CallError(400, f"{path!r} is neither a TrainEngine nor an InferenceEngine")
    return cls


def _from_head(engine: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return what the first of the processes that share their rows was called with."""
    import torch.distributed as dist  # only where there are several processes

    box = [given if engine.is_data_parallel_head() else None]
    dist.broadcast_object_list(
        box,
        src=engine.current_data_parallel_head(),
        group=engine.context_and_model_parallel_group,
    )
    found: Any = box[0]
    return found


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until this process is told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    index = arguments.worker_index
    server = RpcServer(os.environ.get(KEY_VARIABLE, ""), arguments.role, index)
    host, port = await server.start(arguments.host, arguments.port)
    name_resolve.reconfigure(
        NameResolveConfig(
            type=arguments.name_resolve_type, nfs_record_root=arguments.nfs_record_root
        )
    )
    name = names.workers(arguments.experiment_name, arguments.trial_name, arguments.role, index)
    reached = gethostip() if host == "0.0.0.0" else host
    name_resolve.add(name, f"{reached}:{port}", keepalive_ttl=_KEEPALIVE_S, replace=True)
    print(f"worker {arguments.role}/{index}: listening on {host}:{port}", flush=True)
    try:
        await ended.wait()
    finally:
        await server.stop()
        name_resolve.reset()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m areal.infra.rpc.rpc_server")
    parser.add_argument("--experiment-name", required=True)
    parser.add_argument("--trial-name", required=True)
    parser.add_argument("--role", required=True)
    # One task of several that Slurm starts from one command.
    index = int(os.environ.get("SLURM_PROCID", "0"))
    parser.add_argument("--worker-index", type=int, default=index)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name-resolve-type", default=NameResolveConfig().type)
    parser.add_argument("--nfs-record-root", default=NameResolveConfig().nfs_record_root)
    parser.add_argument("--etcd3-addr", default="", help="Not used: there is no etcd.")
    parser.add_argument("--fileroot", default="", help="Not used: engines are told where.")
    if PARENT_VARIABLE in os.environ:
        die_with(int(os.environ[PARENT_VARIABLE]))
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

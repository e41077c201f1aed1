"""How processes that train reach the rollouts of their controller, to give them weights.

A publisher of weights in a worker talks to the servers by the controller's engine, which alone
knows them: ``RolloutCallback`` takes the place of that engine.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from areal.api.cli_args import InferenceEngineConfig
from areal.api.errors import ArealError
from areal.api.io_struct import ParamSpec, WeightUpdateMeta
from areal.infra.launch import KEY_VARIABLE
from areal.infra.loop_thread import LoopThread
from areal.infra.rpc import wire
from areal.infra.rpc.rpc_server import RpcServer
from areal.utils.network import gethostip

_STOP_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 10.0
_ATTEMPTS = 3
_RETRY_DELAY_S = 0.5
# A bucket is under way while the next call may be for what is written beside it.
_NUM_THREADS = 4

# What a publisher of weights needs, and no more.
_METHODS = frozenset(
    {
        "api_key",
        "await_server",
        "config",
        "continue_generation",
        "init_weights_update_group",
        "membership_epoch",
        "offer_weights",
        "pause_generation",
        "reachable_servers",
        "update_weights_from_disk",
        "update_weights_from_distributed",
        "update_weights_from_url",
    }
)


class RolloutCallbackError(ArealError, RuntimeError):
    """A call of the controller failed, or it cannot be reached."""


class CallbackServer:
    """Answers the processes that train, for a rollout engine in this process.

    Args:
        engine: Talks to the servers.
        api_key: What callers have to know.
        is_on_one_machine: Whether all of them are on this machine.
    """

    def __init__(self, engine: Any, api_key: str, is_on_one_machine: bool) -> None:
        self._server = RpcServer(api_key, num_threads=_NUM_THREADS)
        self._server.offer("rollout", engine, _METHODS)
        self._host = "127.0.0.1" if is_on_one_machine else "0.0.0.0"
        self._thread = LoopThread("areal-callbacks")

    def start(self) -> str:
        """Start serving and return the address."""
        host, port = self._thread.start_with(self._server.start(self._host, 0))
        return f"{gethostip() if host == '0.0.0.0' else host}:{port}"

    def stop(self) -> None:
        """Stop serving; the engine is left as it is."""
        stopping = asyncio.run_coroutine_threadsafe(self._server.stop(), self._thread.loop)
        stopping.result(_STOP_TIMEOUT_S)
        self._thread.stop()


@dataclass
class RolloutCallback:
    """The rollout engine of a controller, as a process that trains sees it.

    The key is that of the worker's environment.

    Attributes:
        controller_addr: Where the controller listens, host:port.
        request_timeout: How long a call may take, in seconds.
    """

    controller_addr: str
    request_timeout: float = 600.0

    # --- what a publisher of weights calls

    @property
    def config(self) -> InferenceEngineConfig:
        found: InferenceEngineConfig = self._call("config")
        return found

    @property
    def api_key(self) -> str:
        return str(self._call("api_key"))

    @property
    def membership_epoch(self) -> int:
        return int(self._call("membership_epoch"))

    def reachable_servers(self) -> list[str]:
        found: list[str] = self._call("reachable_servers")
        return found

    def await_server(self) -> bool:
        return bool(self._call("await_server"))

    def pause_generation(self) -> None:
        self._call("pause_generation")

    def continue_generation(self) -> None:
        self._call("continue_generation")

    def offer_weights(self, meta: WeightUpdateMeta) -> None:
        self._call("offer_weights", meta)

    def init_weights_update_group(
        self, meta: WeightUpdateMeta, servers: list[str] | None = None
    ) -> Future[None]:
        return self._begin("init_weights_update_group", meta, servers=servers)

    def update_weights_from_distributed(
        self, meta: WeightUpdateMeta, param_specs: list[ParamSpec]
    ) -> Future[None]:
        return self._begin("update_weights_from_distributed", meta, param_specs)

    def update_weights_from_disk(self, meta: WeightUpdateMeta) -> Future[None]:
        return self._begin("update_weights_from_disk", meta)

    def update_weights_from_url(self, url: str, version: int) -> Future[None]:
        return self._begin("update_weights_from_url", url, version)

    # --- the way there

    def _begin(self, method: str, *args: Any, **kwargs: Any) -> Future[None]:
        threads = ThreadPoolExecutor(1, "areal-callback")
        future = threads.submit(self._call, method, *args, **kwargs)
        threads.shutdown(wait=False)
        return future

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the controller's engine, or read a property of it.

        Raises:
            RolloutCallbackError: It failed there, or the controller cannot be reached.
        """
        body = {
            "method": method,
            "engine_name": "rollout",
            "args": list(args),
            "kwargs": kwargs,
            # Runs once, however often it is sent.
            "call_id": uuid.uuid4().hex,
        }
        answer = self._attempt(lambda: self._post(wire.dump(body)))
        if answer.status_code != 200:
            raise RolloutCallbackError(f"{method} of the rollouts failed: {answer.text}")
        return wire.load(answer.content)["result"]

    def _post(self, content: bytes) -> httpx.Response:
        return httpx.post(
            f"http://{self.controller_addr}/call",
            content=content,
            headers={"Authorization": f"Bearer {os.environ.get(KEY_VARIABLE, '')}"},
            timeout=httpx.Timeout(self.request_timeout, connect=_CONNECT_TIMEOUT_S),
            trust_env=False,
        )

    def _attempt(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return send()
            except httpx.TransportError as error:
                if attempt == _ATTEMPTS:
                    raise RolloutCallbackError(
                        f"the controller at {self.controller_addr} cannot be reached: {error}"
                    ) from error
                time.sleep(_RETRY_DELAY_S)
        raise AssertionError

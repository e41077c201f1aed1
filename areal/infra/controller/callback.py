"""How processes that train reach the rollouts of their controller, to give them weights.

A publisher of weights in a worker talks to the servers by the controller's engine, which alone
knows them: ``RolloutCallback`` takes the place of that engine.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from areal.api.errors import ArealError
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

# What a publisher of weights needs, and no more: what it reads, what it waits for, and what goes on
# while it does something else.
_PROPERTIES = frozenset({"api_key", "config", "membership_epoch"})
_CALLS = frozenset(
    {
        "await_server",
        "continue_generation",
        "offer_weights",
        "pause_generation",
        "reachable_servers",
    }
)
_FUTURES = frozenset(
    {
        "init_weights_update_group",
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
        self._server.offer("rollout", engine, _PROPERTIES | _CALLS | _FUTURES)
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

    It has what a publisher of weights calls. The key is that of the worker's environment.

    Attributes:
        controller_addr: Where the controller listens, host:port.
        request_timeout: How long a call may take, in seconds.
    """

    controller_addr: str
    request_timeout: float = 600.0

    def __getattr__(self, name: str) -> Any:
        if name in _PROPERTIES:
            return self._call(name)
        if name in _CALLS:
            return functools.partial(self._call, name)
        if name in _FUTURES:
            return functools.partial(self._begin, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

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
        content = wire.dump(body)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = self._post(content)
                break
            except httpx.TransportError as error:
                if attempt == _ATTEMPTS:
                    raise RolloutCallbackError(
                        f"the controller at {self.controller_addr} cannot be reached: {error}"
                    ) from error
                time.sleep(_RETRY_DELAY_S)
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

"""A worker with an engine that does what tests ask of it: ``python -m tests.echo_worker``."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

from areal.api.engine_api import InferenceEngine
from areal.infra.rpc import rpc_server

COMMAND = "python -m tests.echo_worker"
ENGINE = "echo"


class EchoEngine(InferenceEngine):
    """Answers with what it was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("is_broken"):
            raise RuntimeError("cannot be made")
        self.made_with = [list(args), kwargs]
        self.num_calls = 0

    @property
    def initialized(self) -> bool:
        return True

    def destroy(self) -> None:
        print("destroyed", flush=True)

    def echo(self, *args: Any, **kwargs: Any) -> list[Any]:
        self.num_calls += 1
        return [list(args), kwargs]

    def later(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        threading.Timer(0.05, future.set_result, (value,)).start()
        return future

    async def asked(self, value: Any) -> Any:
        return value

    def count(self) -> int:
        return self.num_calls

    def fail(self, words: str) -> None:
        raise ValueError(words)

    def environment(self, *names: str) -> list[str | None]:
        return [os.environ.get(name) for name in names]

    def where(self) -> list[Any]:
        return [os.getpid(), os.getcwd(), sys.path]

    def start_child(self) -> int:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid

    def die(self, code: int) -> None:
        print("last words of a worker", flush=True)
        os._exit(code)


if __name__ == "__main__":
    rpc_server.ENGINES[ENGINE] = "tests.echo_worker:EchoEngine"
    rpc_server.main()

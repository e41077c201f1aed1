"""What becomes of a call whose answer does not come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from areal.api.scheduler_api import Worker
from areal.infra.rpc import wire
from areal.infra.scheduler import LocalScheduler
from areal.infra.scheduler.exceptions import EngineCallError, RPCConnectionError


class FlakyWorker(ThreadingHTTPServer):
    """Cuts the first connections after it has read the request, or answers too late."""

    def __init__(self, cuts: int = 0, late_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts, self.late_s = cuts, late_s
        self.calls: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: FlakyWorker

    def do_POST(self) -> None:
        self.server.calls.append(wire.load(self.rfile.read(int(self.headers["Content-Length"]))))
        time.sleep(self.server.late_s)
        if self.server.late_s or len(self.server.calls) <= self.server.cuts:
            self.close_connection = True
            return
        body = wire.dump({"result": "answer"})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[LocalScheduler]:
    made = LocalScheduler(
        [],
        experiment_name="e",
        trial_name="t",
        fileroot=str(tmp_path),
        http_timeout=0.5,
        max_retries=2,
        retry_delay=0.01,
    )
    yield made
    made.close()


def call(scheduler: LocalScheduler, worker: FlakyWorker) -> Any:
    """Calls an engine of a worker that the scheduler takes for one of its own."""
    scheduler._processes["a"] = []
    scheduler._workers["a/0"] = Worker("a/0", "127.0.0.1", [str(worker.server_address[1])])
    thread = threading.Thread(target=worker.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        return scheduler.call_engine("a/0", "train_batch", "e", 1)
    finally:
        worker.shutdown()
        worker.server_close()
        thread.join()


def test_a_call_whose_connection_breaks_is_sent_again_as_the_same(
    scheduler: LocalScheduler,
) -> None:
    worker = FlakyWorker(cuts=2)
    assert call(scheduler, worker) == "answer"
    assert len(worker.calls) == 3
    assert len({each["call_id"] for each in worker.calls}) == 1
    assert all(each["call_id"] for each in worker.calls)


def test_another_call_is_another(scheduler: LocalScheduler) -> None:
    ids = []
    for _ in range(2):
        worker = FlakyWorker()
        call(scheduler, worker)
        ids += [each["call_id"] for each in worker.calls]
    assert len(set(ids)) == 2


def test_a_call_that_may_have_run_is_not_sent_again(scheduler: LocalScheduler) -> None:
    worker = FlakyWorker(late_s=1.0)
    with pytest.raises(EngineCallError, match=r"train_batch on worker a/0 .* no answer in 0\.5 s"):
        call(scheduler, worker)
    assert len(worker.calls) == 1


def test_a_worker_that_stays_away_is_named(scheduler: LocalScheduler) -> None:
    worker = FlakyWorker(cuts=9)
    with pytest.raises(RPCConnectionError, match=r"worker a/0 .* cannot be reached"):
        call(scheduler, worker)
    assert len(worker.calls) == 3

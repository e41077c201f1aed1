"""Servers killed at random while rows are generated."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from areal.api.io_struct import WeightUpdateMeta
from areal.api.reward_pool.worker import die_with
from areal.infra.remote_inf_engine import RemoteInfEngine
from benchmarks.results import Result
from benchmarks.scale.servers import Ask, connected, reserved_ports
from benchmarks.settings import Settings

_NUM_SERVERS = 3
_NEW_TOKENS = 96
_AT_ONCE = 24
# A request that outlives ten servers is taken for their killer. So many rows are done between two
# kills, at whatever pace, that none of them sees as many.
_ROWS_PER_KILL = 6
_KILLS_PER_UPDATE = 10
# Nothing here is timed: on a busy machine it takes longer, and counts the same.
_TIMEOUT_S = 600.0


class _Server:
    """``areal serve`` as a fork of a process that has imported it: to import takes 6 CPU seconds.

    Args:
        model: Its folder.
        port: Where it listens.
        log_path: Where its output goes.
    """

    _forks = multiprocessing.get_context("forkserver")

    def __init__(self, model: Path, port: int, log_path: Path) -> None:
        self._forks.set_forkserver_preload(["areal.trainer.serve"])
        self._args = (str(model), port, log_path)
        self.start()

    def start(self) -> None:
        self._process = self._forks.Process(target=_serve, args=self._args, daemon=True)
        self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(model: str, port: int, log_path: Path) -> None:
    die_with(os.getppid())
    output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    from areal.trainer.serve import serve  # which the parent has imported

    serve("127.0.0.1", port, model)


@contextmanager
def _serving(model: Path, folder: Path) -> Generator[dict[str, _Server]]:
    """Run servers, and give them by their addresses."""
    folder.mkdir(parents=True, exist_ok=True)
    with reserved_ports(_NUM_SERVERS) as ports:
        servers = {f"127.0.0.1:{p}": _Server(model, p, folder / f"{p}.log") for p in ports}
        try:
            yield servers
        finally:
            for server in servers.values():
                server.kill()


def kills(settings: Settings, model: Path, folder: Path) -> Iterator[Result]:
    """Yield how many rows were lost, and how many came twice, over many kills."""
    rng = random.Random(1)
    num_rows = num_killed = 0
    workflow = Ask(prompt_len=8, new_tokens=_NEW_TOKENS)
    with (
        _serving(model, folder) as servers,
        connected(
            list(servers),
            max_concurrent_rollouts=_AT_ONCE,
            poll_interval=0.2,
            setup_timeout=_TIMEOUT_S,
            request_timeout=_TIMEOUT_S,
        ) as engine,
    ):
        while num_killed < settings.scale_kills:
            while engine.workflow_executor.get_stats().running < _AT_ONCE:
                engine.submit({"row": num_rows}, workflow)
                num_rows += 1
            _await_rows(engine, num_killed * _ROWS_PER_KILL)
            victim = servers[_random_serving(engine, rng)]
            time.sleep(rng.uniform(0.0, 0.3))  # at any moment of the answers
            victim.kill()
            num_killed += 1
            if num_killed % _KILLS_PER_UPDATE == 0:
                version = engine.get_version() + 1
                meta = WeightUpdateMeta(type="disk", path=str(model), version=version)
                engine.update_weights_from_disk(meta).result(_TIMEOUT_S)
            victim.start()
        trajectories = engine.wait(num_rows, timeout=_TIMEOUT_S)
        retries = engine.export_stats()["servers/retries"]
    whole = Counter(
        int(trajectory["rewards"][0])
        for trajectory in trajectories
        if trajectory is not None and int(trajectory["loss_mask"].sum()) == _NEW_TOKENS
    )
    note = (
        f"{num_rows} rows of {_NEW_TOKENS} tokens, {num_killed} times SIGKILL among "
        f"{_NUM_SERVERS} `areal serve`, {retries:.0f} requests resubmitted"
    )
    lost, repeated = num_rows - len(whole), whole.total() - len(whole)
    yield Result("scale.lost", "rows lost", lost, "", is_higher_better=False, note=note)
    yield Result("scale.repeated", "rows repeated", repeated, "", is_higher_better=False)


def _await_rows(engine: RemoteInfEngine, count: int) -> None:
    """Wait until so many rows are done in all."""
    give_up_at = time.monotonic() + _TIMEOUT_S
    while engine.workflow_executor.get_stats().accepted < count:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"no row gets done: {engine.obstacle()}")
        time.sleep(0.02)


def _random_serving(engine: RemoteInfEngine, rng: random.Random) -> str:
    """Wait until two servers serve, so that rows go on, and return the address of one."""
    give_up_at = time.monotonic() + _TIMEOUT_S
    while len(serving := engine.reachable_servers()) < 2:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the servers do not come back: {engine.obstacle()}")
        time.sleep(0.02)
    return rng.choice(serving)

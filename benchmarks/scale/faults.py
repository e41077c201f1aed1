"""Servers killed at random while rows are generated."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from areal.api.io_struct import WeightUpdateMeta
from areal.infra.managed_process import ManagedProcess
from areal.infra.remote_inf_engine import RemoteInfEngine
from benchmarks.results import Result
from benchmarks.scale.servers import Ask, connected, served
from benchmarks.settings import Settings

_NUM_SERVERS = 3
_NEW_TOKENS = 192
_AT_ONCE = 24
_KILLS_PER_UPDATE = 10
_TIMEOUT_S = 180.0


def kills(settings: Settings, model: Path, folder: Path) -> Iterator[Result]:
    """Yield how many rows were lost, and how many came twice, over many kills."""
    rng = random.Random(1)
    num_rows = num_killed = 0
    workflow = Ask(prompt_len=8, new_tokens=_NEW_TOKENS)
    with (
        served(model, _NUM_SERVERS, folder) as (addresses, processes),
        connected(addresses, max_concurrent_rollouts=_AT_ONCE, poll_interval=0.2) as engine,
    ):
        while num_killed < settings.scale_kills:
            while engine.workflow_executor.get_stats().running < _AT_ONCE:
                engine.submit({"row": num_rows}, workflow)
                num_rows += 1
            victim = _random_serving(engine, addresses, processes, rng)
            time.sleep(rng.uniform(0.0, 0.3))  # at any moment of the answers
            victim.signal(signal.SIGKILL)
            num_killed += 1
            if num_killed % _KILLS_PER_UPDATE == 0:
                version = engine.get_version() + 1
                meta = WeightUpdateMeta(type="disk", path=str(model), version=version)
                engine.update_weights_from_disk(meta).result(_TIMEOUT_S)
            victim.stop()
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


def _random_serving(
    engine: RemoteInfEngine,
    addresses: list[str],
    processes: list[ManagedProcess],
    rng: random.Random,
) -> ManagedProcess:
    """Wait until two servers serve, so that rows go on, and return the process of one."""
    give_up_at = time.monotonic() + _TIMEOUT_S
    while len(serving := engine.reachable_servers()) < 2:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the servers do not come back: {engine.obstacle()}")
        time.sleep(0.02)
    return processes[addresses.index(rng.choice(serving))]

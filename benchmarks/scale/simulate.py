"""Asynchronous training on paper: discrete events around the executor's admission and the fleet.

    python -m benchmarks.scale.simulate        the tables of docs/en/scale-simulation.md
    python -m benchmarks.scale.simulate --fit  which lengths and speeds come closest to verl's

Rows start as ``StalenessManager`` allows and their samples go where ``Fleet`` sends them: the code
of a real run. Simulated are the servers (a decode step takes a time that depends on how many
sequences share it), the lengths of answers, and how long training and updates take. Prefill, the
network and failures are left out.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from areal.infra.remote.fleet import BASE_VERSION, Fleet, Server
from areal.infra.staleness_manager import StalenessManager
from benchmarks.results import Result


@dataclass(frozen=True)
class Setup:
    """A run to simulate; times are in seconds.

    Args:
        rows: Of a batch.
        samples: Of a row.
        mean_tokens: Of an answer, before the limit cuts the long ones.
        sigma: Of the logarithm of the number of tokens.
        max_tokens: Limit of an answer.
        servers: That generate.
        slots: Sequences that one of them decodes together.
        step_s: A decode step by itself; ``step_s_per_sequence`` more for each sequence in it.
        train_s: On a batch.
        update_s: During which all servers and the trainer wait for new weights.
        evaluation_s: After each update, during which the trainer waits.
        holds_rows: Interrupted rows wait for the end of the evaluation too.
        off_policyness: ``max_head_offpolicyness``; verl's may be a fraction.
        max_concurrent: Rows that may run at once.
        parts: The batch is trained on in so many parts, each as soon as its rows are there.
    """

    rows: int = 512
    samples: int = 16
    mean_tokens: float = 3200.0
    sigma: float = 0.8
    max_tokens: int = 16384
    servers: int = 256
    slots: int = 64
    step_s: float = 1 / 60
    step_s_per_sequence: float = 0.0
    train_s: float = 14.6
    update_s: float = 7.0
    evaluation_s: float = 0.0
    holds_rows: bool = False
    off_policyness: float = 0
    max_concurrent: int = 1 << 30
    parts: int = 1


@dataclass
class Outcome:
    """What a simulated run came to; the steps of the warm-up are not in ``step_s`` and below.

    Args:
        step_s: From one update to the next, mean.
        wait_s: Of it, the trainer waited for rows.
        ages: Versions that the oldest token of each trained row was behind.
        started: Rows, at each start: number of the row, and version.
        ended: Rows, by number, in the order in which they ended.
    """

    step_s: float = 0.0
    wait_s: float = 0.0
    ages: list[int] = field(default_factory=list[int])
    started: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    ended: list[int] = field(default_factory=list[int])


class _Row:
    """A prompt with its samples, the unit of admission."""

    __slots__ = ("left", "number", "version")

    def __init__(self, number: int, samples: int) -> None:
        self.number = number
        self.left = samples
        self.version: int | None = None  # of its oldest token

    def __lt__(self, other: _Row) -> bool:
        return self.number < other.number


class _Engine:
    """Decodes up to ``slots`` sequences in lockstep; the others wait in order."""

    def __init__(self, server: Server, setup: Setup) -> None:
        self.server = server
        self.setup = setup
        self.depth = 0.0  # tokens that a sequence has got which was there from the start
        self.at = 0.0  # when that was so
        self.running: list[tuple[float, int, _Row]] = []  # by the depth at which they end
        self.waiting: deque[tuple[int, _Row]] = deque()
        self.is_paused = False
        self.stamp = 0

    @property
    def step_s(self) -> float:
        return self.setup.step_s + self.setup.step_s_per_sequence * len(self.running)

    def advance(self, now: float) -> None:
        if self.running and not self.is_paused:
            self.depth += (now - self.at) / self.step_s
        self.at = now

    def fill(self, version: int) -> None:
        """Let sequences that wait begin where there is room."""
        while self.waiting and len(self.running) < self.setup.slots:
            tokens, row = self.waiting.popleft()
            row.version = version if row.version is None else min(row.version, version)
            heapq.heappush(self.running, (self.depth + tokens, row.number, row))

    def next_end(self) -> float | None:
        if not self.running or self.is_paused:
            return None
        return self.at + max(self.running[0][0] - self.depth, 0.0) * self.step_s


class Simulation:
    """One run, from its first row to its last update."""

    def __init__(self, setup: Setup, seed: int = 0) -> None:
        self.setup = setup
        self.now = 0.0
        self.version = BASE_VERSION
        self.outcome = Outcome()
        self._random = np.random.default_rng(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0
        self._fleet = Fleet()
        self._engines: dict[str, _Engine] = {}
        for i in range(setup.servers):
            server = self._fleet.add(f"server-{i}", 0.0)
            self._fleet.healthy(server.address, str(i), BASE_VERSION, 0.0)
            self._engines[server.address] = _Engine(server, setup)
        self.admission = StalenessManager(
            self,
            setup.max_concurrent,
            setup.rows,
            setup.off_policyness,
        )
        self._num_rows = 0
        self._homeless: deque[tuple[int, _Row]] = deque()  # that found no server
        self._done: list[_Row] = []
        self._parts_left = setup.parts
        self._is_training = False
        self._waits_since = 0.0
        self._updates: list[tuple[float, float]] = []  # when, and how long rows were waited for
        self._waited_s = 0.0

    def get_version(self) -> int:
        return self.version

    def run(self, steps: int, warmup: int) -> Outcome:
        """Simulate ``warmup`` updates, and then ``steps`` that count."""
        self._admit()
        while len(self._updates) <= warmup + steps:
            self.now, _, act = heapq.heappop(self._events)
            act()
        (begin, waited), (end, waited_at_end) = self._updates[warmup], self._updates[-1]
        self.outcome.step_s = (end - begin) / steps
        self.outcome.wait_s = (waited_at_end - waited) / steps
        del self.outcome.ages[: warmup * self.setup.rows]
        return self.outcome

    def _at(self, when: float, act: Callable[[], None]) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (when, self._num_events, act))

    # --- rows

    def _admit(self) -> None:
        touched: dict[str, _Engine] = {}
        while self.admission.get_capacity() >= 1:
            self.admission.on_rollout_enqueued()
            self.admission.on_rollout_submitted()
            row = _Row(self._num_rows, self.setup.samples)
            self._num_rows += 1
            self.outcome.started.append((row.number, self.version))
            for tokens in self._lengths():
                self._send(tokens, row, touched)
        self._go_on(touched)

    def _lengths(self) -> list[int]:
        setup = self.setup
        middle = math.log(setup.mean_tokens) - setup.sigma**2 / 2
        drawn = self._random.lognormal(middle, setup.sigma, setup.samples)
        return np.clip(drawn, 1, setup.max_tokens).astype(int).tolist()

    def _send(self, tokens: int, row: _Row, touched: dict[str, _Engine]) -> None:
        # As the client does, which cannot know how long an answer will be.
        server = self._fleet.choose(f"{row.number}/{row.left}", self.setup.max_tokens)
        if server is None:
            self._homeless.append((tokens, row))
            return
        engine = self._engines[server.address]
        engine.waiting.append((tokens, row))
        touched[server.address] = engine

    def _go_on(self, engines: dict[str, _Engine]) -> None:
        """Have engines begin what they can, and find out when their next sequence ends."""
        for engine in engines.values():
            engine.advance(self.now)
            engine.fill(self.version)
            engine.stamp += 1
            if (end := engine.next_end()) is not None:
                self._at(end, lambda e=engine, stamp=engine.stamp: self._end(e, stamp))

    def _end(self, engine: _Engine, stamp: int) -> None:
        if stamp != engine.stamp:
            return  # something has changed since
        engine.advance(self.now)
        engine.depth, _, row = heapq.heappop(engine.running)
        self._fleet.release(engine.server, self.setup.max_tokens)
        row.left -= 1
        if not row.left:
            self.admission.on_rollout_accepted()
            self.outcome.ended.append(row.number)
            heapq.heappush(self._done, row)
            self._train()
            self._admit()
        self._go_on({engine.server.address: engine})

    # --- training

    def _train(self) -> None:
        setup = self.setup
        if self._is_training or len(self._done) < setup.rows // setup.parts:
            return
        self._waited_s += self.now - self._waits_since
        self._is_training = True
        for _ in range(setup.rows // setup.parts):
            row = heapq.heappop(self._done)
            assert row.version is not None
            self.outcome.ages.append(self.version - row.version)
        self._at(self.now + setup.train_s / setup.parts, self._trained)

    def _trained(self) -> None:
        self._parts_left -= 1
        if self._parts_left:
            self._wait()
            return
        self._parts_left = self.setup.parts
        self._fleet.update_began(self.version + 1, self.now)
        for engine in self._engines.values():
            engine.advance(self.now)
            engine.is_paused = True
            engine.stamp += 1
        self._at(self.now + self.setup.update_s, self._updated)

    def _updated(self) -> None:
        self.version += 1
        self._updates.append((self.now, self._waited_s))
        evaluated_at = self.now + self.setup.evaluation_s
        self._at(evaluated_at if self.setup.holds_rows else self.now, self._resume)
        self._at(evaluated_at, self._wait)

    def _resume(self) -> None:
        for address, engine in self._engines.items():
            self._fleet.confirmed(address, self.version)
            engine.advance(self.now)
            engine.is_paused = False
        homeless, self._homeless = self._homeless, deque()
        for tokens, row in homeless:
            self._send(tokens, row, {})
        self.admission.notify_version_changed()
        self._go_on(self._engines)
        self._admit()

    def _wait(self) -> None:
        self._is_training = False
        self._waits_since = self.now
        self._train()


# --- verl's public runs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class PublicRun:
    """A measured run to hold the simulation against; seconds a step.

    Args:
        gpus: Of the generation.
        step_s: The whole step.
        train_s: Of it, with everything that is no waiting for rows.
        staleness: None for one that trains and generates in turn, on the same GPUs.
    """

    gpus: int
    step_s: float
    train_s: float
    staleness: float | None

    def setup(self) -> Setup:
        """Return the run as the simulation takes it."""
        engines = self.gpus // 4  # tensor-parallel over four GPUs
        setup = replace(VERL, servers=engines, train_s=self.train_s)
        if self.staleness is None:
            return setup
        # 16 rows for each engine, and four parts to a batch.
        return replace(setup, off_policyness=self.staleness, max_concurrent=16 * engines, parts=4)


# Source: verl, docs/advance/fully_async.md (18 October 2025): Qwen2.5-Math-7B on H20, 512 rows of
# 16 samples, at most 28 K tokens; tables "7B" and "stale ablation". What waits for rows is "gen".
PUBLIC_RUNS = (
    PublicRun(32, 790.10, 790.10 - 357.41, None),
    PublicRun(64, 365.28, 365.28 - 150.72, None),
    PublicRun(128, 356.30, 356.30 - 177.85, None),
    PublicRun(64, 231.34, 231.34 - 128.47, 0.0),
    PublicRun(64, 171.30, 171.30 - 58.17, 0.1),
    PublicRun(64, 146.11, 146.11 - 38.88, 0.3),
    PublicRun(64, 150.63, 150.63 - 33.14, 0.5),
    PublicRun(32, 189.26, 189.26 - 28.46, 0.5),
    PublicRun(16, 294.77, 294.77 - 21.26, 0.5),
)
# The pair that the simulation has to reproduce.
SYNCHRONOUS, ASYNCHRONOUS = PUBLIC_RUNS[2], PUBLIC_RUNS[6]
# Lengths and speed are not public. They are the best of ``FITS`` by the generation of the three
# synchronous runs; no asynchronous run had a part in it.
VERL = Setup(
    mean_tokens=1800,
    sigma=0.8,
    max_tokens=28 * 1024,
    slots=1024,
    step_s=0.004,
    step_s_per_sequence=80e-6,
    update_s=0.0,
)
FITS = [
    {"sigma": sigma, "step_s": step, "step_s_per_sequence": more, "mean_tokens": mean}
    for sigma in (0.8, 1.0, 1.2, 1.4)
    for step in (0.004, 0.005, 0.006)
    for more in (20e-6, 40e-6, 80e-6)
    for mean in (800, 1200, 1800, 2700)
]


def fit() -> dict[str, float]:
    """Return which of ``FITS`` comes closest to the public generation times; two minutes."""

    def error(options: dict[str, float]) -> float:
        return sum(
            math.log(
                Simulation(replace(run.setup(), **options)).run(2, 0).wait_s
                / (run.step_s - run.train_s)
            )
            ** 2
            for run in PUBLIC_RUNS[:3]
        )

    return min(FITS, key=error)


def simulated_step_s(run: PublicRun, steps: int = 8, **options: float) -> float:
    """Return the seconds a step of a public run, simulated."""
    return Simulation(replace(run.setup(), **options)).run(steps, 4).step_s


def results() -> Iterator[Result]:
    """Yield how far the simulation is from the public pair."""
    for run, name in ((SYNCHRONOUS, "synchronous"), (ASYNCHRONOUS, "asynchronous")):
        found = simulated_step_s(run)
        yield Result(
            f"scale.simulation.{name}",
            f"simulated step beside verl's {name} one on 128 GPUs, difference",
            100 * abs(found / run.step_s - 1),
            "%",
            is_higher_better=False,
            note=f"simulated {found:.1f} s, measured {run.step_s:.1f} s",
        )


def main() -> None:
    """Print the tables of the page, or what the first of them was fitted with."""
    if "--fit" in sys.argv[1:]:
        print(fit())
        return
    print("verl: gpus staleness measured simulated (s a step), difference")
    for run in PUBLIC_RUNS:
        found = simulated_step_s(run)
        kind = "in turn" if run.staleness is None else str(run.staleness)
        print(
            f"{run.gpus:5} {kind:8} {run.step_s:7.1f} {found:7.1f} {found / run.step_s - 1:+6.0%}"
        )
    print("\n1,024 GPUs: off-policyness, s a step (of it waiting), age mean, 99 %, largest")
    for off_policyness in (0, 1, 2, 4, 8):
        _show(str(off_policyness), Setup(off_policyness=off_policyness))
    four = Setup(off_policyness=4)
    for name, setup in {
        "4, an update takes 0.5 s": replace(four, update_s=0.5),
        "4, evaluation of 20 s after each step": replace(four, evaluation_s=20.0),
        "4, the same, interrupted rows held": replace(four, evaluation_s=20.0, holds_rows=True),
        "4, 512 rows at once": replace(four, max_concurrent=512),
        "4, 1,024 rows at once": replace(four, max_concurrent=1024),
        "4, 2,048 rows at once": replace(four, max_concurrent=2048),
    }.items():
        _show(name, setup)


def _show(name: str, setup: Setup) -> None:
    found = Simulation(setup).run(12, 4 + 2 * int(setup.off_policyness))
    ages = np.array(found.ages)
    print(
        f"{name:40} {found.step_s:6.1f} ({found.wait_s:.1f})  "
        f"{ages.mean():.1f} {np.quantile(ages, 0.99):.0f} {ages.max()}"
    )


if __name__ == "__main__":
    main()

"""What the machinery around an episode costs, beside its targets and AReaL's own figures.

    python benchmarks/overhead.py            the whole table, about a minute
    python benchmarks/overhead.py --quick    a tenth of the episodes

Everything runs on CPU, in this process and its reward workers. Numbers are the best of several
rounds: what else the machine does can only make them worse. Exit status 1 if a target is missed.

Source of AReaL's figures: measured with AReaL 2.0.0 on two cores of the same kind of machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rewards  # beside this file
import torch

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.reward_api import AsyncRewardWrapper
from areal.api.workflow_api import RolloutWorkflow
from areal.experimental.trinity import TrinityWorkflow
from areal.experimental.trinity.package import load_package
from areal.infra import WorkflowExecutor
from areal.utils.character_tokenizer import character_tokenizer
from areal.workflow.rlvr import RLVRWorkflow

_ROUNDS = 3
_CONCURRENCIES = (1, 8, 64, 256, 1024)
_POOL_SIZE = 2
_ANSWER = "42"
_SLEEP_S = 0.05
_SAMPLES = 8  # rows in turn that have one prompt


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    ``target`` is None where a line only informs; ``is_ceiling`` says that less is better.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    is_ceiling: bool = False
    areal: str = ""

    @property
    def is_missed(self) -> bool:
        if self.target is None:
            return False
        return self.value > self.target if self.is_ceiling else self.value < self.target

    def __str__(self) -> str:
        bound = "at most" if self.is_ceiling else "at least"
        target = "" if self.target is None else f"{bound} {self.target:,g}"
        verdict = "" if self.target is None else ("MISSED" if self.is_missed else "ok")
        value = f"{self.value:,.3g}" if self.value < 100 else f"{self.value:,.0f}"
        return f"{self.name:<46} {value:>9} {self.unit:<11} {target:<15} {self.areal:<8} {verdict}"


class InstantEngine:
    """Answers at once, as no model does, so that only the machinery is timed."""

    def __init__(self, output: list[int]) -> None:
        self.output = output
        self.logprobs = [-0.5] * len(output)
        self.versions = [0] * len(output)

    def get_version(self) -> int:
        return 0

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        return ModelResponse(
            input_tokens=req.input_ids,
            output_tokens=self.output,
            output_logprobs=self.logprobs,
            output_versions=self.versions,
            tokenizer=req.tokenizer,
        )


class NothingWorkflow(RolloutWorkflow):
    """Ends at once and rejects itself."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> None:
        return None


class ReadyWorkflow(RolloutWorkflow):
    """Returns the same trajectory at once, so that its check is timed too."""

    def __init__(self, length: int = 64) -> None:
        ones = torch.ones((1, length), dtype=torch.int32)
        self.trajectory = {
            "input_ids": ones,
            "attention_mask": ones.bool(),
            "loss_mask": ones,
            "logprobs": -ones.float(),
            "versions": ones,
            "turn_ids": ones,
            "rewards": torch.ones(1),
        }

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any]:
        return self.trajectory


class SleepingWorkflow(RolloutWorkflow):
    """Takes 20 ms, as a short generation does."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> None:
        await asyncio.sleep(0.02)


def trinity_workflow(kind: str, tokenizer: Any, gconfig: GenerationHyperparameters) -> Any:
    """Return a workflow of Trinity-RFT that does what RLVRWorkflow does: "sync" or "async".

    "sleeping" takes 50 ms in its thread and asks nothing.
    """
    package = load_package()
    prompt = [{"role": "user", "content": "17+25="}]

    class Blocking(package.Workflow):
        can_reset = True

        def reset(self, task: Any) -> None:
            self.task = task

        def run(self) -> list[Any]:
            return self.scored(self.model.chat(prompt))

        def scored(self, answers: list[Any]) -> list[Any]:
            answers[0].reward = float(answers[0].response_text == _ANSWER)
            return answers

    class Awaiting(Blocking):
        is_async = True

        async def run_async(self) -> list[Any]:
            return self.scored(await self.model.chat_async(prompt))

    class Sleeping(Blocking):
        def run(self) -> list[Any]:
            time.sleep(_SLEEP_S)
            made = package.Experience(tokens=[1, 2], logprobs=[-0.5], reward=1.0)
            return [made]

    kinds = {"sync": Blocking, "async": Awaiting, "sleeping": Sleeping}
    return TrinityWorkflow(kinds[kind], gconfig, tokenizer)


@dataclass(frozen=True)
class Pace:
    """How fast something went."""

    per_s: float
    cpu_us: float


def best_pace(measure: Callable[[], Pace]) -> Pace:
    """Return the best of several rounds, of rate and CPU time each by itself."""
    paces = [measure() for _ in range(_ROUNDS)]
    return Pace(max(p.per_s for p in paces), min(p.cpu_us for p in paces))


def time_episodes(
    workflow: RolloutWorkflow, engine: InstantEngine, count: int, concurrency: int
) -> Pace:
    """Run rows through an executor: from the first start to the last result handed out."""
    config = InferenceEngineConfig(max_concurrent_rollouts=concurrency, consumer_batch_size=1 << 30)
    executor = WorkflowExecutor(config, engine)
    executor.initialize()
    prompts = [[{"role": "user", "content": f"{n}+25="}] for n in range(count // _SAMPLES + 1)]
    rows = [{"messages": prompts[i // _SAMPLES], "answer": _ANSWER} for i in range(count)]
    try:
        for row in rows[-10:]:  # whatever is made on first use
            executor.submit(row, workflow)
        executor.wait(min(10, count))
        executor.pause()
        for row in rows:
            executor.submit(row, workflow)
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        executor.resume()
        executor.wait(count)
        took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    finally:
        executor.destroy()
    return Pace(count / took_s, cpu_s / count * 1e6)


def time_rewards(reward_fn: Callable[..., float], count: int, concurrency: int) -> Pace:
    """Call a reward through the pool from one event loop."""

    async def main() -> Pace:
        wrapper = AsyncRewardWrapper(reward_fn, max_workers=_POOL_SIZE)
        arguments = ("17+25=", _ANSWER, list(range(32)), list(range(32)))
        await asyncio.gather(*(wrapper(*arguments, answer=_ANSWER) for _ in range(50)))
        numbers = iter(range(count))

        async def call_on() -> None:
            for _ in numbers:
                await wrapper(*arguments, answer=_ANSWER)

        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(call_on() for _ in range(concurrency)))
        took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
        return Pace(count / took_s, cpu_s / count * 1e6)

    return asyncio.run(main())


def time_import() -> float:
    """Return the seconds of a whole process that imports ``areal.api`` and one of its names."""
    times = []
    for _ in range(_ROUNDS + 2):
        start_s = time.perf_counter()
        code = "from areal.api import RolloutWorkflow"
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start_s)
    return min(times)


def measure(scale: float) -> Iterator[Figure]:
    """Yield the table line by line; ``scale`` multiplies how much of everything is run."""
    tokenizer = character_tokenizer(string.printable)
    engine = InstantEngine([*tokenizer.encode(_ANSWER), tokenizer.eos_token_id])
    gconfig = GenerationHyperparameters(max_new_tokens=8)
    count = max(int(4000 * scale), 100)

    workflow = RLVRWorkflow(rewards.inline_match, gconfig, tokenizer)
    for concurrency in _CONCURRENCIES:
        pace = best_pace(lambda c=concurrency: time_episodes(workflow, engine, count, c))
        name = f"RLVR episode, reward inline, {concurrency} at once"
        yield Figure(name, pace.cpu_us, "us CPU", 120, is_ceiling=True)
        yield Figure("", pace.per_s, "episodes/s", 4000)

    yield from measure_trinity(tokenizer, engine, gconfig, count)

    workflow = RLVRWorkflow(rewards.pooled_match, gconfig, tokenizer)
    for concurrency in _CONCURRENCIES:
        pace = best_pace(lambda c=concurrency: time_episodes(workflow, engine, count, c))
        name = f"RLVR episode, reward in the pool, {concurrency} at once"
        yield Figure(name, pace.per_s, "episodes/s", 2500)

    instant = NothingWorkflow()
    pace = best_pace(lambda: time_episodes(instant, engine, int(40_000 * scale), 64))
    yield Figure("executor, instant episodes", pace.per_s, "episodes/s", 45_000)
    ready = ReadyWorkflow()
    pace = best_pace(lambda: time_episodes(ready, engine, int(40_000 * scale), 64))
    yield Figure("the same with 7 tensors to check", pace.per_s, "episodes/s", 40_000)
    sleeping = SleepingWorkflow()
    pace = best_pace(lambda: time_episodes(sleeping, engine, max(int(6400 * scale), 640), 64))
    name = "executor, 20 ms episodes, 64 at once"
    yield Figure(name, pace.per_s, "episodes/s", 2900, areal="1,821")

    pace = best_pace(lambda: time_rewards(rewards.trivial, int(10_000 * scale), 64))
    yield Figure("reward pool, trivial rewards", pace.per_s, "calls/s", 6500)
    yield Figure("", pace.cpu_us, "us CPU")
    num_calls = max(int(800 * scale), 400)
    pace = best_pace(lambda: time_rewards(rewards.five_milliseconds, num_calls, 64))
    ideal = ideal_rate(rewards.five_milliseconds) * _POOL_SIZE
    name = f"reward pool of {_POOL_SIZE}, 5 ms rewards"
    yield Figure(name, 100 * pace.per_s / ideal, "% of ideal", 97)

    yield Figure("from areal.api import ..., whole process", time_import(), "s", 0.3, True, "6.4")


def measure_trinity(
    tokenizer: Any, engine: InstantEngine, gconfig: GenerationHyperparameters, count: int
) -> Iterator[Figure]:
    """Yield what a workflow of Trinity-RFT costs above RLVRWorkflow, both 64 at once."""
    plain = RLVRWorkflow(rewards.inline_match, gconfig, tokenizer)
    base = best_pace(lambda: time_episodes(plain, engine, count, 64))
    for kind in ("async", "sync"):
        workflow = trinity_workflow(kind, tokenizer, gconfig)
        pace = best_pace(lambda w=workflow: time_episodes(w, engine, count, 64))
        name = f"Trinity workflow, {kind}, above RLVR"
        yield Figure(name, pace.cpu_us - base.cpu_us, "us CPU", 150, is_ceiling=True)
    sleeping = trinity_workflow("sleeping", tokenizer, gconfig)
    pace = best_pace(lambda: time_episodes(sleeping, engine, 64, 64))
    one_s = 1 / best_pace(lambda: time_episodes(sleeping, engine, 1, 1)).per_s
    name = "64 sync Trinity episodes of 50 ms, beside one"
    yield Figure(name, 64 / pace.per_s / one_s, "x", 1.2, is_ceiling=True)


def ideal_rate(reward_fn: Callable[..., float]) -> float:
    """Return how often per second one process can call a function that it has at hand."""
    start_s = time.perf_counter()
    for _ in range(100):
        reward_fn()
    return 100 / (time.perf_counter() - start_s)


def main() -> int:
    """Print the table and says whether all targets are met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run a tenth of everything")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 although a target is missed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # or the collector's pauses show in every tail
    print(f"{'':<46} {'here':>9} {'':<11} {'target':<15} {'AReaL':<8}")
    figures = []
    for figure in measure(0.1 if options.quick else 1.0):
        figures.append(figure)
        print(figure, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(figure) for figure in figures]) + "\n")
    num_missed = sum(figure.is_missed for figure in figures)
    print(f"\n{num_missed} targets missed" if num_missed else "\nall targets met")
    AsyncRewardWrapper.shutdown()
    return 1 if num_missed and not options.no_fail else 0


if __name__ == "__main__":
    sys.exit(main())

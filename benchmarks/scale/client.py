"""What one client gets out of several servers, and what a request costs it."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp

from areal.api.io_struct import ModelRequest
from areal.engine.sglang_remote import SGLangBackend
from benchmarks.clock import spread
from benchmarks.results import Result
from benchmarks.scale.servers import Ask, connected, generate, instant, options
from benchmarks.settings import Settings

LATENCY_S = 0.2
SLOTS = 16
_AT_ONCE = 64
_SIZES = ((64, 16), (512, 256))


def throughput(settings: Settings, folder: Path) -> Iterator[Result]:
    """Yield how much more two and four servers of bounded capacity give than one."""
    rates: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for _ in range(settings.scale_rounds):
        for count, found in rates.items():
            found.append(_episodes_per_s(count, settings.scale_waves, folder))
    for count in (2, 4):
        # Whatever else the machine does can only make a round slower.
        ours, alone = max(rates[count]), max(rates[1])
        yield Result(
            f"scale.servers.{count}",
            f"episodes over {count} servers, {LATENCY_S * 1000:.0f} ms simulated latency",
            ours,
            "/s",
            alone,
            "one server",
            note=f"simulated: {SLOTS} answers at once in each server, no model; the best round, of "
            f"{spread(rates[count])}; one alone {spread(rates[1])}",
        )


def _episodes_per_s(count: int, waves: int, folder: Path) -> float:
    num_rows = waves * SLOTS * count
    workflow = Ask(prompt_len=64, new_tokens=16)
    with (
        instant(count, SLOTS, LATENCY_S, folder) as addresses,
        # Twice as many as are served at once, so that no server waits for the client.
        connected(addresses, max_concurrent_rollouts=2 * SLOTS * count) as engine,
    ):
        engine.pause()
        for row in range(num_rows):
            engine.submit({"row": row}, workflow)
        started = time.perf_counter()
        engine.resume()
        engine.wait(num_rows, timeout=300)
        return num_rows / (time.perf_counter() - started)


def request_cost(settings: Settings, folder: Path) -> Iterator[Result]:
    """Yield the CPU time of a request in the client, beside that of the same bytes over aiohttp."""
    with instant(2, 0, 0.0, folder) as addresses, connected(addresses) as engine:
        for prompt_len, new_tokens in _SIZES:
            prompts = [list(range(1000, 1000 + prompt_len))] * settings.scale_requests
            generate(engine, prompts[:_AT_ONCE], new_tokens)  # opens the connections
            gc.collect()
            gc.freeze()  # as the trainers do
            ours: list[float] = []
            bare: list[float] = []
            for _ in range(settings.repetitions):
                ours.append(_cpu_ms(lambda p=prompts, n=new_tokens: generate(engine, p, n)))
                bare.append(_cpu_ms(lambda p=prompts, n=new_tokens: _exchange(addresses[0], p, n)))
            per_request = [each / settings.scale_requests for each in ours]
            alone = [each / settings.scale_requests for each in bare]
            yield Result(
                f"scale.client_cpu.{prompt_len}",
                f"CPU of the client for a request, {prompt_len} tokens there, {new_tokens} back",
                statistics.median(per_request),
                "ms",
                statistics.median(alone),
                "JSON over aiohttp alone",
                is_higher_better=False,
                note=f"{_AT_ONCE} at once; {spread(per_request)}",
            )


def _cpu_ms(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def _exchange(address: str, prompts: list[list[int]], new_tokens: int) -> None:
    """Send the same requests with nothing around them."""
    backend = SGLangBackend()

    async def send_all() -> None:
        waiting = iter(prompts)
        connector = aiohttp.TCPConnector(limit=0)

        async def send_on(session: aiohttp.ClientSession) -> None:
            for prompt in waiting:
                request = ModelRequest(input_ids=prompt, gconfig=options(new_tokens))
                call = backend.build_generation_request(request, with_lora=False, version=0)
                body = json.dumps(call.payload).encode()
                async with session.post(f"http://{address}{call.endpoint}", data=body) as answer:
                    json.loads(await answer.read())

        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(send_on(session) for _ in range(_AT_ONCE)))

    asyncio.run(send_all())

"""Served weights: do they agree with the trainer's, and what does it cost to renew them?"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from areal.api.cli_args import TrainEngineConfig
from areal.api.io_struct import ModelRequest, ModelResponse, WeightUpdateMeta, WeightUpdateType
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.engine.weight_sync import WeightPublisher
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.utils.data import concat_padded_tensors
from benchmarks.clock import spread
from benchmarks.reference_model import arithmetic_prompts
from benchmarks.results import Result
from benchmarks.scale.servers import connected, generate, options, served
from benchmarks.settings import Settings

_NUM_SERVERS = 2
# The wire brings an answer as a whole: of so many short ones of different lengths, one ends at
# nearly every step, also at the first one after all of them waited.
_AT_ONCE = 32
_LONGEST = 8  # tokens
# How an update travels, and what a server counts its bytes as.
_WAYS: dict[WeightUpdateType, str] = {"disk": "disk", "http": "http", "xccl": "group"}


def drift(engine: RemoteInfEngine, weights: SharedWeights, prompts: list[list[int]]) -> Result:
    """Compare the log-probabilities of served tokens with those of the train engine."""
    answers = generate(engine, prompts, new_tokens=64)
    trainer = HFTrainEngine(TrainEngineConfig(backend="fsdp:d1"), weights)
    batch = concat_padded_tensors([_trajectory(answer) for answer in answers])
    trained_BL = trainer.forward_batch({**batch, "loss_mask": batch["loss_mask"].roll(-1, 1)})
    gap_BL = (trained_BL.roll(1, 1) - batch["logprobs"]).abs() * batch["loss_mask"]
    num_tokens = int(batch["loss_mask"].sum())
    return Result(
        "scale.drift",
        f"largest |log-probability of trainer - of server|, {num_tokens:,} tokens",
        float(gap_BL.max()),
        "",
        is_higher_better=False,
    )


def _trajectory(answer: ModelResponse) -> dict[str, torch.Tensor]:
    prompt = answer.input_tokens
    ids = torch.tensor([prompt + answer.output_tokens], dtype=torch.int32)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids, dtype=torch.bool),
        "loss_mask": torch.tensor([[0] * len(prompt) + [1] * answer.output_len]),
        "logprobs": torch.tensor([[0.0] * len(prompt) + answer.output_logprobs]),
    }


def standstill(engine: RemoteInfEngine, model: Path, rounds: int) -> Result:
    """Measure how long no token comes when weights are loaded from disk, beside the load itself."""
    prompt = [3, 4, 5, 6]

    async def measure() -> tuple[list[float], list[float]]:
        arrivals: list[tuple[float, int]] = []  # when an answer came, and its last version
        is_over = asyncio.Event()

        async def ask_on(asker: int) -> None:
            for turn in itertools.count(asker):
                if is_over.is_set():
                    return
                length = 1 + turn % _LONGEST
                request = ModelRequest(input_ids=prompt, gconfig=options(length))
                answer = await engine.agenerate(request)
                arrivals.append((time.perf_counter(), answer.output_versions[-1]))

        async def update() -> float:
            version = engine.get_version() + 1
            meta = WeightUpdateMeta(type="disk", path=str(model), version=version)
            started = time.perf_counter()
            await asyncio.wrap_future(engine.update_weights_from_disk(meta))
            return time.perf_counter() - started

        gaps: list[float] = []
        loads: list[float] = []
        for _ in range(rounds):
            loads.append(await update())  # nothing is generated
            is_over.clear()
            askers = [asyncio.create_task(ask_on(asker)) for asker in range(_AT_ONCE)]
            await _until(lambda: len(arrivals) >= 4 * _AT_ONCE)
            await update()
            version = engine.get_version()
            await _until(lambda v=version: arrivals[-1][1] == v)
            is_over.set()
            await asyncio.gather(*askers)
            first = min(at for at, found in arrivals if found == version)
            last = max(at for at, found in arrivals if found < version)
            gaps.append(first - last)
            arrivals.clear()
        return gaps, loads

    gaps, loads = ([1000 * each for each in found] for found in asyncio.run(measure()))
    load = statistics.median(loads)
    return Result(
        "scale.standstill",
        "no token comes during an update from disk, beyond the load time",
        statistics.median(gaps) - load,
        "ms",
        is_higher_better=False,
        note=f"{_AT_ONCE} answers at once; ms without a token: {spread(gaps)}; "
        f"load of an idle server: {spread(loads)}",
    )


async def _until(condition: Any, timeout_s: float = 60.0) -> None:
    give_up_at = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > give_up_at:
            raise TimeoutError(f"no answers for {timeout_s:g} s")
        await asyncio.sleep(0.001)


def traffic(
    engine: RemoteInfEngine, weights: SharedWeights, addresses: list[str], folder: Path
) -> Iterator[Result]:
    """Yield what an update by each way writes and what each server reads, in models."""
    lm = weights.lm
    model_bytes = sum(tensor.nbytes for _, tensor in lm.full_parameters())
    publisher = WeightPublisher(lm.write, lm.full_parameters, engine, lm.device)
    try:
        for way, counter in _WAYS.items():
            before = [_received(address, counter) for address in addresses]
            version = engine.get_version() + 1
            update = folder / f"weight_update_v{version}"
            publisher.publish(WeightUpdateMeta(type=way, path=str(update), version=version))
            read = [
                (_received(address, counter) - old) / model_bytes
                for address, old in zip(addresses, before, strict=True)
            ]
            if way != "xccl":  # there the folder is for servers that join, and written later
                written = sum(file.stat().st_size for file in update.glob("*.safetensors"))
                yield _bytes_result(f"{way}.written", written / model_bytes, model_bytes)
            yield _bytes_result(f"{counter}.read", max(read), model_bytes, len(addresses))
    finally:
        publisher.close()


def _bytes_result(
    key: str, models: float, model_bytes: int, num_servers: int | None = None
) -> Result:
    way, what = key.split(".")
    by = "once" if num_servers is None else f"by each of {num_servers} servers"
    return Result(
        f"scale.bytes.{key}",
        f"an update by {way}: {what} {by}, in models of {model_bytes / 1e6:.1f} MB",
        models,
        "",
        is_higher_better=False,
    )


def _received(address: str, way: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/server_info", timeout=30) as answer:
        updates: dict[str, int] = json.loads(answer.read())["updates"]
    return updates[way]


def measure(
    settings: Settings, weights: SharedWeights, tokenizer: Any, model: Path, folder: Path
) -> Iterator[Result]:
    """Yield all of it over two servers, the standstill over one of them."""
    prompts = arithmetic_prompts(tokenizer, settings.scale_prompts, equal_length=False, seed=5)
    with served(model, _NUM_SERVERS, folder) as (addresses, _):
        with connected(addresses) as engine:
            yield drift(engine, weights, prompts)
            yield from traffic(engine, weights, addresses, folder)
        with connected(addresses[:1]) as engine:
            yield standstill(engine, model, settings.repetitions)

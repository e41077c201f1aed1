"""What every inference server that a RemoteInfEngine may ask must do, whatever makes it.

Each check takes a running server; `tests/conformance/test_inference_servers.py` runs all of them
against each server. Generation is greedy, so that what is checked holds for real models too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from areal.api.cli_args import GenerationHyperparameters
from areal.api.io_struct import HttpGenerationResult, HttpRequest, ModelRequest, WeightUpdateMeta
from areal.infra.remote.http import HttpClient, RequestRefusedError, ServerFaultError
from areal.infra.remote_inf_engine import RemoteInfBackendProtocol

T = TypeVar("T")

PROMPT = [4, 5, 6, 7]
TIMEOUT_S = 60.0

# It drops its weights before it looks for new ones, and dies if it is to generate without any.
VLLM_LACKS = ("a_refused_update_leaves_the_weights",)


@dataclass
class RunningServer:
    """A server, what it speaks, and weights that it can load.

    ``slow_tokens`` is an answer's length that takes it long enough to be interrupted; scores agree
    with generation within ``tolerance``; ``lacks`` has the checks of what it does not offer.
    """

    address: str
    backend: RemoteInfBackendProtocol
    weights: str
    slow_tokens: int = 400
    tolerance: float = 1e-4
    lacks: tuple[str, ...] = ()
    client: HttpClient = field(default_factory=HttpClient)

    async def send(self, request: HttpRequest) -> Any:
        return await self.client.send(self.address, request, TIMEOUT_S)

    async def generate(
        self, input_ids: list[int], max_new_tokens: int, **options: Any
    ) -> HttpGenerationResult:
        gconfig = GenerationHyperparameters(
            max_new_tokens=max_new_tokens, ignore_eos=True, greedy=True
        ).new(**options)
        request = ModelRequest(input_ids=input_ids, gconfig=gconfig)
        built = self.backend.build_generation_request(request, with_lora=False, version=0)
        return self.backend.parse_generation_response(await self.send(built))

    async def identity(self) -> tuple[str | None, int | None]:
        instance = version = None
        for request in self.backend.get_identity_requests():
            try:
                found = self.backend.parse_identity(await self.send(request))
            except RequestRefusedError:
                continue
            instance = instance if instance is not None else found[0]
            version = version if version is not None else found[1]
        return instance, version

    async def pause(self) -> None:
        for request in self.backend.get_pause_requests():
            await self.send(request)

    async def resume(self) -> None:
        await self.send(self.backend.get_resume_request())

    async def update(self, version: int, path: str | None = None) -> None:
        meta = WeightUpdateMeta(type="disk", path=path or self.weights, version=version)
        for request in self.backend.build_disk_weight_update_requests(meta).requests:
            answer = await self.send(request)
            if isinstance(answer, dict) and answer.get("success") is False:
                raise RequestRefusedError("the update was refused", 200)


Check = Callable[[RunningServer], Coroutine[Any, Any, None]]


async def _soon(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, TIMEOUT_S)


async def _under_way(server: RunningServer) -> asyncio.Task[HttpGenerationResult]:
    """Starts a slow answer and returns once the server must be working on it."""
    task = asyncio.create_task(server.generate(PROMPT, server.slow_tokens))
    await server.generate(PROMPT, 2)  # another one overtakes it
    assert not task.done(), "slow_tokens is too small for this server"
    return task


async def answers_health(server: RunningServer) -> None:
    await server.send(server.backend.get_health_check_request())


async def generates_as_many_tokens_as_it_may(server: RunningServer) -> None:
    found = await server.generate(PROMPT, 5)
    assert len(found.output_tokens) == 5
    assert found.stop_reason == "length"


async def stops_at_a_stop_token_and_returns_it(server: RunningServer) -> None:
    tokens = (await server.generate(PROMPT, 6)).output_tokens
    found = await server.generate(PROMPT, 6, stop_token_ids=[tokens[3]], ignore_eos=False)
    assert found.output_tokens == tokens[: tokens.index(tokens[3]) + 1]
    assert found.stop_reason == "stop"


async def continues_a_prompt_with_its_own_answer(server: RunningServer) -> None:
    whole = (await server.generate(PROMPT, 6)).output_tokens
    half = (await server.generate(PROMPT, 3)).output_tokens
    rest = (await server.generate([*PROMPT, *half], 3)).output_tokens
    assert half + rest == whole


async def scores_what_it_generated_alike(server: RunningServer) -> None:
    found = await server.generate(PROMPT, 5)
    request = server.backend.build_score_request([*PROMPT, *found.output_tokens], 5, False, 0)
    scores = server.backend.parse_score_response(await server.send(request), 5)
    gaps = [abs(a - b) for a, b in zip(scores, found.output_logprobs, strict=True)]
    assert max(gaps) <= server.tolerance


async def gives_a_seed_its_stream(server: RunningServer) -> None:
    options: dict[str, Any] = {"greedy": False, "temperature": 1.0, "seed": 11}
    first, again = [await server.generate(PROMPT, 8, **options) for _ in range(2)]
    assert first.output_tokens == again.output_tokens


async def a_pause_returns_what_there_is(server: RunningServer) -> None:
    task = await _under_way(server)
    try:
        await server.pause()
        found = await _soon(task)
    finally:
        await server.resume()
    assert found.stop_reason == "abort"
    assert len(found.output_tokens) < server.slow_tokens
    whole = (await server.generate(PROMPT, len(found.output_tokens) + 1)).output_tokens
    assert found.output_tokens == whole[:-1]


async def a_pause_holds_back_and_ends(server: RunningServer) -> None:
    await server.pause()
    await server.pause()  # twice is once
    task = asyncio.create_task(server.generate(PROMPT, 2))
    try:
        await server.send(server.backend.get_health_check_request())
        assert not task.done()
    finally:
        await server.resume()
    assert len((await _soon(task)).output_tokens) == 2


async def aborts_what_runs_and_takes_more(server: RunningServer) -> None:
    task = await _under_way(server)
    await server.send(server.backend.get_abort_all_request())
    assert (await _soon(task)).stop_reason == "abort"
    assert len((await server.generate(PROMPT, 2)).output_tokens) == 2


async def an_update_is_named_from_then_on(server: RunningServer) -> None:
    instance = (await server.identity())[0]
    for version in (3, 4, 4):  # the same once more is no error
        await server.update(version)
        identity = await server.identity()
        assert identity == (instance, version), identity
        found = await server.generate(PROMPT, 3)
        assert found.output_versions in (None, [version] * 3), found


async def an_update_interrupts_what_runs(server: RunningServer) -> None:
    task = await _under_way(server)
    await server.update(5)
    found = await _soon(task)
    assert found.stop_reason == "abort"
    assert found.output_versions is None or 5 not in found.output_versions


async def an_update_from_nowhere_is_refused(server: RunningServer) -> None:
    await server.update(6)
    await _refused_update(server)
    assert (await server.identity())[1] == 6
    await server.update(8)
    assert len((await server.generate(PROMPT, 2)).output_tokens) == 2


async def a_refused_update_leaves_the_weights(server: RunningServer) -> None:
    await server.update(6)
    before = await server.generate(PROMPT, 5)
    await _refused_update(server)
    await server.resume()
    assert (await server.generate(PROMPT, 5)).output_tokens == before.output_tokens


async def _refused_update(server: RunningServer) -> None:
    try:
        await server.update(7, path="/nowhere/weight_update_v7")
    except (RequestRefusedError, ServerFaultError):
        return
    raise AssertionError("weights that are not there were loaded")


async def wrong_input_is_a_4xx_and_no_more(server: RunningServer) -> None:
    gconfig = GenerationHyperparameters(max_new_tokens=2)
    request = server.backend.build_generation_request(
        ModelRequest(input_ids=PROMPT, gconfig=gconfig), with_lora=False, version=0
    )
    name = "prompt" if "prompt" in request.payload else "input_ids"
    for wrong in ({name: {"a": 1}}, {"stream": "perhaps"}):
        broken = HttpRequest(request.endpoint, request.payload | wrong)
        try:
            await server.send(broken)
        except RequestRefusedError:
            continue
        raise AssertionError(f"{wrong} was accepted")
    assert len((await server.generate(PROMPT, 2)).output_tokens) == 2


CHECKS: list[Check] = [
    answers_health,
    generates_as_many_tokens_as_it_may,
    stops_at_a_stop_token_and_returns_it,
    continues_a_prompt_with_its_own_answer,
    scores_what_it_generated_alike,
    gives_a_seed_its_stream,
    a_pause_returns_what_there_is,
    a_pause_holds_back_and_ends,
    aborts_what_runs_and_takes_more,
    an_update_is_named_from_then_on,
    an_update_interrupts_what_runs,
    an_update_from_nowhere_is_refused,
    a_refused_update_leaves_the_weights,
    wrong_input_is_a_4xx_and_no_more,
]

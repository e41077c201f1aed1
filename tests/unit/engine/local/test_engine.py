"""The asyncio front of the embedded engine: requests, faults, pauses, weights, shutdown."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.errors import ConfigError, TrainingError
from areal.api.io_struct import ModelRequest, ModelResponse, WeightUpdateMeta
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.decoder import Decoder, Row
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.checkpoint import save_hf_model
from areal.engine.model.shared_weights import SharedWeights
from areal.infra import workflow_context
from areal.infra.workflow_context import WorkflowContext
from tests.fakes import tiny_tokenizer
from tests.tiny_models import VOCAB_SIZE, random_prompts, tiny_model

LONG = 2000
PROMPT = random_prompts([6])[0]
TOKENIZER = tiny_tokenizer("abcdefghijklmnopqrstuvwxyz0123456789+")

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def served(seed: int = 0) -> nn.Module:
    model = tiny_model("llama", seed, max_position_embeddings=LONG + 100)
    return prepare_model(model, torch.device("cpu"))


@pytest.fixture
def engine() -> Iterator[LocalInferenceEngine]:
    made = LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(served()))
    made.initialize()
    yield made
    made.destroy()


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that must not hang."""
    return asyncio.run(asyncio.wait_for(main, timeout=60))


def request(prompt: list[int] | None = None, **fields: Any) -> ModelRequest:
    own = {k: fields.pop(k) for k in ("tokenizer", "image_data") if k in fields}
    gconfig = GenerationHyperparameters(
        **{"greedy": True, "max_new_tokens": 8, "ignore_eos": True} | fields
    )
    return ModelRequest(input_ids=prompt or list(PROMPT), gconfig=gconfig, **own)


def expected_tokens(prompt: list[int], limit: int = 8) -> list[int]:
    decoder = Decoder(served())
    done = decoder.admit([Row(prompt, request().gconfig, limit)])
    while decoder.rows:
        done += decoder.advance()
    return done[0].tokens


async def until(condition: Callable[[], bool]) -> None:
    # The decode thread tells nobody outside of it; there is no event to wait for.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


# --- one request ------------------------------------------------------------------------------


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("limit", [1, 8])
def test_weights_that_are_no_numbers_are_named(
    engine: LocalInferenceEngine, greedy: bool, limit: int
) -> None:
    with torch.no_grad():
        next(engine.weights.module.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingError, match="NaN in place of log-probabilities: its weights"):
        run(engine.agenerate(request(greedy=greedy, max_new_tokens=limit)))


def test_a_response_says_what_happened(engine: LocalInferenceEngine) -> None:
    engine.set_version(3)
    asked = request(tokenizer=TOKENIZER)
    response: ModelResponse = run(engine.agenerate(asked))
    assert response.input_tokens == PROMPT
    assert response.output_tokens == expected_tokens(PROMPT)
    assert response.output_versions == [3] * 8
    assert response.stop_reason == "length"
    assert response.tokenizer is TOKENIZER
    assert len(response.output_logprobs) == 8
    assert 0 < response.ttft <= response.latency < 60
    # The request is the caller's: nothing of it is shared or changed.
    response.input_tokens.append(0)
    assert asked.input_ids == PROMPT
    assert asked.gconfig == request().gconfig


@pytest.mark.parametrize(
    ("fields", "num_tokens"),
    [
        ({"max_tokens": 10, "max_new_tokens": 50}, 4),
        ({"max_tokens": 7}, 1),
        ({"max_new_tokens": 3}, 3),
        ({"max_tokens": 10**6, "max_new_tokens": 10**6}, LONG + 100 - 6),
    ],
)
def test_an_answer_fits_the_smallest_limit(fields: dict[str, Any], num_tokens: int) -> None:
    model = prepare_model(tiny_model("llama", max_position_embeddings=64), torch.device("cpu"))
    small = LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(model))
    small.initialize()
    try:
        response = run(small.agenerate(request(**fields)))
    finally:
        small.destroy()
    assert len(response.output_tokens) == min(num_tokens, 58)
    assert response.stop_reason == "length"


BAD_REQUESTS: list[tuple[Callable[[], ModelRequest], type[Exception], str]] = [
    (lambda: request(max_tokens=6), RuntimeError, "max_tokens is 6"),
    (lambda: request([3] * (LONG + 100)), RuntimeError, "context"),
    (lambda: request(n_samples=2), ValueError, "n_samples"),
    (lambda: ModelRequest(input_ids=[]), ValueError, "input_ids"),
    (lambda: request([3, VOCAB_SIZE]), ValueError, str(VOCAB_SIZE)),
    (lambda: request([3, -1]), ValueError, "-1"),
    (lambda: request(image_data=[base64.b64encode(b"x").decode()]), ValueError, "takes text alone"),
    (lambda: request(use_beam_search=True), ConfigError, "use_beam_search"),
    (lambda: request(seed=-4), ConfigError, "seed"),
    (lambda: request(stop=["x"]), ConfigError, "tokenizer"),
]


@pytest.mark.parametrize(("make", "kind", "words"), BAD_REQUESTS)
def test_a_bad_request_fails_alone(
    engine: LocalInferenceEngine,
    make: Callable[[], ModelRequest],
    kind: type[Exception],
    words: str,
) -> None:
    async def main() -> list[Any]:
        requests = [request(), make(), request([5, 4])]
        return await asyncio.gather(*map(engine.agenerate, requests), return_exceptions=True)

    good, bad, other = run(main())
    assert isinstance(bad, kind)
    assert words in str(bad)
    assert good.output_tokens == expected_tokens(PROMPT)
    assert other.output_tokens == expected_tokens([5, 4])


def test_an_engine_that_does_not_run_says_so() -> None:
    engine = LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(served()))
    assert not engine.initialized
    with pytest.raises(RuntimeError, match="initialize"):
        run(engine.agenerate(request()))
    with pytest.raises(RuntimeError, match="initialize"):
        _ = engine.workflow_executor


# --- many requests ----------------------------------------------------------------------------


def test_requests_that_come_at_any_time_get_their_own_answers(
    engine: LocalInferenceEngine,
) -> None:
    prompts = random_prompts([1 + i % 9 for i in range(40)], seed=2)
    limits = [1 + i * 7 % 23 for i in range(40)]

    async def one(i: int) -> list[int]:
        await asyncio.sleep(0.0007 * (i * 13 % 11))
        response = await engine.agenerate(request(prompts[i], max_new_tokens=limits[i]))
        return response.output_tokens

    async def main() -> list[list[int]]:
        return await asyncio.gather(*map(one, range(40)))

    assert run(main()) == [expected_tokens(p, n) for p, n in zip(prompts, limits, strict=True)]


def test_samples_of_a_prompt_share_its_prefill(engine: LocalInferenceEngine) -> None:
    sizes: list[int] = []
    hook = engine.weights.module.register_forward_pre_hook(
        lambda _m, _a, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )

    async def main() -> Any:
        return await asyncio.gather(*(engine.agenerate(request(greedy=False)) for _ in range(8)))

    answers = run(main())
    hook.remove()
    assert sizes == [len(PROMPT)] + [8] * 7
    assert len({tuple(a.output_tokens) for a in answers}) > 4


@pytest.mark.parametrize(
    ("limit", "value", "most"), [("MAX_RUNNING_ROWS", 3, 3), ("MAX_CACHE_BYTES", 1, 1)]
)
def test_requests_beyond_the_room_wait_their_turn(
    engine: LocalInferenceEngine,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
    most: int,
) -> None:
    monkeypatch.setattr(f"areal.engine.local.engine.{limit}", value)
    run(engine.agenerate(request()))  # the cache's size is known from now on
    sizes: list[int] = []
    engine.weights.module.register_forward_pre_hook(
        lambda *_: sizes.append(len(engine._decoder.rows))
    )

    async def main() -> list[list[int]]:
        asked = (engine.agenerate(request([n % 30 + 2])) for n in range(7))
        return [answer.output_tokens for answer in await asyncio.gather(*asked)]

    assert run(main()) == [expected_tokens([n % 30 + 2]) for n in range(7)]
    assert max(sizes) == most


def test_two_event_loops_may_ask_at_once(engine: LocalInferenceEngine) -> None:
    prompts = random_prompts([4] * 24, seed=5)

    def ask(half: int) -> list[list[int]]:
        async def main() -> list[list[int]]:
            asked = [engine.agenerate(request(p)) for p in prompts[half::2]]
            return [a.output_tokens for a in await asyncio.gather(*asked)]

        return run(main())

    with ThreadPoolExecutor(2) as threads:
        halves = list(threads.map(ask, range(2)))
    assert halves == [[expected_tokens(p) for p in prompts[half::2]] for half in range(2)]


def test_a_seed_of_the_request_decides_its_answer(engine: LocalInferenceEngine) -> None:
    async def main(seed: int | None) -> tuple[int, ...]:
        noise = [engine.agenerate(request([4], greedy=False)) for _ in range(3)]
        asked = engine.agenerate(request(greedy=False, seed=seed))
        return tuple((await asyncio.gather(*noise, asked))[-1].output_tokens)

    assert run(main(7)) == run(main(7))
    assert len({run(main(seed)) for seed in (7, 8, 9)}) == 3
    assert len({run(main(None)) for _ in range(3)}) == 3


def test_samples_of_a_group_differ_although_they_share_a_seed(
    engine: LocalInferenceEngine,
) -> None:
    async def sample(task: int, i: int) -> tuple[int, ...]:
        workflow_context.set(WorkflowContext(task_id=task, sample_idx=i))
        return tuple((await engine.agenerate(request(greedy=False, seed=3))).output_tokens)

    async def main(task: int) -> list[tuple[int, ...]]:
        return await asyncio.gather(*(sample(task, i) for i in range(4)))

    group = run(main(5))
    assert len(set(group)) == 4
    assert run(main(6)) == group
    assert not set(run(main(5))) & set(group)  # the next request of the same episodes


# --- faults, cancellation, pause, shutdown ----------------------------------------------------


def test_a_fault_of_the_model_fails_who_waits_and_nobody_else(
    engine: LocalInferenceEngine,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the model is broken")

    hook = engine.weights.module.register_forward_pre_hook(fail)

    async def main() -> list[Any]:
        asked = [engine.agenerate(request(p)) for p in random_prompts([4, 5])]
        return await asyncio.gather(*asked, return_exceptions=True)

    for _ in range(2):
        failed = run(main())
        assert [str(error) for error in failed] == ["the model is broken"] * 2
    hook.remove()
    assert run(engine.agenerate(request())).output_tokens == expected_tokens(PROMPT)


def test_a_fault_of_the_engine_itself_leaves_nobody_waiting(
    engine: LocalInferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[Row]:
        raise ArithmeticError("no room can be computed")

    monkeypatch.setattr(engine, "_admit", fail)
    with pytest.raises(ArithmeticError, match="no room"):
        run(engine.agenerate(request()))
    with pytest.raises(RuntimeError, match="shut down"):
        run(engine.agenerate(request()))


def test_an_answer_that_ends_as_another_prompt_fails_is_delivered(
    engine: LocalInferenceEngine,
) -> None:
    def fail_on_prompts(_m: Any, _a: Any, kwargs: dict[str, Any]) -> None:
        if 7 in kwargs["input_ids"] and kwargs["input_ids"].numel() == 3:
            raise RuntimeError("poison")

    engine.weights.module.register_forward_pre_hook(fail_on_prompts, with_kwargs=True)

    async def main() -> list[Any]:
        ends = (40, 41, 42, 43)
        early = [asyncio.create_task(engine.agenerate(request(max_new_tokens=n))) for n in ends]
        await until(lambda: len(engine._decoder.rows) == 4)
        results = []
        while not all(task.done() for task in early):
            poisoned = engine.agenerate(request([7, 7, 7], max_new_tokens=1))
            results += await asyncio.gather(poisoned, return_exceptions=True)
        return [*results, *(await asyncio.gather(*early))]

    *poisoned, a, b, c, d = run(main())
    assert poisoned
    assert all(str(error) == "poison" for error in poisoned)
    for answer, n in zip((a, b, c, d), (40, 41, 42, 43), strict=True):
        assert answer.output_tokens == expected_tokens(PROMPT, n)


def test_a_cancelled_request_frees_its_row(engine: LocalInferenceEngine) -> None:
    async def main() -> list[int]:
        hopeless = [
            asyncio.create_task(engine.agenerate(request(max_new_tokens=LONG))) for _ in range(3)
        ]
        await until(lambda: len(engine._decoder.rows) == 3)
        for task in hopeless:
            task.cancel()
        assert await asyncio.gather(*hopeless, return_exceptions=True)
        response = await engine.agenerate(request())
        await until(lambda: not engine._decoder.rows)
        return response.output_tokens

    assert run(main()) == expected_tokens(PROMPT)


def test_a_request_that_is_cancelled_before_it_starts_never_starts(
    engine: LocalInferenceEngine,
) -> None:
    async def main() -> None:
        engine.pause_generation()
        task = asyncio.create_task(engine.agenerate(request()))
        await until(lambda: len(engine._waiting) == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        engine.continue_generation()
        assert (await engine.agenerate(request([3, 4]))).output_tokens == expected_tokens([3, 4])

    run(main())
    assert not engine._decoder.rows


def test_a_pause_holds_answers_and_loses_none(engine: LocalInferenceEngine) -> None:
    calls: list[None] = []
    engine.weights.module.register_forward_pre_hook(lambda *_: calls.append(None))

    async def main() -> Any:
        running = asyncio.create_task(engine.agenerate(request(max_new_tokens=200)))
        await until(lambda: len(calls) > 5)
        engine.pause_generation()
        waiting = asyncio.create_task(engine.agenerate(request([3, 4])))
        await asyncio.sleep(0.02)  # the running step ends
        num_calls = len(calls)
        await asyncio.sleep(0.05)
        assert len(calls) == num_calls
        assert not running.done()
        assert not waiting.done()
        engine.continue_generation()
        return (await running).output_tokens, (await waiting).output_tokens

    assert run(main()) == (expected_tokens(PROMPT, 200), expected_tokens([3, 4]))


def test_shutdown_fails_what_is_under_way(engine: LocalInferenceEngine) -> None:
    async def main() -> list[Any]:
        asked = [
            asyncio.create_task(engine.agenerate(request(max_new_tokens=LONG))) for _ in range(3)
        ]
        await until(lambda: len(engine._decoder.rows) == 3)
        await asyncio.to_thread(engine.destroy)
        return await asyncio.gather(*asked, return_exceptions=True)

    failed = run(main())
    assert all(isinstance(e, RuntimeError) and "shut down" in str(e) for e in failed)
    engine.destroy()  # a second time changes nothing
    with pytest.raises(RuntimeError, match="initialize"):
        run(engine.agenerate(request()))
    engine.initialize()
    assert run(engine.agenerate(request())).output_tokens == expected_tokens(PROMPT)


def test_a_request_on_its_way_into_a_stopped_engine_fails(engine: LocalInferenceEngine) -> None:
    async def main() -> Any:
        task = asyncio.create_task(engine.agenerate(request()))
        # Runs after the task's first part and before its request is handed over.
        asyncio.get_running_loop().call_soon(engine.destroy)
        return (await asyncio.gather(task, return_exceptions=True))[0]

    assert "shut down" in str(run(main()))


def test_a_closed_event_loop_does_no_harm(engine: LocalInferenceEngine) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(engine.agenerate(request(max_new_tokens=300)))
    loop.run_until_complete(until(lambda: len(engine._decoder.rows) == 1))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert run(engine.agenerate(request())).output_tokens == expected_tokens(PROMPT)


# --- weights ----------------------------------------------------------------------------------


def scaled(model: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= factor


def segments_agree(response: ModelResponse, factors: dict[int, float]) -> None:
    """Checks that each token's log-probability is that of the weights of its version."""
    output = response.output_tokens
    ids = torch.tensor([[*response.input_tokens, *output]])
    for version, factor in factors.items():
        reference = tiny_model("llama", max_position_embeddings=LONG + 100)
        scaled(reference, factor)
        with torch.no_grad():
            logits = reference(input_ids=ids, use_cache=False).logits[0]
        rows = logits[len(response.input_tokens) - 1 : -1].log_softmax(-1)
        expected = rows.gather(-1, torch.tensor(output)[:, None]).squeeze(-1).tolist()
        for i, label in enumerate(response.output_versions):
            if label == version:
                assert response.output_logprobs[i] == pytest.approx(expected[i], abs=2e-5)


def test_an_update_during_generation_is_labelled_token_by_token(
    engine: LocalInferenceEngine,
) -> None:
    async def main() -> list[ModelResponse]:
        asked = [
            asyncio.create_task(engine.agenerate(request(p, max_new_tokens=60, greedy=False)))
            for p in random_prompts([4, 9, 4])
        ]
        for version, factor in ((1, 1.1), (2, 0.9)):
            seen = max((r.num_generated for r in engine._decoder.rows), default=0)
            await until(lambda n=seen: any(r.num_generated > n + 8 for r in engine._decoder.rows))
            with engine.weights.writing() as module:
                scaled(module, factor)
                engine.weights.version = version
        return await asyncio.gather(*asked)

    for response in run(main()):
        assert response.output_versions == sorted(response.output_versions)
        assert set(response.output_versions) == {0, 1, 2}
        segments_agree(response, {0: 1.0, 1: 1.1, 2: 1.1 * 0.9})


def test_an_optimiser_step_never_crosses_a_decode_step(engine: LocalInferenceEngine) -> None:
    inside = threading.Event()
    crossings: list[bool] = []
    module = engine.weights.module
    module.register_forward_pre_hook(lambda *_: inside.set())
    module.register_forward_hook(lambda *_: inside.clear())

    def write() -> None:
        for _ in range(200):
            with engine.weights.writing():
                crossings.append(inside.is_set())

    async def main() -> None:
        asked = [asyncio.create_task(engine.agenerate(request(max_new_tokens=150)))]
        await until(lambda: bool(engine._decoder.rows))
        await asyncio.to_thread(write)
        await asyncio.gather(*asked)

    run(main())
    assert crossings == [False] * 200


def test_weights_come_from_disk_whole_or_not_at_all(
    engine: LocalInferenceEngine, tmp_path: Path
) -> None:
    other = tiny_model("llama", seed=9, max_position_embeddings=LONG + 100)
    save_hf_model(other, tmp_path / "new")
    before = run(engine.agenerate(request())).output_tokens
    wrong = tiny_model("llama", num_hidden_layers=3)
    save_hf_model(wrong, tmp_path / "wrong")
    with pytest.raises(ConfigError, match="does not fit"):
        engine.update_weights_from_disk(
            WeightUpdateMeta(type="disk", path=str(tmp_path / "wrong"))
        ).result()
    assert run(engine.agenerate(request())).output_tokens == before
    meta = WeightUpdateMeta(type="disk", path=str(tmp_path / "new"), version=5)
    engine.update_weights_from_disk(meta).result()
    after = run(engine.agenerate(request()))
    assert after.output_versions == [5] * 8
    assert after.output_tokens != before
    segments = torch.tensor([[*PROMPT, *after.output_tokens]])
    with torch.no_grad():
        greedy = other(input_ids=segments).logits[0, len(PROMPT) - 1 : -1].argmax(-1)
    assert greedy.tolist() == after.output_tokens

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError, UnknownNameError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.reward_api import REWARD_STATS, AsyncRewardWrapper, inline_reward
from areal.infra import workflow_context
from areal.infra.trajectory import check_trajectory
from areal.reward.arithmetic import arithmetic_reward_fn
from areal.utils import stats_tracker
from areal.workflow import RLVRWorkflow
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+=")
ROW = {"messages": [{"role": "user", "content": "12+34="}], "answer": "46"}
PROMPT_IDS = TOKENIZER.encode("12+34=")


def ids(text: str, *, with_eos: bool = True) -> list[int]:
    return TOKENIZER.encode(text) + [TOKENIZER.eos_token_id] * with_eos


def answering(text: str, *, with_eos: bool = True, version: int = 0) -> InstantEngine:
    return InstantEngine(lambda request: ids(text, with_eos=with_eos), version)


def run(workflow: RLVRWorkflow, engine: InstantEngine, row: dict[str, Any] = ROW) -> Any:
    return asyncio.run(workflow.arun_episode(engine, row))


def make(reward_fn: Any = "arithmetic", **options: Any) -> RLVRWorkflow:
    gconfig = options.pop("gconfig", GenerationHyperparameters(max_new_tokens=8))
    return RLVRWorkflow(reward_fn, gconfig, options.pop("tokenizer", TOKENIZER), **options)


def test_an_episode_has_exactly_these_tensors() -> None:
    trajectory = run(make(), answering("46", version=3))
    length = len(PROMPT_IDS) + 3
    assert {key: (value.dtype, tuple(value.shape)) for key, value in trajectory.items()} == {
        "input_ids": (torch.int32, (1, length)),
        "loss_mask": (torch.int32, (1, length)),
        "logprobs": (torch.float32, (1, length)),
        "versions": (torch.int32, (1, length)),
        "turn_ids": (torch.int32, (1, length)),
        "attention_mask": (torch.bool, (1, length)),
        "rewards": (torch.float32, (1,)),
    }
    check_trajectory(trajectory, "rlvr")
    prompt = len(PROMPT_IDS)
    assert trajectory["input_ids"].tolist() == [PROMPT_IDS + ids("46")]
    assert trajectory["loss_mask"].tolist() == [[0] * prompt + [1, 1, 1]]
    assert trajectory["logprobs"].tolist() == [[0.0] * prompt + [-0.5, -0.75, -1.0]]
    assert trajectory["versions"].tolist() == [[-1] * prompt + [3, 3, 3]]
    assert trajectory["turn_ids"].tolist() == [[-1] * prompt + [0, 0, 0]]
    assert trajectory["attention_mask"].all()
    assert trajectory["rewards"].tolist() == [1.0]


def test_a_wrong_answer_and_an_empty_one_score_zero() -> None:
    assert run(make(), answering("47"))["rewards"].item() == 0.0
    empty = run(make(), answering("", with_eos=False))
    assert empty["rewards"].item() == 0.0
    assert empty["loss_mask"].sum().item() == 0


def test_the_reward_gets_the_sample_by_position_and_the_row_by_keyword() -> None:
    seen: list[Any] = []

    @inline_reward
    def record(*args: Any, **kwargs: Any) -> float:
        seen.append((args, kwargs))
        return 0.25

    assert run(make(record), answering("46"))["rewards"].item() == 0.25
    assert seen == [(("12+34=", "46", PROMPT_IDS, ids("46")), ROW)]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (ids("46"), "46"),
        (ids("46", with_eos=False), "46"),
        ([*ids("46"), TOKENIZER.pad_token_id], "46"),
        ([*ids("4"), *ids("6")], "4<eos>6"),
        ([TOKENIZER.eos_token_id], ""),
    ],
)
def test_the_text_ends_before_the_tokens_that_stopped_it(output: list[int], text: str) -> None:
    seen: list[str] = []

    @inline_reward
    def record(prompt: str, completions: str, *args: Any, **kwargs: Any) -> float:
        seen.append(completions)
        return 1.0

    trajectory = run(make(record), InstantEngine(lambda request: output))
    assert seen == [text]
    assert trajectory["input_ids"].tolist() == [PROMPT_IDS + output], "all tokens are trained on"


def test_a_column_named_like_an_argument_does_not_collide() -> None:
    @inline_reward
    def reward(
        prompt: str,
        completions: str,
        prompt_ids: Any,
        completion_ids: Any,
        answer: str,
        **kwargs: Any,
    ) -> float:
        return float(prompt == "12+34=" and "prompt" not in kwargs)

    row = {**ROW, "prompt": "something else", "completions": "46"}
    assert run(make(reward), answering("46"), row)["rewards"].item() == 1.0


@pytest.mark.parametrize(
    "reward_fn",
    [
        "arithmetic",
        "areal.reward.arithmetic.arithmetic_reward_fn",
        "areal.reward.arithmetic:arithmetic_reward_fn",
        arithmetic_reward_fn,
        AsyncRewardWrapper(arithmetic_reward_fn),
    ],
)
def test_a_reward_may_be_a_name_a_path_a_function_or_wrapped(reward_fn: Any) -> None:
    workflow = make(reward_fn)
    assert workflow.reward_fn is reward_fn
    assert run(workflow, answering("46"))["rewards"].item() == 1.0
    assert workflow.async_reward_fn.reward_fn is arithmetic_reward_fn
    assert workflow.async_reward_fn is workflow.async_reward_fn


class Doubtful(RLVRWorkflow):
    """Sets a wrapper with options of its own, as code written for AReaL does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.async_reward_fn = AsyncRewardWrapper(self.reward_fn, timeout_seconds=5)


class Generous(RLVRWorkflow):
    """Sets a coroutine function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

        async def generous(*sample: Any, **row: Any) -> float:
            return 0.25

        self.async_reward_fn = generous


@pytest.mark.parametrize(("workflow_class", "reward"), [(Doubtful, 1.0), (Generous, 0.25)])
def test_a_subclass_may_set_the_wrapped_reward(
    workflow_class: type[RLVRWorkflow], reward: float
) -> None:
    gconfig = GenerationHyperparameters(max_new_tokens=8)
    workflow = workflow_class(arithmetic_reward_fn, gconfig, TOKENIZER)
    chosen = workflow.async_reward_fn
    assert run(workflow, answering("46"))["rewards"].item() == reward
    assert workflow.async_reward_fn is chosen
    workflow.async_reward_fn = None
    assert run(workflow, answering("46"))["rewards"].item() == 1.0


def test_a_reward_name_is_looked_up_at_the_first_episode() -> None:
    workflow = make("arithmetics")
    with pytest.raises(UnknownNameError, match="did you mean 'arithmetic'"):
        run(workflow, answering("46"))


def test_a_reward_in_the_pool_gives_the_same() -> None:
    workflow = make("areal.reward.gsm8k:gsm8k_reward_fn")
    assert run(workflow, answering("46"), {**ROW, "answer": "#### 46"})["rewards"].item() == 1.0


@inline_reward
def broken_reward_fn(*args: Any, **kwargs: Any) -> float:
    raise RuntimeError("the grader is down")


def test_a_reward_that_fails_rejects_the_episode_and_is_counted() -> None:
    assert run(make(broken_reward_fn), answering("46")) is None
    assert REWARD_STATS.export()["reward/failures"] == 1.0
    assert "rollout/reward" not in stats_tracker.get("rollout").export()


def test_an_unusable_gold_answer_rejects_the_episode_and_is_no_zero() -> None:
    assert run(make(), answering("46"), {**ROW, "answer": "unknown"}) is None
    assert REWARD_STATS.export()["reward/failures"] == 1.0


def test_a_reward_that_cannot_be_called_is_an_error() -> None:
    with pytest.raises(ConfigError, match="must be callable"):
        run(make(42), answering("46"))


def test_an_engine_that_fails_fails_the_episode() -> None:
    def fail(request: ModelRequest) -> list[int]:
        raise ConnectionError("no server")

    with pytest.raises(ConnectionError, match="no server"):
        run(make(), InstantEngine(fail))


@pytest.mark.parametrize(("is_eval", "scope"), [(False, "rollout"), (True, "eval-rollout")])
def test_the_reward_is_tracked_by_scope(is_eval: bool, scope: str) -> None:
    async def episodes() -> None:
        workflow_context.set(workflow_context.WorkflowContext(is_eval=is_eval))
        workflow = make()
        await workflow.arun_episode(answering("46"), ROW)
        await workflow.arun_episode(answering("47"), ROW)

    asyncio.run(episodes())
    assert stats_tracker.get(scope).export()[f"{scope}/reward"] == 0.5


def test_requests_ask_for_one_sample_and_stop_at_eos_and_pad() -> None:
    gconfig = GenerationHyperparameters(n_samples=8, max_new_tokens=5, stop_token_ids=[7])
    engine = answering("46")
    run(make(gconfig=gconfig), engine)
    (request,) = engine.requests
    assert request.gconfig.n_samples == 1
    assert request.gconfig.max_new_tokens == 5
    assert request.gconfig.stop_token_ids == [7, TOKENIZER.pad_token_id, TOKENIZER.eos_token_id]
    assert request.tokenizer is TOKENIZER
    assert gconfig.stop_token_ids == [7], "the caller's configuration stays as it was"
    assert gconfig.n_samples == 8


def test_concurrent_episodes_do_not_mix() -> None:
    async def episodes() -> list[Any]:
        workflow = make()
        rows = [
            {"messages": [{"role": "user", "content": f"{n}+1="}], "answer": str(n + 1)}
            for n in range(20)
        ]

        def reply(request: ModelRequest) -> list[int]:
            number = TOKENIZER.decode(request.input_ids).split("+")[0]
            return ids(str(int(number) + 1))

        engine = InstantEngine(reply)
        return await asyncio.gather(*(workflow.arun_episode(engine, row) for row in rows))

    trajectories = asyncio.run(episodes())
    assert [t["rewards"].item() for t in trajectories] == [1.0] * 20
    texts = [TOKENIZER.decode(t["input_ids"][0].tolist()) for t in trajectories]
    assert texts == [f"{n}+1={n + 1}<eos>" for n in range(20)]


def test_the_samples_of_a_prompt_render_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    render = TOKENIZER.apply_chat_template
    monkeypatch.setattr(
        TOKENIZER,
        "apply_chat_template",
        lambda messages, **kwargs: rendered.append(messages) or render(messages, **kwargs),
    )
    engine = answering("46")
    workflow = make()
    messages = [{"role": "user", "content": "1+1="}]
    for _ in range(3):
        run(workflow, engine, {"messages": messages, "answer": "2"})
        engine.requests[-1].input_ids.append(0)  # a request is its owner's
    messages[0]["content"] = "1+2="
    run(workflow, engine, {"messages": messages, "answer": "3"})
    workflow.enable_thinking = True
    run(workflow, engine, {"messages": messages, "answer": "3"})
    assert len(rendered) == 3
    asked = [TOKENIZER.decode(request.input_ids) for request in engine.requests]
    assert [text[:4] for text in asked] == ["1+1="] * 3 + ["1+2="] * 2
    assert all(len(request.input_ids) == 5 for request in engine.requests[:3])


def test_the_reward_gets_the_prompt_that_the_engine_went_on_from() -> None:
    seen: list[Any] = []

    @inline_reward
    def record(prompt: str, completions: str, prompt_ids: list[int], *args: Any, **row: Any) -> int:
        seen.append((prompt, prompt_ids))
        return 1

    class Cutting(InstantEngine):
        async def agenerate(self, req: ModelRequest) -> ModelResponse:
            del req.input_ids[:-4]
            return await super().agenerate(req)

    workflow = make(record)
    for engine in (answering("46"), Cutting(lambda request: ids("46")), answering("46")):
        run(workflow, engine)
    assert seen == [("12+34=", PROMPT_IDS), ("+34=", PROMPT_IDS[-4:]), ("12+34=", PROMPT_IDS)]


def backwards(prompt: str, tokenizer: Any, enable_thinking: bool) -> list[int]:
    return tokenizer.encode(prompt[::-1] + ("+" if enable_thinking else ""))


def question_of(data: dict[str, Any]) -> str:
    return data["question"]


@pytest.mark.parametrize("is_path", [False, True])
def test_prompt_and_tokens_can_be_made_another_way(
    is_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions: dict[str, Any] = {
        "get_input_ids_fn": backwards,
        "data_extract_prompt_fn": question_of,
    }
    if is_path:
        module = types.ModuleType("prompt_functions_of_a_user")
        vars(module).update(backwards=backwards, question_of=question_of)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        functions = {key: f"{module.__name__}.{f.__name__}" for key, f in functions.items()}
    engine = answering("46")
    workflow = make(enable_thinking=True, **functions)
    run(workflow, engine, {"question": "=43+21", "answer": "46"})
    assert TOKENIZER.decode(engine.requests[0].input_ids) == "12+34=+"


def test_the_tokenizer_may_be_a_folder(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(str(tmp_path))
    workflow = make(tokenizer=str(tmp_path))
    trajectory = run(workflow, answering("46"))
    assert trajectory["input_ids"].tolist() == [PROMPT_IDS + ids("46")]

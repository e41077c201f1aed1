from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError, TrajectoryError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.reward_api import REWARD_STATS, inline_reward
from areal.infra.trajectory import check_trajectory
from areal.utils import stats_tracker
from areal.workflow import MultiTurnWorkflow
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ROW = {"messages": [{"role": "user", "content": "12+34="}], "answer": "46"}
# As most chat models write it; the closing token is the end-of-sequence token.
CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
# Writes the last answer in another way than earlier ones, as templates of reasoning models do.
THINKING_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>"
    "{% if m['role'] == 'assistant' and loop.last %}<think></think>{% endif %}"
    "{{ m['content'] }}<eos>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def chat_tokenizer(template: str = CHAT_TEMPLATE) -> Any:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def script(tokenizer: Any, *answers: str, stops: bool = True) -> InstantEngine:
    """Makes an engine that gives these answers one after the other."""
    left = list(answers)
    end = [tokenizer.eos_token_id] * stops
    return InstantEngine(lambda request: tokenizer.encode(left.pop(0)) + end, version=5)


def make(
    tokenizer: Any = TOKENIZER, max_turns: int = 3, turn_discount: float = 0.5, **options: Any
):
    gconfig = options.pop("gconfig", GenerationHyperparameters(max_new_tokens=64))
    reward_fn = options.pop("reward_fn", "arithmetic")
    options.setdefault("feedback", "Wrong.")
    return MultiTurnWorkflow(reward_fn, gconfig, tokenizer, max_turns, turn_discount, **options)


def run(workflow: MultiTurnWorkflow, engine: InstantEngine, row: dict[str, Any] = ROW) -> Any:
    return asyncio.run(workflow.arun_episode(engine, row))


def learned_text(tokenizer: Any, trajectory: dict[str, torch.Tensor], turn: int) -> str:
    chosen = trajectory["turn_ids"][0] == turn
    assert trajectory["loss_mask"][0][chosen].all()
    return tokenizer.decode(trajectory["input_ids"][0][chosen].tolist())


def test_a_right_first_answer_is_one_turn_without_discount() -> None:
    trajectory = run(make(), script(TOKENIZER, "46"))
    assert trajectory["rewards"].tolist() == [1.0]
    assert set(trajectory["turn_ids"][0].tolist()) == {-1, 0}


def test_an_episode_has_exactly_these_tensors() -> None:
    trajectory = run(make(), script(TOKENIZER, "47", "46"))
    (_, length) = trajectory["input_ids"].shape
    assert {key: (value.dtype, tuple(value.shape)) for key, value in trajectory.items()} == {
        "input_ids": (torch.int32, (1, length)),
        "loss_mask": (torch.int32, (1, length)),
        "logprobs": (torch.float32, (1, length)),
        "versions": (torch.int32, (1, length)),
        "turn_ids": (torch.int32, (1, length)),
        "attention_mask": (torch.bool, (1, length)),
        "rewards": (torch.float32, (1,)),
    }
    check_trajectory(trajectory, "multi_turn")


@pytest.mark.parametrize(
    ("answers", "reward", "num_turns"),
    [
        (["46"], 1.0, 1),
        (["47", "46"], 0.5, 2),
        (["47", "48", "46"], 0.25, 3),
        (["47", "48", "49"], 0.0, 3),
    ],
)
def test_each_retry_discounts_the_reward(answers: list[str], reward: float, num_turns: int) -> None:
    engine = script(TOKENIZER, *answers, "46")
    trajectory = run(make(), engine)
    assert trajectory["rewards"].tolist() == [reward]
    assert len(engine.requests) == num_turns
    exported = stats_tracker.get("rollout").export()
    assert exported["rollout/reward"] == reward
    assert exported["rollout/num_turns"] == num_turns


@pytest.mark.parametrize("template", [None, CHAT_TEMPLATE, THINKING_TEMPLATE])
@pytest.mark.parametrize("stops", [True, False])
def test_each_prompt_is_token_for_token_what_went_before(template: str | None, stops: bool) -> None:
    tokenizer = TOKENIZER if template is None else chat_tokenizer(template)
    engine = script(tokenizer, "47", "48", "46", stops=stops)
    trajectory = run(make(tokenizer), engine)
    tokens = trajectory["input_ids"][0].tolist()
    is_output = trajectory["loss_mask"][0].bool()
    for turn, request in enumerate(engine.requests):
        start = int((trajectory["turn_ids"][0] == turn).nonzero()[0])
        assert request.input_ids == tokens[:start]
        assert learned_text(tokenizer, trajectory, turn) == ["47", "48", "46"][turn] + (
            "<eos>" if stops else ""
        )
    assert trajectory["versions"][0][is_output].eq(5).all()
    assert trajectory["versions"][0][~is_output].eq(-1).all()
    assert trajectory["logprobs"][0][~is_output].eq(0).all()
    assert trajectory["turn_ids"][0][~is_output].eq(-1).all()


def test_the_samples_of_a_row_render_its_prompt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = chat_tokenizer()
    rendered: list[Any] = []
    render = tokenizer.apply_chat_template
    monkeypatch.setattr(
        tokenizer,
        "apply_chat_template",
        lambda messages, **options: rendered.append(messages) or render(messages, **options),
    )
    workflow = make(tokenizer)
    first, second = (run(workflow, script(tokenizer, "1", "46")) for _ in range(2))
    assert torch.equal(first["input_ids"], second["input_ids"])
    assert [messages for messages in rendered if messages == ROW["messages"]] == [ROW["messages"]]


def test_the_conversation_reads_as_the_template_writes_it() -> None:
    tokenizer = chat_tokenizer()
    trajectory = run(make(tokenizer), script(tokenizer, "47", "46"))
    text = tokenizer.decode(trajectory["input_ids"][0].tolist())
    assert text == ("<user>12+34=<eos>\n<assistant>47<eos>\n<user>Wrong.<eos>\n<assistant>46<eos>")


def test_an_answer_that_ran_out_of_tokens_is_closed_by_the_template() -> None:
    tokenizer = chat_tokenizer()
    trajectory = run(make(tokenizer), script(tokenizer, "47", "46", stops=False))
    text = tokenizer.decode(trajectory["input_ids"][0].tolist())
    assert text == "<user>12+34=<eos>\n<assistant>47<eos>\n<user>Wrong.<eos>\n<assistant>46"
    closing = text.index("47") + len("47")
    assert trajectory["loss_mask"][0].sum() == 4, "the closing token was not generated"
    assert "<eos>" in text[closing : closing + 5]


def test_templates_that_write_the_last_answer_differently_leave_no_trace() -> None:
    tokenizer = chat_tokenizer(THINKING_TEMPLATE)
    trajectory = run(make(tokenizer), script(tokenizer, "47", "46"))
    assert "think" not in tokenizer.decode(trajectory["input_ids"][0].tolist())


def test_a_context_that_is_full_ends_the_episode_with_what_there_is() -> None:
    tight = GenerationHyperparameters(max_new_tokens=8, max_tokens=14)
    engine = script(TOKENIZER, "47", "46")
    trajectory = run(make(gconfig=tight), engine)
    assert len(engine.requests) == 1
    assert trajectory["rewards"].tolist() == [0.0]
    assert trajectory["input_ids"].shape[1] == len("12+34=") + 3, "no feedback without an answer"


def test_the_reward_gets_the_prompt_so_far_and_the_last_answer() -> None:
    seen: list[tuple[str, str]] = []

    @inline_reward
    def record(prompt: str, completions: str, *args: Any, **kwargs: Any) -> float:
        seen.append((prompt, completions))
        return float(completions == "46")

    tokenizer = chat_tokenizer()
    run(make(tokenizer, reward_fn=record), script(tokenizer, "47", "46"))
    first = "<user>12+34=<eos>\n<assistant>"
    second = first + "47<eos>\n<user>Wrong.<eos>\n<assistant>"
    assert seen == [(first, "47"), (second, "46")]


def test_a_negative_reward_is_no_reason_to_retry() -> None:
    @inline_reward
    def minus(*args: Any, **kwargs: Any) -> float:
        return -1.0

    engine = script(TOKENIZER, "47", "46")
    assert run(make(reward_fn=minus), engine)["rewards"].tolist() == [-1.0]
    assert len(engine.requests) == 1


def test_a_reward_that_fails_rejects_the_episode_and_is_counted() -> None:
    assert run(make(), script(TOKENIZER, "47"), {**ROW, "answer": "unknown"}) is None
    assert REWARD_STATS.export()["reward/failures"] == 1.0


def test_an_engine_that_continues_another_prompt_is_refused() -> None:
    class Forgetful(InstantEngine):
        async def agenerate(self, req: ModelRequest) -> ModelResponse:
            response = await super().agenerate(req)
            response.input_tokens = response.input_tokens[-4:]
            return response

    with pytest.raises(TrajectoryError, match="4 prompt tokens that are not the 6"):
        run(make(), Forgetful(lambda request: TOKENIZER.encode("46")))


def test_the_default_feedback_does_not_give_the_answer_away() -> None:
    engine = script(TOKENIZER, "47", "46")
    workflow = MultiTurnWorkflow(
        "arithmetic", GenerationHyperparameters(max_new_tokens=8), TOKENIZER, 2, 1.0
    )
    assert run(workflow, engine)["rewards"].tolist() == [1.0]
    said = TOKENIZER.decode(engine.requests[1].input_ids)
    assert "not correct" in said
    assert "46" not in said


@pytest.mark.parametrize(
    ("max_turns", "turn_discount", "message"),
    [
        (0, 0.5, "max_turns"),
        (-1, 0.5, "max_turns"),
        (1, 0.0, "turn_discount"),
        (1, 1.5, "turn_discount"),
        (1, -0.5, "turn_discount"),
    ],
)
def test_impossible_options_are_refused(max_turns: int, turn_discount: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(max_turns=max_turns, turn_discount=turn_discount)


def test_a_template_that_drops_answers_is_refused() -> None:
    tokenizer = chat_tokenizer(
        "{% for m in messages %}{% if m['role'] == 'user' %}"
        "{{ m['content'] }}{% endif %}{% endfor %}"
    )
    with pytest.raises(ConfigError, match="leaves out what the assistant said"):
        run(make(tokenizer), script(tokenizer, "47", "46"))

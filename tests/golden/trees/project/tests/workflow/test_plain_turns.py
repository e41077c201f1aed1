"""Tests of ``my_rl.workflow.plain_turns``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import torch
from areal.api import ModelRequest, ModelResponse
from areal.api.cli_args import GenerationHyperparameters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import my_rl.workflow.plain_turns as module

# YOURS: add a wrong completion and words that your feedback to it holds
FEEDBACK_CASES = [
    ("6", "wrong"),
]

CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Makes a byte tokenizer with a chat template, so that nothing is downloaded."""
    specials = ["<pad>", "<eos>", "<system>", "<user>", "<assistant>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.add_special_tokens(specials)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", chat_template=CHAT
    )


class ScriptedEngine:
    """Answers with prepared texts in turn and remembers the requests."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *replies: str) -> None:
        self.tokenizer = tokenizer
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        self.requests.append(req.copy())
        tokens = self.tokenizer.encode(self.replies.pop(0) + "<eos>", add_special_tokens=False)
        return ModelResponse(
            input_tokens=list(req.input_ids),
            output_tokens=tokens,
            output_logprobs=[-0.1 * (n + 1) for n in range(len(tokens))],
            output_versions=[7] * len(tokens),
            stop_reason="stop",
            tokenizer=req.tokenizer,
        )


class InlineReward:
    """Calls the reward in this process; the pool of processes has tests of its own."""

    def __init__(self, reward_fn: Callable[..., float]) -> None:
        self.reward_fn = reward_fn

    async def __call__(self, *args: Any, **kwargs: Any) -> float:
        return self.reward_fn(*args, **kwargs)


def is_right(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: str,
    **kwargs: Any,
) -> float:
    return float(completions == answer)


def run_episode(
    monkeypatch: pytest.MonkeyPatch, *replies: str, max_turns: int = 2, discount: float = 0.5
) -> tuple[ScriptedEngine, dict[str, Any]]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    tokenizer = make_tokenizer()
    engine = ScriptedEngine(tokenizer, *replies)
    workflow_class = module.PlainTurnsWorkflow
    gconfig = GenerationHyperparameters()
    workflow = workflow_class(is_right, gconfig, tokenizer, max_turns, discount)
    row = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    assert trajectory is not None
    return engine, trajectory


def test_stops_at_the_first_right_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, trajectory = run_episode(monkeypatch, "5", max_turns=3)
    assert len(engine.requests) == 1
    assert trajectory["rewards"].tolist() == [1.0]


def test_trains_on_every_turn_and_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, trajectory = run_episode(monkeypatch, "6", "5")
    first, second = (len(request.input_ids) for request in engine.requests)
    between = second - first - 2
    turns = [-1] * first + [0, 0] + [-1] * between + [1, 1]
    assert trajectory["rewards"].tolist() == [0.5]
    assert trajectory["turn_ids"].tolist() == [turns]
    assert trajectory["loss_mask"].tolist() == [[int(turn >= 0) for turn in turns]]
    assert trajectory["versions"].tolist() == [[7 if turn >= 0 else -1 for turn in turns]]
    expected = [0.0] * first + [-0.1, -0.2] + [0.0] * between + [-0.1, -0.2]
    torch.testing.assert_close(trajectory["logprobs"], torch.tensor([expected]))
    assert trajectory["input_ids"][0, :second].tolist() == engine.requests[1].input_ids


def test_a_wrong_last_turn_ends_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, trajectory = run_episode(monkeypatch, "6", "7", max_turns=2)
    assert len(engine.requests) == 2
    assert trajectory["rewards"].tolist() == [0.0]


@pytest.mark.parametrize(("completion", "expected"), FEEDBACK_CASES)
def test_the_next_turn_reads_the_feedback(
    monkeypatch: pytest.MonkeyPatch, completion: str, expected: str
) -> None:
    engine, _ = run_episode(monkeypatch, completion, "5")
    prompt = engine.tokenizer.decode(engine.requests[1].input_ids)
    start, answered, rest = prompt.partition(f"<assistant>{completion}<eos>")
    assert answered, start
    assert rest.startswith("<user>")
    assert rest.endswith("<eos><assistant>")
    assert expected in rest


@pytest.mark.parametrize(("max_turns", "discount"), [(0, 1.0), (1, 0.0), (1, 1.5)])
def test_refuses_impossible_settings(
    monkeypatch: pytest.MonkeyPatch, max_turns: int, discount: float
) -> None:
    with pytest.raises(ValueError, match="max_turns"):
        run_episode(monkeypatch, "5", max_turns=max_turns, discount=discount)

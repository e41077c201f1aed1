"""Tests of ``my_rl.workflow.told``."""

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

import my_rl.workflow.told as module

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
    monkeypatch: pytest.MonkeyPatch, reply: str
) -> tuple[ScriptedEngine, dict[str, Any]]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    tokenizer = make_tokenizer()
    engine = ScriptedEngine(tokenizer, reply)
    workflow_class = module.ToldWorkflow
    workflow = workflow_class(is_right, GenerationHyperparameters(), tokenizer)
    row = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    assert trajectory is not None
    return engine, trajectory


@pytest.mark.parametrize(("reply", "reward"), [("5", 1.0), ("6", 0.0)])
def test_trains_on_the_completion_and_on_nothing_else(
    monkeypatch: pytest.MonkeyPatch, reply: str, reward: float
) -> None:
    engine, trajectory = run_episode(monkeypatch, reply)
    prompt = len(engine.requests[0].input_ids)
    text = engine.tokenizer.decode(trajectory["input_ids"][0])
    assert text.endswith(f"<user>2+3?<eos><assistant>{reply}<eos>")
    assert trajectory["rewards"].tolist() == [reward]
    assert trajectory["attention_mask"].all()
    assert trajectory["loss_mask"].tolist() == [[0] * prompt + [1, 1]]
    assert trajectory["versions"].tolist() == [[-1] * prompt + [7, 7]]
    assert trajectory["turn_ids"].tolist() == [[-1] * prompt + [0, 0]]
    torch.testing.assert_close(
        trajectory["logprobs"], torch.tensor([[0.0] * prompt + [-0.1, -0.2]])
    )


def test_asks_for_one_sample_that_may_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = run_episode(monkeypatch, "5")
    (request,) = engine.requests
    assert request.gconfig.n_samples == 1
    assert engine.tokenizer.eos_token_id in request.gconfig.stop_token_ids


def test_the_system_prompt_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = run_episode(monkeypatch, "5")
    prompt = engine.tokenizer.decode(engine.requests[0].input_ids)
    assert prompt.startswith("<system>" + module.SYSTEM_PROMPT + "<eos>")

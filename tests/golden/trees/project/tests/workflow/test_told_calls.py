"""Tests of ``my_rl.workflow.told_calls``, whose tools run in workers as they do in training."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from areal.api import ModelRequest, ModelResponse
from areal.api.cli_args import GenerationHyperparameters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import my_rl.workflow.told_calls as module

# YOURS: a call of each tool, with its name, its arguments and what the model then reads
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("add", {"a": 2, "b": 3}, "5"),
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


CALL = "{% for c in m.tool_calls or [] %}<tool_call>{{c.function|tojson}}</tool_call>{% endfor %}"
TOOL_CHAT = "{{ tools | tojson }}" + CHAT.replace("<eos>", f"{CALL}<eos>", 1)


def call_text(name: str, arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def run_episode(*replies: str, **kwargs: Any) -> tuple[ScriptedEngine, dict[str, Any]]:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = TOOL_CHAT
    engine = ScriptedEngine(tokenizer, *replies)
    workflow_class = module.ToldCallsWorkflow
    workflow = workflow_class(is_right, GenerationHyperparameters(), tokenizer, **kwargs)
    workflow.reward = InlineReward(is_right)
    row = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    assert trajectory is not None
    return engine, trajectory


@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS)
def test_the_next_turn_reads_the_result(
    name: str, arguments: dict[str, Any], expected: str
) -> None:
    call = call_text(name, arguments)
    engine, trajectory = run_episode(call, "5")
    start, end = (engine.tokenizer.decode(request.input_ids) for request in engine.requests)
    assert end == f"{start}{call}<eos><tool>{expected}<eos><assistant>"
    assert f'"name": "{name}"' in start
    assert f"<system>{module.SYSTEM_PROMPT}<eos><user>" in start
    assert trajectory["rewards"].tolist() == [1.0]


def test_trains_on_completions_and_on_nothing_else() -> None:
    call = call_text("no_such_tool", {})
    engine, trajectory = run_episode(call + call, "6")
    first, second = (len(request.input_ids) for request in engine.requests)
    written = len(engine.tokenizer.encode(call + call)) + 1
    turns = [-1] * first + [0] * written + [-1] * (second - first - written) + [1, 1]
    prompt = engine.tokenizer.decode(engine.requests[1].input_ids)
    assert prompt.count("<tool>Error: no tool is called 'no_such_tool'") == 2
    assert trajectory["rewards"].tolist() == [0.0]
    assert trajectory["turn_ids"].tolist() == [turns]
    assert trajectory["loss_mask"].tolist() == [[int(turn >= 0) for turn in turns]]
    assert trajectory["versions"].tolist() == [[7 if turn >= 0 else -1 for turn in turns]]
    assert torch.equal(trajectory["logprobs"] < 0, trajectory["loss_mask"] == 1)
    assert trajectory["input_ids"][0, :second].tolist() == engine.requests[1].input_ids


@pytest.mark.parametrize(
    ("reply", "max_turns"),
    [("5", 4), (f"<think>{call_text('add', {})}</think>5", 4), (call_text("add", {}), 1)],
)
def test_ends_where_the_calls_or_the_turns_end(reply: str, max_turns: int) -> None:
    assert len(run_episode(reply, max_turns=max_turns)[0].requests) == 1


@pytest.mark.parametrize("kwargs", [{"max_turns": 0}, {"tool_timeout_s": 0}, {"tools": []}])
def test_refuses_impossible_settings(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        run_episode("5", **kwargs)

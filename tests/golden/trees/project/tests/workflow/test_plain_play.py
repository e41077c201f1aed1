"""Tests of ``my_rl.workflow.plain_play``."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import pytest
import torch
from areal.api import ModelRequest, ModelResponse
from areal.api.cli_args import GenerationHyperparameters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import my_rl.workflow.plain_play as module

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


# YOURS: make it speak and act as your environment does, and change the replies in the tests
class GuessEnv(gymnasium.Env):
    """Asks for its number, 7; a guess of 0 ends it, and a guess of 9 breaks it."""

    action_space = gymnasium.spaces.Discrete(10)

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.log.append((seed, options))
        return "Guess my number.", {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == 9:
            raise RuntimeError("broken")
        self.log.append(action)
        reward = 1.0 - abs(action - 7) / 4
        return "higher" if action < 7 else "lower", reward, action == 7, action == 0, {}

    def close(self) -> None:
        self.log.append("closed")


def play(*replies: str, **kwargs: Any) -> tuple[ScriptedEngine, list[Any], Any]:
    tokenizer, log = make_tokenizer(), []
    engine, gconfig = ScriptedEngine(tokenizer, *replies), GenerationHyperparameters()
    kwargs = {"system_prompt": "Play.", "max_turns": 3, "turn_discount": 0.5, **kwargs}
    workflow_class = module.PlainPlayWorkflow
    workflow = workflow_class(gconfig, tokenizer, GuessEnv, {"log": log}, **kwargs)
    row = {"seed": 3, "options": {"level": 1}}
    try:
        return engine, log, asyncio.run(workflow.arun_episode(engine, row))
    finally:
        assert log[-1] == "closed"


def test_plays_until_the_environment_has_ended() -> None:
    engine, log, trajectory = play("5", "7")
    assert log == [(3, {"level": 1}), 5, 7, "closed"]
    assert trajectory["rewards"].tolist() == [0.5 * 1.0]
    start = "<system>Play.<eos><user>Guess my number.<eos><assistant>"
    prompts = [engine.tokenizer.decode(request.input_ids) for request in engine.requests]
    assert prompts == [start, f"{start}5<eos><user>higher<eos><assistant>"]


def test_trains_on_every_action_and_on_nothing_else() -> None:
    engine, _, trajectory = play("5", "7")
    first, second = (len(request.input_ids) for request in engine.requests)
    between = second - first - 2
    turns = [-1] * first + [0, 0] + [-1] * between + [1, 1]
    assert trajectory["turn_ids"].tolist() == [turns]
    assert trajectory["loss_mask"].tolist() == [[int(turn >= 0) for turn in turns]]
    assert trajectory["versions"].tolist() == [[7 if turn >= 0 else -1 for turn in turns]]
    expected = [0.0] * first + [-0.1, -0.2] + [0.0] * between + [-0.1, -0.2]
    torch.testing.assert_close(trajectory["logprobs"], torch.tensor([expected]))
    assert trajectory["input_ids"][0, :second].tolist() == engine.requests[1].input_ids


def test_what_is_no_action_costs_a_turn() -> None:
    engine, log, _ = play("banana", "99", "7")
    assert log[1:] == [7, "closed"]
    assert module.NO_ACTION in engine.tokenizer.decode(engine.requests[2].input_ids)


@pytest.mark.parametrize(("replies", "max_turns"), [("0", 3), ("11", 2)])
def test_ends_where_the_environment_or_the_turns_end(replies: str, max_turns: int) -> None:
    engine, log, _ = play(*replies, max_turns=max_turns)
    assert len(engine.requests) == len(log) - 2 == len(replies)


def test_an_environment_that_fails_rejects_the_episode() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        play("9")


@pytest.mark.parametrize(("max_turns", "turn_discount"), [(0, 1.0), (1, 0.0), (1, 1.5)])
def test_refuses_impossible_settings(max_turns: int, turn_discount: float) -> None:
    with pytest.raises(ValueError, match="max_turns"):
        play("7", max_turns=max_turns, turn_discount=turn_discount)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "gymnasium.envs.toy_text.FrozenLakeEnv"])
def test_takes_an_id_or_a_dotted_path(env: str) -> None:
    workflow_class = module.PlainPlayWorkflow
    kwargs = {"env": env, "env_kwargs": {"map_name": "8x8"}}
    made = workflow_class(GenerationHyperparameters(), make_tokenizer(), **kwargs).make_env()
    assert made.observation_space.n == 64
    made.close()

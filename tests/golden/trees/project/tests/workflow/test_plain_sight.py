"""Tests of ``my_rl.workflow.plain_sight``."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
import torch
from areal.api import ModelRequest, ModelResponse
from areal.api.cli_args import GenerationHyperparameters
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import my_rl.workflow.plain_sight as module

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


class PatchProcessor:
    """Turns each quarter of an image into a feature and a token, as vision models do patches."""

    def __init__(self, has_token_types: bool) -> None:
        self.tokenizer = make_tokenizer()
        self.apply_chat_template = self.tokenizer.apply_chat_template
        self.image_token_id = self.tokenizer.convert_tokens_to_ids("#")
        self.has_token_types = has_token_types

    def __call__(self, images: list[Image.Image], text: list[str], **_: Any) -> dict[str, Any]:
        ids = torch.tensor([self.tokenizer.encode(text[0].replace("#", "####"))])
        features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.has_token_types:
            features["mm_token_type_ids"] = (ids == self.image_token_id).long()
        pixels = bytearray(b"".join(image.resize((2, 2)).tobytes() for image in images))
        features["pixel_values"] = torch.frombuffer(pixels, dtype=torch.uint8).view(-1, 3)
        return features


def picture(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, format="PNG")
    return buffer.getvalue()


async def is_right(*, completions: str, answer: str, **sample: Any) -> float:
    assert sample.keys() >= {"prompt", "prompt_ids", "completion_ids", "images"}
    return float(completions == answer)


TEXT = "<user>How many? # And here? #<eos><assistant>"
CHAT_ROW = [{"role": "user", "content": "How many? # And here? #"}]
IMAGES = [picture("red"), picture("blue")]


def run_episode(
    monkeypatch: pytest.MonkeyPatch, reply: str, has_token_types: bool = True, **columns: Any
) -> tuple[ModelRequest, Any]:
    # The pool of processes has tests of its own.
    monkeypatch.setattr(module, "AsyncRewardWrapper", lambda reward_fn: reward_fn)
    processor = PatchProcessor(has_token_types)
    engine = ScriptedEngine(processor.tokenizer, reply)
    workflow_class = module.PlainSightWorkflow
    gconfig = GenerationHyperparameters()
    workflow = workflow_class(is_right, gconfig, processor.tokenizer, processor)
    row = {"images": IMAGES, "answer": "5", **columns}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    return engine.requests[0], trajectory


@pytest.mark.parametrize(("reply", "reward", "has_types"), [("5", 1.0, True), ("6", 0.0, False)])
def test_an_episode_has_exactly_these_tensors(
    monkeypatch: pytest.MonkeyPatch, reply: str, reward: float, has_types: bool
) -> None:
    request, trajectory = run_episode(monkeypatch, reply, has_types, messages=TEXT)
    (features,) = trajectory.pop("multi_modal_input")
    assert features.keys() == {"pixel_values"}
    assert features["pixel_values"].tolist() == [[255, 0, 0]] * 4 + [[0, 0, 255]] * 4
    prompt, ids = len(request.input_ids), trajectory["input_ids"][0].tolist()
    types = [int(token == request.processor.image_token_id) for token in request.input_ids]
    assert ids[:prompt] == request.input_ids
    assert sum(types) == 8
    logprobs = torch.tensor([[0.0] * prompt + [-0.1, -0.2]])
    torch.testing.assert_close(trajectory.pop("logprobs"), logprobs)
    assert {key: value.tolist() for key, value in trajectory.items()} == {
        "input_ids": [ids],
        "mm_token_type_ids": [[*types, 0, 0]],
        "attention_mask": [[True] * (prompt + 2)],
        "loss_mask": [[0] * prompt + [1, 1]],
        "versions": [[-1] * prompt + [7, 7]],
        "turn_ids": [[-1] * prompt + [0, 0]],
        "rewards": [reward],
    }
    assert trajectory["input_ids"].dtype == trajectory["mm_token_type_ids"].dtype == torch.int64


def test_the_engine_gets_the_images_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    request, _ = run_episode(monkeypatch, "5", messages=TEXT)
    assert [base64.b64decode(image) for image in request.image_data] == IMAGES
    assert request.gconfig.n_samples == 1


@pytest.mark.parametrize("columns", [{"messages": CHAT_ROW}, {"messages_chat": CHAT_ROW}])
def test_messages_that_are_not_rendered_yet_are_rendered(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
) -> None:
    request, _ = run_episode(monkeypatch, "5", **columns)
    same, _ = run_episode(monkeypatch, "5", messages=TEXT)
    assert request.input_ids == same.input_ids
    assert request.vision_msg_vllm == ([CHAT_ROW] if "messages_chat" in columns else None)

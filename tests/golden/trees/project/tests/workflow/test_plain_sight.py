"""Tests of ``my_rl.workflow.plain_sight``."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
import torch
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import ScriptedEngine, check_trajectory, make_tokenizer
from PIL import Image

import my_rl.workflow.plain_sight as module


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
    monkeypatch: pytest.MonkeyPatch, reply: str | None, has_token_types: bool = True, **columns: Any
) -> tuple[ScriptedEngine, Any]:
    # The pool of processes has tests of its own.
    monkeypatch.setattr(module, "AsyncRewardWrapper", lambda reward_fn: reward_fn)
    processor = PatchProcessor(has_token_types)
    engine = ScriptedEngine(processor.tokenizer, reply)
    workflow_class = module.PlainSightWorkflow
    gconfig = GenerationHyperparameters()
    workflow = workflow_class(is_right, gconfig, processor.tokenizer, processor)
    row = {"images": IMAGES, "answer": "5", **columns}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    return engine, trajectory


@pytest.mark.parametrize(
    ("reply", "reward", "has_types"), [("5", 1.0, True), ("6", 0.0, False), (None, 0.0, True)]
)
def test_an_episode_has_exactly_these_tensors(
    monkeypatch: pytest.MonkeyPatch, reply: str | None, reward: float, has_types: bool
) -> None:
    engine, trajectory = run_episode(monkeypatch, reply, has_types, messages=TEXT)
    check_trajectory(engine, trajectory)
    (request,) = engine.requests
    (features,) = trajectory["multi_modal_input"]
    assert features.keys() == {"pixel_values"}
    assert features["pixel_values"].tolist() == [[255, 0, 0]] * 4 + [[0, 0, 255]] * 4
    types = [int(token == request.processor.image_token_id) for token in request.input_ids]
    assert sum(types) == 8
    types += [0] * engine.responses[0].output_len
    assert trajectory["mm_token_type_ids"].tolist() == [types]
    assert trajectory["rewards"].tolist() == [reward]
    assert trajectory["input_ids"].dtype == trajectory["mm_token_type_ids"].dtype == torch.int64


def test_the_engine_gets_the_images_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    request = run_episode(monkeypatch, "5", messages=TEXT)[0].requests[0]
    assert [base64.b64decode(image) for image in request.image_data] == IMAGES
    assert request.gconfig.n_samples == 1


@pytest.mark.parametrize("columns", [{"messages": CHAT_ROW}, {"messages_chat": CHAT_ROW}])
def test_messages_that_are_not_rendered_yet_are_rendered(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
) -> None:
    request = run_episode(monkeypatch, "5", **columns)[0].requests[0]
    same = run_episode(monkeypatch, "5", messages=TEXT)[0].requests[0]
    assert request.input_ids == same.input_ids
    assert request.vision_msg_vllm == ([CHAT_ROW] if "messages_chat" in columns else None)

"""Small real classes that stand where a model, a server or a big file would be."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from areal.api.io_struct import ModelRequest, ModelResponse, StopReason
from areal.utils.character_tokenizer import character_tokenizer
from areal.utils.image import to_pil


def tiny_tokenizer(characters: str = string.printable) -> PreTrainedTokenizerFast:
    """Builds a tokenizer with one token per character and <pad>, <eos>, <unk> as 0, 1, 2."""
    return character_tokenizer(characters)


class InstantEngine:
    """Answers every request at once with what a function says.

    Args:
        reply: Request to output tokens.
        version: What ``get_version`` and ``output_versions`` say.
        stop_reason: None says "stop" if the output ends in one of the request's stop tokens, else
            "length".
    """

    def __init__(
        self,
        reply: Callable[[ModelRequest], Sequence[int]],
        version: int = 0,
        stop_reason: StopReason | None = None,
    ) -> None:
        self.reply = reply
        self.version = version
        self.stop_reason = stop_reason
        self.requests: list[ModelRequest] = []

    def get_version(self) -> int:
        return self.version

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        self.requests.append(req)
        output = list(self.reply(req))
        is_stopped = bool(output) and output[-1] in req.gconfig.stop_token_ids
        return ModelResponse(
            input_tokens=list(req.input_ids),
            output_tokens=output,
            # All different, so that a token with another token's log-probability is seen.
            output_logprobs=[-0.5 - 0.25 * position for position in range(len(output))],
            output_versions=[self.version] * len(output),
            stop_reason=self.stop_reason or ("stop" if is_stopped else "length"),
            tokenizer=req.tokenizer,
            processor=req.processor,
        )


class TinyVisionProcessor:
    """Prepares text and images as the processors of vision models do, at a tiny scale.

    An image becomes 14 x 14 patches; ``<image>`` in the text becomes one image token per patch.

    Args:
        has_token_types: Whether the answer holds ``mm_token_type_ids``.
        as_arrays: Whether it returns NumPy's arrays, whatever it is asked for.
    """

    image_token = "\x1a"
    patch_size = 14

    def __init__(self, has_token_types: bool = True, as_arrays: bool = False) -> None:
        self.has_token_types = has_token_types
        self.as_arrays = as_arrays
        self.tokenizer = tiny_tokenizer(string.printable + self.image_token)
        self.image_token_id = self.tokenizer.convert_tokens_to_ids(self.image_token)

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tokenize: bool,
        add_generation_prompt: bool,
        **_: Any,
    ) -> str:
        assert not tokenize
        lines = []
        for message in conversation:
            parts = message["content"]
            if isinstance(parts, str):
                parts = [{"type": "text", "text": parts}]
            body = "".join(self.image_token if p["type"] == "image" else p["text"] for p in parts)
            lines.append(f"{message['role']}: {body}\n")
        return "".join(lines) + ("assistant: " if add_generation_prompt else "")

    def __call__(
        self, images: Sequence[Any] | None, text: list[str], padding: bool, return_tensors: str
    ) -> dict[str, Any]:
        assert len(text) == 1
        assert not padding
        assert return_tensors == "pt"
        assert images is None or images, "None is no images"
        images = images or ()
        arrays = [np.asarray(to_pil(image), dtype=np.float32) / 255.0 for image in images]
        grids = [[1, *(max(1, side // self.patch_size) for side in a.shape[:2])] for a in arrays]
        pieces = text[0].split(self.image_token)
        assert len(pieces) - 1 == len(images), "as many placeholders as images"
        expanded = pieces[0]
        for (_, height, width), piece in zip(grids, pieces[1:], strict=True):
            expanded += self.image_token * (height * width) + piece
        ids = torch.tensor([self.tokenizer.encode(expanded, add_special_tokens=False)])
        patches = [
            a.mean(axis=(0, 1))
            for a, g in zip(arrays, grids, strict=True)
            for _ in range(g[1] * g[2])
        ]
        prepared = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if images:
            prepared["pixel_values"] = torch.from_numpy(np.stack(patches))
            prepared["image_grid_thw"] = torch.tensor(grids)
        if self.has_token_types:
            prepared["mm_token_type_ids"] = (ids == self.image_token_id).long()
        return {k: v.numpy() for k, v in prepared.items()} if self.as_arrays else prepared


class VersionedEngine:
    """Has a version and nothing else, for executors whose workflows ask no model."""

    def __init__(self, version: int = 0) -> None:
        self.version = version

    def get_version(self) -> int:
        return self.version


class FakeInteraction:
    """Is one request and its answer, as an OpenAI-compatible proxy would keep it."""

    def __init__(self, interaction_id: str, length: int, reward: float | None) -> None:
        self.interaction_id = interaction_id
        self.length = length
        self.reward = reward
        self.original_reward: float | None = None
        self.has_tensor_data = True

    def to_tensor_dict(self) -> dict[str, torch.Tensor]:
        return trajectory(self.length, self.reward or 0.0)


def trajectory(length: int = 4, reward: float = 1.0, batch_size: int = 1) -> dict[str, Any]:
    """Makes a well-formed trajectory whose first token was the prompt."""
    shape = (batch_size, length)
    generated = torch.ones(shape, dtype=torch.int32)
    generated[:, 0] = 0
    return {
        "input_ids": torch.arange(batch_size * length, dtype=torch.int32).reshape(shape),
        "attention_mask": torch.ones(shape, dtype=torch.bool),
        "loss_mask": generated,
        "logprobs": torch.full(shape, -0.5) * generated,
        "versions": generated - 1,
        "rewards": torch.full((batch_size,), reward),
    }

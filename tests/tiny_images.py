"""A model that sees, its processor, and pictures, all made on the spot."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from areal.api.cli_args import ModelSpecConfig, VisionSpecConfig
from areal.api.reward_api import inline_reward
from areal.engine.loading.huggingface import as_causal_lm, make_model
from areal.engine.model.image_text import ImageTextLM
from areal.utils.character_tokenizer import character_tokenizer
from areal.utils.image_processors import IMAGE_CHAT_TEMPLATE, IMAGE_TOKENS, small_processor

VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "patch_size": 4,
}
MODEL: dict[str, Any] = {
    "architecture": "qwen2_vl",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "characters": "0123456789=?",
    "vision": VISION,
}


def see_model(
    architecture: str = "qwen2_vl", dtype: torch.dtype = torch.float32
) -> tuple[ImageTextLM, Any]:
    """Returns a model with random weights, and its processor."""
    vision = VisionSpecConfig(**VISION)
    spec = ModelSpecConfig(**{**MODEL, "architecture": architecture, "vision": vision})
    tokenizer = character_tokenizer(
        spec.characters, chat_template=IMAGE_CHAT_TEMPLATE, special_tokens=IMAGE_TOKENS
    )
    lm = as_causal_lm(make_model(spec, tokenizer, dtype, torch.device("cpu")))
    assert isinstance(lm, ImageTextLM)
    return lm, small_processor(tokenizer, vision.patch_size, vision.merge_size, 1024)


def picture(width: int = 16, height: int = 16, seed: int = 0) -> bytes:
    """Returns noise as PNG."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format="PNG")
    return buffer.getvalue()


def text_of(processor: Any, text: str, num_images: int) -> str:
    """Returns a rendered prompt: images, then text."""
    content = [{"type": "image"}] * num_images + [{"type": "text", "text": text}]
    chat = [{"role": "user", "content": content}]
    return processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)


def get_pictures_rl_dataset(
    path: str, split: str | None, processor: Any, size: int = 20, broken: bool = False
) -> list[dict[str, Any]]:
    """Returns rows of no, one or two pictures; every fourth one is broken where that is asked."""
    rows = [
        {
            "row": i,
            "messages": text_of(processor, f"{i % 10}=", i % 3),
            "images": [picture(8 * (1 + i % 3), 16, seed=i + k) for k in range(i % 3)],
        }
        for i in range(size)
    ]
    spoils = (["missing.png"], [b"no picture"], [], [picture(), picture(), picture()])
    for i in range(1, size, 4) if broken else ():
        rows[i]["messages"] = text_of(processor, "0=", 1)
        rows[i]["images"] = spoils[i // 4 % len(spoils)]
    return rows


@inline_reward
def sevens(**sample: Any) -> float:
    """Returns the share of sevens in an answer of four characters."""
    return sample["completions"].count("7") / 4

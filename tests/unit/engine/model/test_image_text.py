"""A model with images computes in a packed batch and by plans what it computes by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, LlavaConfig, LlavaProcessor
from transformers.models.clip import CLIPImageProcessorPil

from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import as_causal_lm, prepare_model
from areal.engine.loading.suitability import compare_images
from areal.engine.model.causal_lm import PackedInputs
from areal.engine.model.image_text import ImageTextLM, Sight
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.utils.character_tokenizer import character_tokenizer
from areal.utils.image import VisionPrompt, process_vision_prompt
from tests.tiny_images import picture, see_model, text_of

FAMILY = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"]


def llava() -> tuple[ImageTextLM, Any]:
    """Returns a model of another shape: no grids of patches, and positions that count up."""
    tokenizer = character_tokenizer("0123=?", special_tokens=["<image>"])
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    text = {"model_type": "llama", "num_hidden_layers": 1, "num_key_value_heads": 1, **sizes}
    eyes = {"model_type": "clip_vision_model", "num_hidden_layers": 2, "projection_dim": 16}
    config = LlavaConfig(
        text_config={**text, "vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 1},
        vision_config={**eyes, **sizes, "image_size": 16, "patch_size": 8},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config)
    side = {"height": 16, "width": 16}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=side),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    lm = as_causal_lm(prepare_model(model, torch.device("cpu")))
    assert isinstance(lm, ImageTextLM)
    return lm, processor


def prompts(processor: Any) -> list[VisionPrompt]:
    """Returns prompts of one picture, of none and of two."""
    pictures = [[picture(24, 16)], [], [picture(16, 16, 1), picture(8, 16, 2)]]
    if isinstance(processor, LlavaProcessor):
        texts = ["<image>1=", "2=3", "<image>?<image>"]
    else:
        texts = [text_of(processor, f"{i}=", len(each)) for i, each in enumerate(pictures)]
    return [
        process_vision_prompt(processor, text, each)
        for text, each in zip(texts, pictures, strict=True)
    ]


def packed(lm: ImageTextLM, rows: list[VisionPrompt]) -> PackedInputs:
    lengths = [len(row.input_ids) for row in rows]
    return PackedInputs(
        torch.tensor([token for row in rows for token in row.input_ids]),
        torch.cat([torch.arange(length) for length in lengths]),
        lengths,
        torch.arange(sum(lengths)),
        [lm.see(row.input_ids, row.features) for row in rows],
    )


@pytest.mark.parametrize("architecture", [*FAMILY, "llava"])
@torch.no_grad()
def test_a_packed_batch_of_images_and_text_is_what_each_row_is_alone(architecture: str) -> None:
    lm, processor = llava() if architecture == "llava" else see_model(architecture)
    compare_images(lm, processor)  # with what transformers computes, by prefill and decode
    rows = prompts(processor)
    together = lm.packed_logits(packed(lm, rows))
    apart = torch.cat([lm.packed_logits(packed(lm, [row])) for row in rows])
    # Rounding: products of another size.
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)
    batch = packed(lm, rows)
    blind = lm.logits(batch.tokens_T, batch.positions_T, batch.lengths)
    assert not torch.allclose(together[:4], blind[:4], atol=1e-3)


def test_a_model_that_places_images_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lm, processor = see_model()
    see = lm.see

    def shifted(*args: Any) -> Sight | None:
        sight = see(*args)
        return sight and Sight(sight.features, sight.positions_AL, sight.shift + 3)

    monkeypatch.setattr(lm, "see", shifted)
    with pytest.raises(ConfigError, match="computes other logits in the embedded engine"):
        compare_images(lm, processor)


def test_images_and_tokens_that_do_not_belong_together_are_named() -> None:
    lm, processor = see_model()
    row = prompts(processor)[0]
    ids, features = row.input_ids, row.features
    pixels = features["pixel_values"]
    image = [token for token in ids if token == lm.image_token]
    twice = {name: torch.cat([value, value]) for name, value in features.items()}
    cases = {
        "7 image tokens for images of 6": ([*ids, lm.image_token], features),
        "6 image tokens and no image": (ids, {"pixel_values": torch.empty(0)}),
        "and no image: pixel_values is empty": (ids, {}),
        "23 patches for grids of 24": (ids, {**features, "pixel_values": pixels[1:]}),
        "without image_grid_thw": (ids, {"pixel_values": pixels}),
        "needs a token between two images": (image * 2, twice),
    }
    for message, spoilt in cases.items():
        with pytest.raises(ValueError, match=message):
            lm.see(*spoilt)


def test_positions_go_on_behind_the_images() -> None:
    lm, processor = see_model()
    row = prompts(processor)[2]
    sight = lm.see(row.input_ids, row.features)
    assert sight is not None
    longer = lm.see([*row.input_ids, 4, 5], row.features)
    assert longer is not None
    length = len(row.input_ids)
    assert torch.equal(sight.positions(length + 2), longer.positions_AL)
    assert torch.equal(sight.positions(3), longer.positions(3))
    assert sight.shift == longer.shift < 0


def test_several_processes_are_refused() -> None:
    lm, _ = see_model()
    dims = ArchonParallelDims(dp_shard=2, world_size=2, device_type="cpu")
    with pytest.raises(ConfigError, match=r"actor\.backend=fsdp:d1"):
        lm.wrap(dims, torch.float32, False)

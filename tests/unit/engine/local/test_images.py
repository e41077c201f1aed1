"""The embedded engine with images: tokens of `generate`, log-probabilities of the trainer."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import torch

from areal.api import ModelRequest
from areal.api.cli_args import (
    GenerationHyperparameters,
    InferenceEngineConfig,
    OptimizerConfig,
    TrainEngineConfig,
)
from areal.api.io_struct import FinetuneSpec, ModelResponse
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.utils.data import concat_padded_tensors
from areal.utils.image import VisionPrompt, process_vision_prompt
from tests.tiny_images import picture, see_model, text_of

PICTURES = [[picture(24, 16)], [], [picture(16, 16, 1), picture(8, 16, 2)], [picture(8, 8, 3)]]


@pytest.fixture(scope="module")
def scene() -> tuple[SharedWeights, Any, list[VisionPrompt]]:
    """A model with weights large enough to have opinions, its processor, and prompts."""
    lm, processor = see_model()
    with torch.no_grad():
        for parameter in lm.module.parameters():
            parameter.mul_(3.0)
    prompts = [
        process_vision_prompt(processor, text_of(processor, f"{i}=", len(each)), each)
        for i, each in enumerate(PICTURES)
    ]
    return SharedWeights(lm), processor, prompts


def ask(
    scene: tuple[SharedWeights, Any, list[VisionPrompt]], copies: int = 1, **sampling: Any
) -> list[ModelResponse]:
    """Asks with every prompt at once, each as often as there are copies."""
    weights, processor, prompts = scene
    engine = LocalInferenceEngine(
        InferenceEngineConfig(experiment_name="e", trial_name="t", backend="local:d1"), weights
    )
    engine.initialize()
    gconfig = GenerationHyperparameters(max_new_tokens=6, ignore_eos=True, **sampling)

    async def all_answers() -> list[ModelResponse]:
        requests = [
            ModelRequest(
                input_ids=prompt.input_ids,
                gconfig=gconfig,
                processor=processor,
                image_data=[base64.b64encode(image).decode() for image in images],
            )
            for prompt, images in zip(prompts, PICTURES, strict=True)
            for _ in range(copies)
        ]
        return await asyncio.gather(*map(engine.agenerate, requests))

    try:
        return asyncio.run(all_answers())
    finally:
        engine.destroy()


def test_greedy_answers_are_those_of_generate(
    scene: tuple[SharedWeights, Any, list[VisionPrompt]],
) -> None:
    weights, _, prompts = scene
    model: Any = weights.module
    answers = ask(scene, greedy=True)
    text = model.config.get_text_config()
    planned, text._attn_implementation = text._attn_implementation, "sdpa"
    try:
        for prompt, answer in zip(prompts, answers, strict=True):
            features = {n: x for n, x in prompt.features.items() if x.numel()}
            out = model.generate(
                input_ids=torch.tensor([prompt.input_ids]),
                attention_mask=torch.ones(1, len(prompt.input_ids), dtype=torch.long),
                mm_token_type_ids=torch.tensor([prompt.mm_token_type_ids]),
                **features,
                do_sample=False,
                max_new_tokens=6,
                eos_token_id=None,
                suppress_tokens=weights.lm.placeholders,
            )
            assert out[0, len(prompt.input_ids) :].tolist() == answer.output_tokens
    finally:
        text._attn_implementation = planned


def test_log_probabilities_are_those_of_the_trainer(
    scene: tuple[SharedWeights, Any, list[VisionPrompt]],
) -> None:
    weights, _, prompts = scene
    answers = ask(scene, copies=3)
    rows = []
    for i, answer in enumerate(answers):
        ids = torch.tensor([answer.input_tokens + answer.output_tokens])
        mask = torch.tensor([[0] * answer.input_len + [1] * answer.output_len])
        rows.append(
            {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids, dtype=torch.bool),
                "loss_mask": mask.roll(-1),
                "logprobs": torch.tensor([[0.0] * answer.input_len + answer.output_logprobs]),
                "multi_modal_input": [prompts[i // 3].features],
            }
        )
    config = TrainEngineConfig(
        experiment_name="e", trial_name="t", backend="fsdp:d1", optimizer=OptimizerConfig(lr=1e-2)
    )
    config.mb_spec.max_tokens_per_mb = 64  # several micro-batches, their rows in another order
    engine = HFTrainEngine(config, weights)
    engine.initialize(ft_spec=FinetuneSpec(1, 12, 12))
    batch = concat_padded_tensors(rows)
    found = engine.forward_batch(batch)
    expected = batch["logprobs"].roll(-1, 1) * batch["loss_mask"]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_no_answer_holds_a_token_that_stands_for_an_image(
    scene: tuple[SharedWeights, Any, list[VisionPrompt]],
) -> None:
    weights, _, _ = scene
    head: Any = weights.module.lm_head
    banned = weights.lm.placeholders
    before = head.weight.detach().clone()
    # As likely as can be: a hundred times the length of any other.
    with torch.no_grad():
        head.weight[banned] = 0.0
        head.weight[[i for i in range(len(before)) if i not in banned]] *= -1e-3
    try:
        said = {token for answer in ask(scene, copies=8) for token in answer.output_tokens}
    finally:
        with torch.no_grad():
            head.weight.copy_(before)
    assert len(said) > len(banned)
    assert not said & set(banned)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"processor": None}, "needs ModelRequest.processor"),
        ({"image_data": []}, "6 image tokens and no image"),
        ({"image_data": [base64.b64encode(picture()).decode()]}, "6 image tokens for images of 4"),
        ({"image_data": [base64.b64encode(b"none").decode()]}, "cannot identify image"),
    ],
)
def test_a_request_whose_images_are_wrong_fails_alone(
    scene: tuple[SharedWeights, Any, list[VisionPrompt]], changes: Any, message: str
) -> None:
    weights, processor, prompts = scene
    engine = LocalInferenceEngine(
        InferenceEngineConfig(experiment_name="e", trial_name="t", backend="local:d1"), weights
    )
    engine.initialize()
    good = {
        "input_ids": prompts[0].input_ids,
        "gconfig": GenerationHyperparameters(max_new_tokens=2),
        "processor": processor,
        "image_data": [base64.b64encode(PICTURES[0][0]).decode()],
    }
    try:
        with pytest.raises((ValueError, OSError), match=message):
            asyncio.run(engine.agenerate(ModelRequest(**{**good, **changes})))
        assert asyncio.run(engine.agenerate(ModelRequest(**good))).output_tokens
    finally:
        engine.destroy()

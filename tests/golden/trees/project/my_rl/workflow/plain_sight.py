"""Workflow: one prompt with images, one completion, one reward."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, ModelRequest, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import load_hf_processor_and_tokenizer, load_hf_tokenizer
from areal.workflow.trajectory import Trajectory
from PIL import Image

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin


class PlainSightWorkflow(RolloutWorkflow):
    """Answer a row's prompt about its images once and scores the completion.

    Args:
        reward_fn: Called by keyword (prompt, completions, prompt_ids, completion_ids, **row), or
            the dotted path of such a function, which is in a module: a pool runs it.
        gconfig: How to sample; each episode draws one sample.
        tokenizer: The model's tokenizer, or the path of one.
        processor: Prepares text and images for the model, or the path of one.
        enable_thinking: Passed to the chat template, for messages that are not rendered yet.
    """

    def __init__(
        self,
        reward_fn: Callable[..., float] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        processor: ProcessorMixin | str,
        enable_thinking: bool = False,
    ) -> None:
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        if isinstance(processor, str):
            processor = load_hf_processor_and_tokenizer(processor)[0]
        if processor is None:
            raise ValueError("the model has no processor, so it takes no images")
        self.processor = processor
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.enable_thinking = enable_thinking
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    def prompt_text(self, data: dict[str, Any]) -> str:
        """Return the prompt with the model's placeholders, which the dataset may have rendered."""
        messages = data["messages"] if "messages" in data else data["messages_chat"]
        if isinstance(messages, str):
            return messages
        return self.processor.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=self.enable_thinking,
        )

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> dict[str, Any]:
        """Run one episode.

        Args:
            engine: Generates the completion.
            data: A row: images (JPEG, PNG ...), messages (text) or messages_chat, reward columns.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1], with the images'
            features in multi_modal_input. An exception, of the reward too, rejects the episode.
        """
        images = [Image.open(io.BytesIO(image)).convert("RGB") for image in data["images"]]
        text = self.prompt_text(data)
        # Processors take None for no images, and some an empty list for a mistake.
        features = dict(self.processor(images=images or None, text=[text], return_tensors="pt"))
        features.pop("attention_mask", None)
        prompt_ids = features.pop("input_ids")
        if "mm_token_type_ids" not in features:  # as with processors of transformers 4
            features["mm_token_type_ids"] = prompt_ids == self.processor.image_token_id
        token_types = features.pop("mm_token_type_ids")[0].tolist()
        request = ModelRequest(
            input_ids=prompt_ids[0].tolist(),
            gconfig=self.gconfig,
            tokenizer=self.tokenizer,
            processor=self.processor,
            image_data=[base64.b64encode(image).decode("ascii") for image in data["images"]],
            vision_msg_vllm=[data["messages_chat"]] if "messages_chat" in data else None,
        )
        response = await engine.agenerate(request)
        sample = {
            "prompt": self.tokenizer.decode(response.input_tokens),
            "completions": self.tokenizer.decode(response.output_tokens, skip_special_tokens=True),
            "prompt_ids": response.input_tokens,
            "completion_ids": response.output_tokens,
        }
        reward = await self.reward(**{**data, **sample})
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward)

        trajectory = Trajectory()
        trajectory.add_prompt(response.input_tokens)
        trajectory.add_response(response, turn=0)
        tensors = trajectory.to_tensors(reward)
        return {
            **tensors,
            # Vision models index with these two, which takes int64.
            "input_ids": tensors["input_ids"].long(),
            "mm_token_type_ids": torch.tensor([token_types + [0] * response.output_len]),
            "multi_modal_input": [features],
        }

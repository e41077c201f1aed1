"""One prompt with images, one completion, one verifiable reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from areal.api.errors import ConfigError
from areal.api.io_struct import ModelRequest
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.hf_utils import load_hf_processor_and_tokenizer
from areal.utils.image import image2base64, process_vision_prompt
from areal.utils.perf_tracer import atrace_session_phase
from areal.workflow.rlvr import RLVRWorkflow
from areal.workflow.trajectory import Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

    from areal.api.cli_args import GenerationHyperparameters
    from areal.api.workflow_api import GenerationEngine


class VisionRLVRWorkflow(RLVRWorkflow):
    """Shows images, asks once and scores the answer.

    A row has ``messages`` (the rendered prompt as text, or messages to render), ``images`` (PIL
    images or encoded bytes; none or no such column for text alone) and, for servers that want it,
    ``messages_chat``.

    Args:
        reward_fn: Called by keyword: ``prompt``, ``completions``, ``prompt_ids``,
            ``completion_ids`` and the columns of the row; a function, a registered name or a dotted
            path, looked up at the first episode.
        gconfig: How to sample; the tokenizer's pad and end-of-sequence tokens also stop it.
        tokenizer: A tokenizer, or the hub id or folder of one.
        processor: Prepares images and text for the model; or the hub id or folder of one.
        enable_thinking: Passed to the chat template where ``messages`` are not rendered yet.
    """

    def __init__(
        self,
        reward_fn: Callable[..., Any] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        processor: ProcessorMixin | str,
        enable_thinking: bool,
    ) -> None:
        super().__init__(reward_fn, gconfig, tokenizer, enable_thinking)
        if isinstance(processor, str):
            processor, _ = load_hf_processor_and_tokenizer(processor)
        if processor is None:
            raise ConfigError("the model has no processor, so it takes no images; use RLVRWorkflow")
        self.processor = processor

    async def arun_episode(
        self, engine: GenerationEngine, data: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Run one episode.

        Returns:
            ``input_ids``, ``mm_token_type_ids`` int64 [1, L] (type 0 on the completion);
            ``loss_mask``, ``versions``, ``turn_ids`` int32 [1, L]; ``logprobs`` float32 [1, L];
            ``attention_mask`` bool [1, L]; ``rewards`` float32 [1]; ``multi_modal_input``, a list
            of one mapping of tensors with ``pixel_values`` (of shape [0] without images) and what
            else the processor gives. None if the reward function failed.
        """
        images = data.get("images")
        images = () if images is None else images
        prompt = process_vision_prompt(self.processor, self._prompt_text(data), images)
        chat = data.get("messages_chat")
        request = ModelRequest(
            input_ids=prompt.input_ids,
            gconfig=self.gconfig,
            tokenizer=self.tokenizer,
            processor=self.processor,
            image_data=image2base64(images),
            vision_msg_vllm=None if chat is None else [chat],
        )
        async with atrace_session_phase("generate"):
            response = await engine.agenerate(request)
        reward = await self._reward.score(response, data, by_keyword=True)
        if reward is None:
            return None
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward)
        trajectory = Trajectory()
        trajectory.add_prompt(response.input_tokens)
        trajectory.add_response(response, turn=0)
        tensors: dict[str, Any] = trajectory.to_tensors(reward)
        # Vision models index with these two, which takes int64.
        tensors["input_ids"] = tensors["input_ids"].long()
        token_types = prompt.mm_token_type_ids + [0] * len(response.output_tokens)
        tensors["mm_token_type_ids"] = torch.tensor([token_types], dtype=torch.int64)
        tensors["multi_modal_input"] = [dict(prompt.features)]
        return tensors

    def _prompt_text(self, data: dict[str, Any]) -> str:
        messages = self.data_extract_prompt_fn(data)
        if isinstance(messages, str):
            return messages
        return self.processor.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=self.enable_thinking,
        )

"""Answers requests with an engine and keeps what training needs of every one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from areal.api.cli_args import GenerationHyperparameters
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.workflow_api import GenerationEngine
from areal.experimental.openai.cache import InteractionCache
from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.parsing import ParsedText, check_parsers, parse_text
from areal.experimental.openai.prompt import extend_prompt, render_prompt
from areal.experimental.openai.request import ChatRequest
from areal.experimental.openai.responses import build_response, to_chat
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.utils.perf_tracer import atrace_session_phase

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

CHAT_TEMPLATE_TYPES = ("hf", "concat")
# Longer than the tokens of natural text; vocabularies have runs of spaces of up to 128.
_MAX_TOKEN_CHARS = 128


class Recorder:
    """One conversation, or all those of one episode.

    Args:
        engine: Has ``agenerate``.
        tokenizer: With a chat template.
        tool_call_parser: How tool calls are found; "" finds none.
        reasoning_parser: How reasoning is found, in which no tool call counts, and which a request
            may ask for apart; "" finds none.
        engine_max_tokens: What prompt and answer may be long together.
        chat_template_type: "hf" renders every request again, "concat" appends to what was said.
        lora_name: Goes to the engine with every request.
        gconfig: How to sample where a request leaves it open.
        temperature: The only one that may be sampled at; None allows any.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        tokenizer: Any,
        tool_call_parser: str = "qwen",
        reasoning_parser: str = "qwen3",
        engine_max_tokens: int | None = None,
        chat_template_type: str = "hf",
        lora_name: str = "",
        gconfig: GenerationHyperparameters | None = None,
        temperature: float | None = None,
    ) -> None:
        check_parsers(tool_call_parser, reasoning_parser)
        if chat_template_type not in CHAT_TEMPLATE_TYPES:
            known = ", ".join(CHAT_TEMPLATE_TYPES)
            raise ValueError(f"unknown chat_template_type {chat_template_type!r}; known: {known}")
        defaults = (gconfig or GenerationHyperparameters()).new(n_samples=1)
        if engine_max_tokens is not None:
            defaults.max_tokens = engine_max_tokens
        if lora_name:
            defaults.lora_name = lora_name
        self.engine = engine
        self.tokenizer = tokenizer
        self.cache = InteractionCache()
        self._defaults = defaults.new_with_stop_and_pad_token_ids(tokenizer)
        self._has_tool_parser = bool(tool_call_parser)
        self._has_reasoning = bool(reasoning_parser)
        self._chat_template_type = chat_template_type
        self._temperature = temperature

    async def complete(self, params: Mapping[str, Any]) -> ChatCompletion:
        """Answer a request of ``chat.completions.create``; ``stream`` is the caller's business.

        Raises:
            RequestError: The request cannot be answered as it is.
        """
        request = ChatRequest.parse(params, self._defaults, self._temperature)
        interaction, parsed = await self._generate(request)
        message = _message(parsed)
        interaction.output_message_list = [message]
        interaction.completion = _completion(interaction, parsed, params.get("model"))
        if request.is_stored:
            self.cache.add(interaction)
        return interaction.completion

    async def respond(self, params: Mapping[str, Any]) -> Response:
        """Answer a request of ``responses.create``.

        Raises:
            RequestError: The request cannot be answered as it is.
        """
        request = ChatRequest.parse(to_chat(params, self.cache), self._defaults, self._temperature)
        interaction, parsed = await self._generate(request)
        interaction.output_message_list = [_message(parsed)]
        interaction.input_data = params.get("input")
        interaction.response = build_response(interaction, parsed, params)
        if request.is_stored:
            self.cache.add(interaction)
        return interaction.response

    async def _generate(
        self, request: ChatRequest
    ) -> tuple[InteractionWithTokenLogpReward, ParsedText]:
        gconfig = request.gconfig
        parent = self.cache.find_parent(request.messages)
        self._check_size(request)
        if parent is not None and self._chat_template_type == "concat":
            rendering = asyncio.to_thread(extend_prompt, self.tokenizer, parent, request)
        else:
            rendering = asyncio.to_thread(render_prompt, self.tokenizer, request)
        # A long text takes seconds, in which others want their answers.
        prompt = await rendering
        if len(prompt) >= gconfig.max_tokens:
            raise RequestError(
                f"the messages have {len(prompt)} tokens, and prompt and answer may have "
                f"{gconfig.max_tokens} together",
                param="messages",
                code="context_length_exceeded",
            )
        async with atrace_session_phase("generate"):
            response = await self.engine.agenerate(
                ModelRequest(input_ids=prompt, gconfig=gconfig, tokenizer=self.tokenizer)
            )
        interaction = InteractionWithTokenLogpReward(
            model_response=response,
            parent=parent,
            chat_template_type=self._chat_template_type,
            messages=request.messages,
        )
        return interaction, self._parse(response, request)

    def _check_size(self, request: ChatRequest) -> None:
        """Refuse what cannot fit before it is turned into tokens, which takes time and memory."""
        num_chars = sum(len(message["content"]) for message in request.messages)
        limit = request.gconfig.max_tokens * _MAX_TOKEN_CHARS
        if num_chars > limit:
            raise RequestError(
                f"the messages have {num_chars:,} characters, and prompt and answer may have "
                f"{request.gconfig.max_tokens:,} tokens together",
                param="messages",
                code="context_length_exceeded",
            )

    def _parse(self, response: ModelResponse, request: ChatRequest) -> ParsedText:
        text = self._text(response)
        for stop in request.gconfig.stop or ():
            text = text.partition(stop)[0]
        has_tools = self._has_tool_parser and bool(request.tools)
        return parse_text(
            text,
            has_reasoning=self._has_reasoning,
            has_tools=has_tools,
            separates_reasoning=request.separates_reasoning,
        )

    def _text(self, response: ModelResponse) -> str:
        """Return the answer without the special tokens that structure a conversation."""
        return self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)


def _message(parsed: ParsedText) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": parsed.content}
    if parsed.reasoning:
        message["reasoning_content"] = parsed.reasoning
    if parsed.tool_calls:
        message["tool_calls"] = parsed.tool_calls
    return message


def _completion(
    interaction: InteractionWithTokenLogpReward, parsed: ParsedText, model: Any
) -> ChatCompletion:
    from openai.types.chat import ChatCompletion

    answer = interaction.model_response
    assert answer is not None
    message = _message(parsed)
    if parsed.tool_calls and not parsed.content:
        message["content"] = None  # as OpenAI's servers do
    reason = "length" if answer.stop_reason in ("length", "abort") else "stop"
    if parsed.tool_calls:
        reason = "tool_calls"
    return ChatCompletion.construct(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        object="chat.completion",
        created=int(time.time()),
        model=model if isinstance(model, str) else "default",
        choices=[{"index": 0, "finish_reason": reason, "message": message, "logprobs": None}],
        usage={
            "prompt_tokens": answer.input_len,
            "completion_tokens": answer.output_len,
            "total_tokens": answer.input_len + answer.output_len,
        },
    )

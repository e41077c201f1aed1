"""A finished chat completion as the chunks of a stream.

Engines answer whole, so the words come in one piece; clients that only read streams work all the
same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk


def chunks_of(completion: ChatCompletion, with_usage: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the chunks as plain dicts.

    Args:
        completion: What is streamed.
        with_usage: Adds a last chunk with the counts of tokens, as
            ``stream_options={"include_usage": True}`` asks for.
    """
    plain = completion.model_dump(exclude_none=True)
    head = {key: plain[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    choice = plain["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{key: message[key]} for key in ("reasoning_content", "content") if message.get(key)]
    calls = message.get("tool_calls", ())
    deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(calls)]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [end]}
    if with_usage:
        yield {**head, "choices": [], "usage": plain["usage"]}


class ChunkStream:
    """What ``create(stream=True)`` returns: an asynchronous iterator over chunks.

    Args:
        completion: What is streamed.
        with_usage: See ``chunks_of``.
    """

    def __init__(self, completion: ChatCompletion, with_usage: bool = False) -> None:
        self._chunks = chunks_of(completion, with_usage)

    def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        from openai.types.chat import ChatCompletionChunk

        chunk = next(self._chunks, None)
        if chunk is None:
            raise StopAsyncIteration
        return ChatCompletionChunk.construct(**chunk)

    @property
    def response(self) -> Self:
        """What the SDK's helper ``chat.completions.stream`` closes in the end."""
        return self

    async def close(self) -> None:
        """End the stream."""
        self._chunks = iter(())

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

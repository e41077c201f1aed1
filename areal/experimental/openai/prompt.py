"""From a conversation to the tokens that the model continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.messages import Message, for_template
from areal.experimental.openai.request import ChatRequest
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.utils.hf_utils import apply_chat_template

_ANSWER_MARK = "[answer]"


def render_prompt(tokenizer: Any, request: ChatRequest) -> list[int]:
    """Render the whole conversation, the assistant's turn opened.

    Raises:
        RequestError: The chat template refuses the conversation.
    """
    kwargs = {**request.template_kwargs, **({"tools": request.tools} if request.tools else {})}
    return _apply(tokenizer, request.messages, tokenize=True, **kwargs)


def extend_prompt(
    tokenizer: Any, parent: InteractionWithTokenLogpReward, request: ChatRequest
) -> list[int]:
    """Return the parent's tokens, its answer's, and those of the messages since.

    Text does not survive the way back to tokens, so what the model wrote is not rendered again.

    Args:
        tokenizer: With a chat template.
        parent: What the conversation goes on with.
        request: Begins with the parent's messages and its answer.

    Raises:
        RequestError: The template refuses the new messages, or leaves out earlier answers.
    """
    answer = parent.model_response
    assert answer is not None
    since = request.messages[len(parent.messages) + len(parent.output_message_list or ()) :]
    tail = _render_after_answer(tokenizer, since, request.template_kwargs)
    ids = list(tokenizer.encode(tail, add_special_tokens=False))
    output = answer.output_tokens
    # The template ends the turn, and so did the model, unless it ran out of tokens.
    if output and ids and output[-1] == ids[0]:
        ids = ids[1:]
    return answer.input_tokens + output + ids


def _render_after_answer(tokenizer: Any, since: Sequence[Message], kwargs: dict[str, Any]) -> str:
    """Render what follows an answer when these messages follow it."""
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _ANSWER_MARK}]
    text = _apply(tokenizer, [*before, *since], tokenize=False, **kwargs)
    _, mark, tail = text.partition(_ANSWER_MARK)
    if not mark:
        raise RequestError("the chat template leaves out what the assistant said before")
    return tail


def _apply(tokenizer: Any, messages: Sequence[Message], **options: Any) -> Any:
    try:
        return apply_chat_template(
            tokenizer, for_template(messages), add_generation_prompt=True, **options
        )
    except Exception as error:  # templates raise what they like
        raise RequestError(
            f"the chat template refuses the messages: {type(error).__name__}: {error}",
            param="messages",
        ) from error

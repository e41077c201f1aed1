"""An agent for mathematical problems, written with Anthropic's SDK (``pip install anthropic``)."""

from __future__ import annotations

from typing import Any

from areal.workflow.math_episode import score

try:
    from anthropic import AsyncAnthropic
except ImportError as error:
    raise ImportError(
        f"this agent needs the package anthropic ({error}): pip install 'areal-lite[agents]'"
    ) from error

DEFAULT_MAX_TOKENS = 1024


class MathAgent:
    """Answers once.

    Args:
        **kwargs: Of the request: ``temperature``, ``top_p``, ``max_tokens`` (or
            ``max_completion_tokens``).
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.pop("max_turns", None)
        max_tokens = kwargs.pop("max_completion_tokens", DEFAULT_MAX_TOKENS)
        self.max_tokens: int = kwargs.pop("max_tokens", max_tokens)
        # Newer versions of the SDK have no arguments for sampling.
        self.sampling = kwargs

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Answer the messages of a row and return the score of the answer."""
        system = "\n\n".join(m["content"] for m in data["messages"] if m["role"] == "system")
        messages = [m for m in data["messages"] if m["role"] != "system"]
        # Without arguments the environment names the episode's proxy. Its shared HTTP client is of
        # another library than this SDK takes.
        async with AsyncAnthropic(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            max_retries=0,
        ) as client:
            answer = await client.messages.create(
                model="default",
                messages=messages,
                max_tokens=self.max_tokens,
                extra_body=self.sampling,
                **({"system": system} if system else {}),
            )
        text = "".join(block.text for block in answer.content if block.type == "text")
        return await score(text, data)

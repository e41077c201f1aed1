"""An agent for mathematical problems on Claude's own loop (``pip install claude-agent-sdk``)."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable
from typing import Any

from areal.workflow.math_episode import DEFAULT_MAX_TURNS, TOOLS, score

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ResultError,
        ResultMessage,
        SdkMcpTool,
        create_sdk_mcp_server,
        query,
        tool,
    )
except ImportError as error:
    raise ImportError(
        f"this agent needs the package claude-agent-sdk ({error}): "
        "pip install 'areal-lite[claude-agent]'"
    ) from error

_SERVER = "math"


class MathToolAgent:
    """Calculates with tools; each episode is a process of the SDK's command-line client.

    No settings, no files and none of the client's own tools reach the model. The client adds a
    paragraph on its surroundings to the prompt, the date among them, so prompts vary by the day.

    Args:
        **kwargs: ``max_turns`` bounds the requests of an episode, ``max_tokens`` (or
            ``max_completion_tokens``) the tokens of each. The client chooses how it samples, so
            ``temperature`` and ``top_p`` are those of the run.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.max_turns: int = kwargs.get("max_turns", DEFAULT_MAX_TURNS)
        self.max_tokens: int | None = kwargs.get("max_tokens", kwargs.get("max_completion_tokens"))

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Solve the problem of a row and return the score of the final answer, 0 without one."""
        system = "\n\n".join(m["content"] for m in data["messages"] if m["role"] == "system")
        prompt = "\n\n".join(m["content"] for m in data["messages"] if m["role"] != "system")
        options = ClaudeAgentOptions(
            system_prompt=system,
            max_turns=self.max_turns,
            tools=[],
            allowed_tools=[f"mcp__{_SERVER}__{function.__name__}" for function in TOOLS],
            mcp_servers={_SERVER: create_sdk_mcp_server(_SERVER, tools=[_sdk(f) for f in TOOLS])},
            strict_mcp_config=True,
            setting_sources=[],
            env=self._environment(extra_kwargs),
        )
        answer = ""
        # An empty folder: the client describes the one it works in.
        with tempfile.TemporaryDirectory() as options.cwd:
            try:
                async for message in query(prompt=prompt, options=options):
                    if isinstance(message, ResultMessage):
                        answer = message.result or ""
            except ResultError as error:
                if error.subtype != "error_max_turns":
                    raise
        return await score(answer, data)

    def _environment(self, extra_kwargs: dict[str, Any]) -> dict[str, str]:
        """Return the variables that lead the client to the episode's proxy and nowhere else."""
        environment = {
            "ANTHROPIC_BASE_URL": extra_kwargs.get("base_url")
            or os.environ.get("ANTHROPIC_BASE_URL", ""),
            "ANTHROPIC_API_KEY": extra_kwargs.get("api_key")
            or os.environ.get("ANTHROPIC_API_KEY", ""),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        if self.max_tokens is not None:
            environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(self.max_tokens)
        return environment


def _sdk(function: Callable[..., Any]) -> SdkMcpTool[Any]:
    """Return a function of numbers as a tool of the SDK."""

    async def call(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(function(**arguments))}]}

    parameters = dict.fromkeys(inspect.signature(function).parameters, float)
    made: SdkMcpTool[Any] = tool(function.__name__, function.__doc__ or "", parameters)(call)
    return made

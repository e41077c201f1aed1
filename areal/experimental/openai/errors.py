"""What goes wrong between an agent and the model it talks to."""

from __future__ import annotations

from areal.api.errors import ArealError


class RequestError(ArealError, ValueError):
    """A request asks for something that cannot be had; the message says what.

    Args:
        message: For the caller.
        status: Of the HTTP answer.
        param: The parameter at fault.
        code: A word for programs, as OpenAI's servers use them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


class AgentProcessError(ArealError, RuntimeError):
    """An agent in a process of its own raised an exception, or its process ended."""

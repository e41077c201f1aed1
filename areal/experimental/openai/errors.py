"""What goes wrong between an agent and the model it talks to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from areal.api.errors import ArealError


class RequestError(ArealError, ValueError):
    """A request asks for something that cannot be had; the message names it.

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


@contextmanager
def refusing_malformed(what: str) -> Iterator[None]:
    """Turn what goes wrong in reading a request into a RequestError: values of another kind.

    Args:
        what: Is read.
    """
    try:
        yield
    except RequestError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError) as error:
        raise RequestError(f"{what} is malformed: {type(error).__name__}: {error}") from error
    except (TypeError, ValueError) as error:
        raise RequestError(f"{what} is malformed: {error}") from error


class AgentProcessError(ArealError, RuntimeError):
    """An agent in a process of its own raised an exception, or its process ended."""

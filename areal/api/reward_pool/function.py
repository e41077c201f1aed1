"""A reward function on its way to another process."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from areal.api.errors import ConfigError, RewardError
from areal.api.reward_pool.worker import Origin


class RewardFunction:
    """A reward function in the form in which it travels to a worker.

    Raises:
        ConfigError: Another process cannot get at the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function_name(function)
        try:
            self.blob = pickle.dumps(function)
        except Exception as error:
            raise ConfigError(
                f"the reward function {self.name} cannot be sent to a worker process ({error}); "
                "make it a module-level function, or mark it @inline_reward to run it in the "
                "event loop"
            ) from error
        self.origin = _origin(function, self.name)


def function_name(function: Any) -> str:
    """Return the name by which messages speak of a reward function."""
    inner = getattr(function, "func", function)  # functools.partial
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    return f"{inner.__module__}.{inner.__qualname__}"


def _origin(function: Any, name: str) -> Origin:
    inner = getattr(function, "func", function)
    module_name = getattr(inner, "__module__", None) or type(inner).__module__
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    if file is not None and not os.path.exists(file):  # "<stdin>" and the like
        file = None
    spec = getattr(module, "__spec__", None)
    if module_name == "__main__" and file is None:
        raise ConfigError(
            f"the reward function {name} was defined in an interactive session, where no worker "
            "process can find it; make it a module-level function of a file, or mark it "
            "@inline_reward"
        )
    return Origin(
        module=module_name,
        file=None if file is None else os.path.abspath(file),
        main_module=spec.name if module_name == "__main__" and spec is not None else None,
        search_path=tuple(os.path.abspath(path) for path in sys.path),
    )


class _WorkerTracebackError(Exception):
    """Shows where in the worker an exception came from."""

    def __init__(self, text: str) -> None:
        super().__init__(f'\n"""\n{text}"""')


def unpack_error(function: RewardFunction, payload: bytes) -> Exception:
    """Return the exception that a function raised in a worker, with the worker's traceback."""
    blob, name, text = pickle.loads(payload)
    error: Any = None
    if blob is not None:
        with contextlib.suppress(Exception):
            error = pickle.loads(blob)
    if not isinstance(error, Exception):
        error = RewardError(f"reward function {function.name} raised {name}")
    error.__cause__ = _WorkerTracebackError(text)
    return error


def load_error(function: RewardFunction, payload: bytes) -> Exception:
    """Return what a worker said about a function that it could not import."""
    _, name, text = pickle.loads(payload)
    error = ConfigError(
        f"a worker process cannot import the reward function {function.name}: {name}; make it a "
        "module-level function of a module that can be imported"
    )
    error.__cause__ = _WorkerTracebackError(text)
    return error

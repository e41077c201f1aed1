"""Tools of ``my_rl.workflow.told_calls``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


# YOURS: write the functions that the model may call; it reads their types and docstrings
def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


TOOLS: list[Callable[..., Any]] = [add]

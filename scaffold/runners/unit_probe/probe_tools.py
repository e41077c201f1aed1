"""Tools for probing workflows: in a module of their own, so that any process can import them."""

from __future__ import annotations


def probe_double(number: int) -> str:
    """Double a number.

    Args:
        number: Any number.
    """
    return f"doubled: {2 * number} {{{{ x }}}} \\ '\"\n"


def probe_fail() -> str:
    """Fail, as a tool does that was asked for what is not there."""
    raise LookupError("this tool always fails")

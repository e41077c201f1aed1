"""How deep YAML nests: the C code that reads it quickly has a stack that ends."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 100
"""People write a dozen values in one another; some ten thousand end the process."""


def check_depth(text: str, library: Any, loader: Any) -> None:
    """Check that a text can be composed without an overflow of the stack.

    Args:
        text: The YAML.
        library: The module ``yaml``, whose stubs leave its loaders untyped.
        loader: The loader that is to read it.

    Raises:
        ValueError: More than MAX_DEPTH values are in one another.
    """
    # Every flow collection, sequence entry and complex key costs one of these signs.
    if sum(map(text.count, "[{-?")) <= MAX_DEPTH:
        return  # indentation alone takes more characters than a file has
    depth = 0
    for event in library.parse(text, Loader=loader):
        depth += isinstance(event, library.CollectionStartEvent)
        depth -= isinstance(event, library.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} values are in one another")

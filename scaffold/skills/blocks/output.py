"""Blocks of the kind ``output``: what a command printed, and a hash that shows when it is stale.

The hash covers the command, every file that it reads as far as the block names them, and the text
that is stored. So whoever executes nothing can tell whether all of them are still as they were.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from scaffold.analysis.files.globs import matches
from scaffold.skills.blocks.markers import Block, BlockError, fenced

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files


def command_of(block: Block) -> tuple[str, ...]:
    """Return the command of ``output "COMMAND" inputs=PATTERN,... [status=N]``, as words.

    Raises:
        BlockError: It names none, or no inputs.
    """
    if len(block.words) != 1:
        raise BlockError('output names one command, in quotes: output "scaffold list" inputs=...')
    if not block.options.get("inputs"):
        raise BlockError("output names the files that its text depends on: inputs=PATTERN,...")
    try:
        words = tuple(shlex.split(block.words[0]))
    except ValueError as error:
        raise BlockError(f"{block.words[0]!r} is not a command: {error}") from error
    if not words:
        raise BlockError("output names an empty command")
    return words


def inputs_of(block: Block, files: Files) -> list[str]:
    """Return the files that the text of a block depends on.

    Raises:
        BlockError: A pattern fits no file.
    """
    found: set[str] = set()
    for pattern in block.listed("inputs"):
        fitting = [path for path in files.paths if matches(path, [pattern])]
        if not fitting:
            raise BlockError(f"no file fits inputs={pattern}")
        found.update(fitting)
    return sorted(found)


def stored_hash(block: Block, files: Files) -> str:
    """Return the hash of a block's command, inputs and text as they are.

    Raises:
        BlockError: The block is wrong, or an input cannot be read.
    """
    whole = hashlib.sha256("\0".join(command_of(block)).encode())
    for path in inputs_of(block, files):
        try:
            data = (files.root / path).read_bytes()
        except OSError as error:
            raise BlockError(f"the input {path} cannot be read: {error.strerror}") from error
        # Null bytes keep a path apart from the data; line ends are those of git, not of a checkout.
        whole.update(f"\0{path}\0".encode() + data.replace(b"\r\n", b"\n"))
    whole.update(b"\0\0" + block.content.encode())
    return whole.hexdigest()[:16]


def is_stale(block: Block, files: Files) -> bool:
    """Return whether the command, an input or the text differs from when it was stored.

    Raises:
        BlockError: The block is wrong, or an input cannot be read.
    """
    return block.options.get("hash") != stored_hash(block, files)


def with_output(block: Block, printed: str, files: Files) -> Block:
    """Return a block that holds what its command printed, with the hash of now."""
    text = fenced(f"$ {block.words[0]}\n{printed}", "console")
    held = replace(block, body=text)
    return replace(held, options={**block.options, "hash": stored_hash(held, files)})

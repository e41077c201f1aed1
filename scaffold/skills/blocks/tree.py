"""Blocks of the kind ``tree``, and patterns of paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scaffold.analysis.files.globs import matches
from scaffold.skills.blocks.markers import Block, BlockError, fenced

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files

MAX_ROWS = 200
"""A longer tree is nothing to read; its block is to be narrowed."""


def tree_text(block: Block, files: Files) -> str:
    """Return ``tree FOLDER [depth=N] [only=PATTERN,...] [without=PATTERN,...]`` as a listing.

    Raises:
        BlockError: The folder is not there, holds nothing of the kind, or holds too much.
    """
    folder = block.words[0].strip("/") if block.words else "."
    prefix = "" if folder == "." else f"{folder}/"
    inside = [path[len(prefix) :] for path in files.paths if path.startswith(prefix)]
    only, without = block.listed("only"), block.listed("without")
    inside = [path for path in inside if not only or matches(path, only)]
    inside = [path for path in inside if not matches(path, without)]
    if not inside:
        raise BlockError(f"no file of {folder} is meant")
    text = block.options.get("depth", "99")
    if not text.isdigit() or not int(text):
        raise BlockError(f"depth must be a number from 1, not {text!r}")
    depth = int(text)
    # Files below the depth leave one row, that of their folder.
    parted = (path.split("/") for path in inside)
    cut = (parts[:depth] + [""] * (len(parts) > depth) for parts in parted)
    shown = sorted({"/".join(parts) for parts in cut})
    rows = list(_rows(shown))
    if len(rows) > MAX_ROWS:
        raise BlockError(f"{folder} has {len(rows)} rows; narrow it by depth= or only=")
    return fenced("\n".join([prefix or "./", *rows]), "text")


def _rows(paths: list[str]) -> Iterable[str]:
    """Yield one row per file and folder, each under its folder."""
    seen: set[str] = set()
    for path in paths:
        parts = path.rstrip("/").split("/")
        for level in range(len(parts)):
            place = "/".join(parts[: level + 1])
            if place not in seen:
                seen.add(place)
                is_folder = level < len(parts) - 1 or path.endswith("/")
                yield "    " * (level + 1) + parts[level] + ("/" if is_folder else "")

"""What ought to be in a generated block, found out without running or importing anything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.skills.blocks.markers import Block, BlockError
from scaffold.skills.blocks.options import options_text
from scaffold.skills.blocks.output import is_stale
from scaffold.skills.blocks.signature import Sources, registry_text, signature_text
from scaffold.skills.blocks.template import template_text
from scaffold.skills.blocks.tree import tree_text

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files
    from scaffold.skills.blocks.settings import Settings

REPAIR = "scaffold skills sync"


class Problem(NamedTuple):
    """Why a block is wrong.

    Args:
        is_stale: Whether `scaffold skills sync` fixes it.
    """

    message: str
    is_stale: bool = False


_OPTIONS: dict[str, frozenset[str]] = {
    "options": frozenset({"cli", "only", "without"}),
    "output": frozenset({"hash", "inputs", "status"}),
    "registry": frozenset(),
    "signature": frozenset({"doc", "members"}),
    "tree": frozenset({"depth", "only", "without"}),
}
"""What each kind may be given; to a template all else is an answer."""


@dataclass
class Repository:
    """A repository as blocks see it."""

    files: Files
    settings: Settings

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.files)


def expected(block: Block, repository: Repository) -> str | Problem | None:
    """Return what ought to be in a block.

    Returns:
        The text; a problem where there can be none, or where an output is stale; None for an output
        that is as it was stored.
    """
    if block.problem:
        return Problem(block.problem)
    wrong = _wrong_words(block)
    if wrong:
        return Problem(wrong)
    try:
        return _text(block, repository)
    except BlockError as error:
        return Problem(str(error))
    except ScaffoldError as error:
        return Problem(error.message)
    except RecursionError:
        return Problem("its sources refer to each other in a circle")


def _wrong_words(block: Block) -> str:
    if block.kind != "tree" and not block.words:
        return f"{block.kind} needs a subject"
    if block.kind in ("signature", "registry") and len(block.words) > 1:
        return f"{block.kind} names one symbol, not {len(block.words)}"
    known = _OPTIONS.get(block.kind)
    unknown = [] if known is None else sorted(set(block.options) - known)
    if unknown:
        return f"{block.kind} has no {unknown[0]}=; known: {', '.join(sorted(known or ()))}"
    return ""


def _text(block: Block, repository: Repository) -> str | Problem | None:
    # One branch per kind: each brings modules that blocks of other kinds do without.
    files = repository.files
    if block.kind == "template":
        return template_text(block, files.root)
    if block.kind == "signature":
        return signature_text(block, repository.sources)
    if block.kind == "registry":
        return registry_text(block, repository.sources)
    if block.kind == "options":
        return options_text(block, files, repository.settings)
    if block.kind == "tree":
        return tree_text(block, files)
    # Only `output` is left, whose text cannot be worked out without running its command.
    if is_stale(block, files):
        message = f"the command, its inputs or the text changed since it was stored: {REPAIR}"
        return Problem(message, is_stale=True)
    return None

"""Generated blocks of the pack's sources, updated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scaffold.errors import ScaffoldError
from scaffold.skills.blocks.expected import Problem, Repository, expected
from scaffold.skills.blocks.markers import Block, parse_blocks, replace_blocks
from scaffold.skills.blocks.sources import BlockError
from scaffold.skills.check.read.documents import installed_folders
from scaffold.skills.pack.run_outputs import run_block
from scaffold.skills.pack.sources import documents_of, read_bytes

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files


@dataclass
class BlockUpdate:
    """What became of the blocks of a pack.

    Args:
        documents: The bytes of each document that changes, before and after, by path.
        stale: Outputs that were not updated since nothing was to be run, as ``path:line``.
    """

    documents: dict[str, tuple[bytes, bytes]] = field(
        default_factory=dict[str, tuple[bytes, bytes]]
    )
    stale: list[str] = field(default_factory=list[str])
    errors: list[ScaffoldError] = field(default_factory=list[ScaffoldError])
    count: int = 0


def update_blocks(repository: Repository, *, may_run: bool) -> BlockUpdate:
    """Update every generated block of the skills, their references and the subagents.

    Args:
        may_run: Whether the commands of stale outputs are run.
    """
    found = BlockUpdate()
    installed = tuple(f"{folder}/" for folder in installed_folders(repository.files))
    for path in documents_of(repository.files):
        if path.startswith(installed):
            continue  # its blocks follow from the repository that it comes from
        text = _text(repository.files, path)
        # Most documents have no block, and need no parse.
        if text is not None and "scaffold:" in text:
            _update_document(path, text, repository, may_run, found)
    return found


def _update_document(
    path: str, text: str, repository: Repository, may_run: bool, found: BlockUpdate
) -> None:
    changed: list[tuple[Block, Block]] = []
    for block in parse_blocks(text):
        found.count += 1
        where = f"{path}:{block.line}"
        try:
            updated = _updated(block, repository, where, may_run)
        except ScaffoldError as error:
            found.errors.append(error)
            continue
        if updated is None:
            found.stale.append(where)
        # Identity marks a block that needs no change.
        elif updated is not block:
            changed.append((block, updated))
    if changed:
        after = replace_blocks(text, changed)
        found.documents[path] = (text.encode(), after.encode())


def _updated(block: Block, repository: Repository, where: str, may_run: bool) -> Block | None:
    """Return a block as it is to be; the same one where it is so, None for a stale output."""
    wanted = expected(block, repository)
    if isinstance(wanted, Problem):
        if not wanted.is_stale:
            raise ScaffoldError(
                f"{where}: {wanted.message}", code="block_invalid", hint="fix the block's comment"
            )
        if not may_run:
            return None
        try:
            return run_block(block, repository, where)
        except BlockError as error:
            raise ScaffoldError(f"{where}: {error}", code="block_invalid") from error
    if wanted is None or wanted.strip("\n") == block.content:
        return block
    return replace(block, body=wanted)


def _text(files: Files, path: str) -> str | None:
    """Return a document as it stands, its line ends too; None for what is no text."""
    try:
        return read_bytes(files.root / path, path).decode("utf-8")
    except (ScaffoldError, UnicodeDecodeError):
        return None  # of a SKILL.md or a subagent whoever reads the pack tells why

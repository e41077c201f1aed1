"""Generated blocks of the pack's sources, updated; `run_block` alone executes anything."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scaffold.analysis.process import run_text
from scaffold.errors import ScaffoldError
from scaffold.skills.blocks.expected import Problem, Repository, expected
from scaffold.skills.blocks.markers import Block, BlockError, parse_blocks, replace_blocks
from scaffold.skills.blocks.output import command_of, with_output
from scaffold.skills.check.read.documents import installed_folders
from scaffold.skills.pack.sources import documents_of, read_bytes

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files
    from scaffold.skills.blocks.expected import Repository
    from scaffold.skills.blocks.markers import Block

TIMEOUT_S = 120.0
MAX_CHARACTERS = 20_000
"""More than this is nothing to read in a skill."""

ENVIRONMENT = {"COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}
"""What keeps an output the same on every machine."""


def run_block(block: Block, repository: Repository, where: str) -> Block:
    """Run the command of a block in the repository's root, and return the block with its output.

    Raises:
        ScaffoldError: The repository does not allow the command, or it failed.
        BlockError: The block is wrong.
    """
    command = command_of(block)
    # A document must not be able to run commands: the repository's settings name them.
    if not repository.settings.allows(command):
        raise ScaffoldError(
            f"{where}: nothing allows {shlex.join(command)!r} to be run",
            code="command_refused",
            hint=f'to allow it: run = ["{command[0]}"] in [tool.scaffold.skills] of pyproject.toml',
        )
    done = _run(command, repository, where)
    wanted = block.options.get("status", "0")
    if str(done.returncode) != wanted:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise _failed(where, command, f"ended with {done.returncode}: {' '.join(last)}")
    text = _tidy(done.stdout, repository)
    if len(text) > MAX_CHARACTERS:
        raise _failed(where, command, f"printed {len(text)} characters, too many for a skill")
    return with_output(block, text, repository.files)


def _run(
    command: tuple[str, ...], repository: Repository, where: str
) -> subprocess.CompletedProcess[str]:
    # The command of this name may be another release, or not on PATH at all.
    own = [sys.executable, "-m", "scaffold"] if command[0] == "scaffold" else [command[0]]
    try:
        return run_text([*own, *command[1:]], repository.files.root, TIMEOUT_S, **ENVIRONMENT)
    except subprocess.TimeoutExpired as error:
        raise _failed(where, command, f"did not end within {TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise _failed(where, command, f"cannot be run: {error.strerror}") from error


def _tidy(text: str, repository: Repository) -> str:
    """Return what was printed without what is another machine's."""
    # With the separator first, so that paths become relative and not absolute.
    text = text.replace(str(repository.files.root) + os.sep, "").replace("\r\n", "\n")
    text = text.replace(str(repository.files.root), ".")
    return "\n".join(row.rstrip() for row in text.splitlines())


def _failed(where: str, command: tuple[str, ...], why: str) -> ScaffoldError:
    return ScaffoldError(
        f"{where}: {shlex.join(command)!r} {why}",
        code="block_invalid",
        hint="run it by hand in the repository's root, and fix it or the block",
    )


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
    """Return a document as it is, its line ends too; None for what is no text."""
    try:
        return read_bytes(files.root / path, path).decode("utf-8")
    except (ScaffoldError, UnicodeDecodeError):
        return None  # of a SKILL.md or a subagent whoever reads the pack gives the reason

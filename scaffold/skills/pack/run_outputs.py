"""Runs the commands of ``output`` blocks: the one part of the pack that executes anything."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from scaffold.analysis.process import run_text
from scaffold.errors import ScaffoldError
from scaffold.skills.blocks.output import command_of, with_output

if TYPE_CHECKING:
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

"""Three-way merges of a file: as it was rendered, as a person left it, as it would be rendered."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaffold.analysis.files.git import run_git
from scaffold.errors import ScaffoldError
from scaffold.units.equivalence import is_equivalent

LABELS = ("yours", "as generated", "newly generated")


@dataclass(frozen=True)
class Merged:
    """The outcome of a merge: the bytes, and the lines at which conflicts are marked."""

    data: bytes
    conflicts: tuple[int, ...] = ()


def merge(path: str, base: bytes, mine: bytes, theirs: bytes) -> Merged:
    """Merge what a template has become into a person's file; nothing of either is dropped.

    Args:
        path: The file's path; its suffix decides what counts as a change.
        base: The text as it was rendered.
        mine: The person's file.
        theirs: The text as it would be rendered.

    Raises:
        ScaffoldError: git, which merges, is not there.
    """
    if base == theirs:
        return Merged(mine)
    # git on Windows checks text out with other line ends; every line would conflict.
    if b"\r\n" in mine and b"\r\n" not in base + theirs:
        base, theirs = (data.replace(b"\n", b"\r\n") for data in (base, theirs))
    # Only a formatter has touched the file: the new text replaces it as a whole.
    if mine == theirs or is_equivalent(path, base, mine):
        return Merged(theirs)
    data = _merge_file(mine, base, theirs)
    marks = re.compile(rb"^<{7} " + LABELS[0].encode(), re.MULTILINE)
    return Merged(data, tuple(data[: m.start()].count(b"\n") + 1 for m in marks.finditer(data)))


def _merge_file(mine: bytes, base: bytes, theirs: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("mine", "base", "theirs")]
        for path, data in zip(paths, (mine, base, theirs), strict=True):
            path.write_bytes(data)
        labels = [word for label in LABELS for word in ("-L", label)]
        # Outside of every repository, so that none of its configuration has a say.
        done = run_git(Path(folder), "merge-file", "-p", "--diff3", *labels, *map(str, paths))
    if not 0 <= done.returncode < 128:  # otherwise it is the number of conflicts
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise ScaffoldError(f"git merge-file failed: {reason}", code="git_missing", hint="see git")
    return done.stdout

"""Changed files that are made of two texts, without a repository."""

from __future__ import annotations

from difflib import SequenceMatcher

from scaffold.vcs.changes import FileChange, Hunk
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.roles import role_of

ZEROS, NAME = "0" * 40, "1" * 40


def changed(path: str, old: str | None, new: str | None, **given: object) -> ChangedFile:
    """Returns a file that held one text and holds another; None means no file."""
    before, after = ((text or "").splitlines() for text in (old, new))
    hunks = tuple(
        Hunk(i + 1, tuple(before[i:j]), k + 1, tuple(after[k:n]))
        for tag, i, j, k, n in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if tag != "equal"
    )
    values = {
        "status": "A" if old is None else "D" if new is None else "M",
        "old_path": None if old is None else path,
        "new_path": None if new is None else path,
        "old_mode": "000000" if old is None else "100644",
        "new_mode": "000000" if new is None else "100644",
        "old_id": ZEROS if old is None else NAME,
        "new_id": ZEROS if new is None else NAME,
        "hunks": hunks,
    }
    change = FileChange(**{**values, **given})  # type: ignore[arg-type]
    return ChangedFile(change, role_of(path, new if new is not None else old), old, new)

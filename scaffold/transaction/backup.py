"""Copies of edited files, kept apart from the target before somebody has them deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scaffold.errors import ApplyError
from scaffold.transaction.disk import Disk
from scaffold.transaction.state import state_folders


def backups_folder(root: Path) -> Path:
    """Return where the copies of a target's edited files are kept, if there are any."""
    return state_folders(root.resolve())[0] / "backups"


def back_up(root: Path, unit_id: str, paths: Iterable[str]) -> Path:
    """Copy files of a target to a new folder of their own, on disk when this returns.

    Args:
        root: The target's folder.
        unit_id: What they belong to; it names the folder.
        paths: The files, relative to the root.

    Returns:
        The folder, which no command ever removes.

    Raises:
        ApplyError: A copy cannot be made; nothing may be deleted then.
    """
    import tempfile  # 3 ms, and only discarded edits need it

    disk = Disk()
    try:
        kept = backups_folder(root)
        kept.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=unit_id.replace("/", "-") + "-", dir=kept))
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            disk.create(folder / path, (root / path).read_bytes())
        disk.sync(folder)
    except OSError as error:
        raise ApplyError(
            f"the edited files cannot be backed up: {error}",
            code="write_failed",
            hint="check free space and permissions; nothing was deleted",
        ) from error
    return folder

"""Where a command works: the working folder, or the one that --target names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def working_folder() -> Path:
    """Return the working folder.

    Raises:
        TargetError: It was deleted.
    """
    from pathlib import Path  # completion does without, and it costs milliseconds

    try:
        return Path.cwd()
    except OSError as error:
        from scaffold.errors import TargetError

        raise TargetError(
            "the working folder was deleted",
            code="target_missing",
            hint="go to a folder that exists",
        ) from error


def start_folder(target: str | None) -> Path:
    """Return the folder that --target names, or the working folder; links are followed.

    Raises:
        TargetError: It is no folder.
    """
    start = (working_folder() / (target or ".")).resolve()
    if not start.is_dir():
        from scaffold.errors import TargetError

        raise TargetError(
            f"{start} is not a folder", code="target_missing", hint="name a folder that exists"
        )
    return start

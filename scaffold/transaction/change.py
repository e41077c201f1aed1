"""Changes: what a plan comes to and what is written to disk."""

from __future__ import annotations

from typing import NamedTuple

from scaffold.report import ReportedChange, unified_diff

FOLDER = ".scaffold"
"""Where a target keeps what the tool has to remember, relative to the root."""


class Change(NamedTuple):
    """One file before and after.

    Args:
        path: The file, relative to the root.
        action: What the report calls the change.
        before: Its bytes; None where there is no file.
        after: The bytes to be; None deletes the file.
        executable: Whether it is to have its run bits; None leaves them as they are.
    """

    path: str
    action: str
    before: bytes | None
    after: bytes | None
    executable: bool | None = None

    @property
    def reported(self) -> ReportedChange:
        """The change as a report shows it, with its diff."""
        return ReportedChange(
            self.path, self.action, unified_diff(self.path, self.before, self.after)
        )

"""What a check tells: where a translation disagrees with its page."""

from __future__ import annotations

from typing import Any, NamedTuple


class Finding(NamedTuple):
    """Is one place where a translation disagrees with its page.

    Args:
        file: The translation.
        line: The line in it, from 1.
        rule: What disagrees, in one word.
        found: What stands there.
        expected: What would agree.
        source: The place in the page, as file:line.
    """

    file: str
    line: int
    rule: str
    found: str
    expected: str
    source: str = ""

    def to_text(self) -> str:
        """Returns the finding on one line."""
        where = f" ({self.source})" if self.source else ""
        return (
            f"{self.file}:{self.line}: {self.rule}: found {self.found}, "
            f"expected {self.expected}{where}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as part of a report."""
        return self._asdict()

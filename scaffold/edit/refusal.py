"""The message of a refused edit: the place, the reason, and the text that a person would add."""

from __future__ import annotations

from dataclasses import dataclass

from scaffold.errors import RegistryError


@dataclass(frozen=True)
class Context:
    """What a refusal has to name; ``entry`` is empty where nothing is to be added."""

    file: str
    table: str
    entry: str = ""

    def refusal(self, code: str, line: int, reason: str) -> RegistryError:
        """Return the error for a reason and the line, from 1, that shows it; 0 names no line."""
        where = f"{self.file}:{line}" if line else self.file
        hint = f"add this line to {self.table} by hand: {self.entry}" if self.entry else ""
        return RegistryError(f"{where}: {reason}", code=code, hint=hint)

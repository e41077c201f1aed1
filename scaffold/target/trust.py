"""What of a repository's own programs may run, remembered in the user's own configuration.

A repository cannot trust itself: what it names is code of whoever wrote it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Trust:
    """What the user allows one repository to run.

    Args:
        commands: Commands as its configuration has them; another argument is another command.
        venv: Whether programs of its ``.venv`` are taken.
    """

    commands: frozenset[str] = frozenset()
    venv: bool = False

    @classmethod
    def read(cls, root: Path) -> Self:
        """Return what is remembered of a repository; nothing where that cannot be read."""
        row = _read_all().get(_name(root), {})
        return cls(frozenset(row.get("commands", ())), row.get("venv") is True)

    def write(self, root: Path) -> None:
        """Remember it in place of what was remembered before."""
        rows = {name: row for name, row in _read_all().items() if name != _name(root)}
        if self != Trust():
            rows[_name(root)] = {"commands": sorted(self.commands), "venv": self.venv}
        place = trust_file()
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f"{place.name}.{os.getpid()}")
        fresh.write_text(json.dumps(rows, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(fresh, place)


def trust_file() -> Path:
    """Return the file of all that is trusted, in the user's configuration folder."""
    import platformdirs  # most commands ask for nothing

    return platformdirs.user_config_path("areal-scaffold", appauthor=False) / "trusted.json"


def _read_all() -> dict[str, dict[str, Any]]:
    # The user's own file, so its form is ours; where it is broken nothing is trusted.
    try:
        found: dict[str, dict[str, Any]] = json.loads(trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _name(root: Path) -> str:
    return os.path.realpath(root)

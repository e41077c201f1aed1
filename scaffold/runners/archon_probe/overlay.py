"""Put staged modules before those of an installed package."""

from __future__ import annotations

import importlib
from pathlib import Path


def lay_over(package: str, folder: Path | str) -> None:
    """Put the modules of a folder before those of a package; all others stay as they are.

    Args:
        package: The dotted name of a package, which is imported.
        folder: Holds the modules.
    """
    module = importlib.import_module(package)
    module.__path__.insert(0, str(folder))
    importlib.invalidate_caches()

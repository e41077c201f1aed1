"""A pytest plugin: of tests over a whole registry it runs those about one unit.

The keys of the other units are in SCAFFOLD_OTHER_UNITS, as a JSON list.
"""

from __future__ import annotations

import json
import os
from typing import Any


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Deselect what is parametrised by the key of another unit."""
    others = set(json.loads(os.environ.get("SCAFFOLD_OTHER_UNITS", "[]")))
    kept: list[Any] = []
    left_out: list[Any] = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        values = callspec.params.values() if callspec is not None else ()
        is_other = any(isinstance(value, str) and value in others for value in values)
        (left_out if is_other else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

"""Models for the backend ``archon``: one folder each, named in one table.

``areal`` finds the table by the entry point ``areal.archon_models`` in pyproject.toml.
"""

from __future__ import annotations

ARCHON_MODELS: dict[str, str] = {
    # "model_type": "my_rl.models.name.spec:NAME_SPEC", sorted, one per line
}

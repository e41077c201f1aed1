"""Weights between Archon models and the Hub: rules, the adapter that follows them, streaming."""

from areal.experimental.models.archon.state_dict.adapter import RuleAdapter
from areal.experimental.models.archon.state_dict.rules import (
    Flattened,
    Fused,
    Ignored,
    Rename,
    Reordered,
    Rule,
    Split,
    Stacked,
    Tied,
    Transposed,
    Unsqueezed,
    Unused,
)
from areal.experimental.models.archon.state_dict.streaming import (
    LoadReport,
    hub_tensors,
    load_checkpoint,
    save_checkpoint,
)

__all__ = [
    "Flattened",
    "Fused",
    "Ignored",
    "LoadReport",
    "Rename",
    "Reordered",
    "Rule",
    "RuleAdapter",
    "Split",
    "Stacked",
    "Tied",
    "Transposed",
    "Unsqueezed",
    "Unused",
    "hub_tensors",
    "load_checkpoint",
    "save_checkpoint",
]

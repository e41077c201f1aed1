"""Workflows of Trinity-RFT on our engines, and ours in Trinity-RFT.

>>> TrinityWorkflow("math_workflow", gconfig, tokenizer, format_args={"prompt_key": "question"})
"""

from __future__ import annotations

from areal.api.registry import lazy_exports

_LAZY_IMPORTS = {
    "TrinityWorkflow": "areal.experimental.trinity.workflow",
    "as_trinity_workflow": "areal.experimental.trinity.export",
}

__all__ = ["TrinityWorkflow", "as_trinity_workflow"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)

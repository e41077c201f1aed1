"""Mixture of experts: routers, grouped experts, shared experts."""

from __future__ import annotations

from areal.experimental.models.archon.moe.args import MoEArgs
from areal.experimental.models.archon.moe.experts import GroupedExperts
from areal.experimental.models.archon.moe.moe import MoE
from areal.experimental.models.archon.moe.router import TokenChoiceTopKRouter
from areal.experimental.models.archon.moe.utils import (
    TokenReorderer,
    merge_expert_outputs,
    permute_tokens,
    unpermute_tokens,
)

__all__ = [
    "GroupedExperts",
    "MoE",
    "MoEArgs",
    "TokenChoiceTopKRouter",
    "TokenReorderer",
    "merge_expert_outputs",
    "permute_tokens",
    "unpermute_tokens",
]

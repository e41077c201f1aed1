"""Archon model for the Hugging Face model_type ``qwen3_moe``."""

from areal.experimental.models.archon.qwen3_moe.model.args import Qwen3MoeModelArgs
from areal.experimental.models.archon.qwen3_moe.model.model import Qwen3MoeModel
from areal.experimental.models.archon.qwen3_moe.model.state_dict_adapter import (
    Qwen3MoeStateDictAdapter,
)

__all__ = [
    "Qwen3MoeModel",
    "Qwen3MoeModelArgs",
    "Qwen3MoeStateDictAdapter",
]

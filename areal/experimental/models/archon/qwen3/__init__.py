"""Archon model for the Hugging Face model_type ``qwen3``."""

from areal.experimental.models.archon.qwen3.model.args import Qwen3ModelArgs
from areal.experimental.models.archon.qwen3.model.model import Qwen3Model
from areal.experimental.models.archon.qwen3.model.state_dict_adapter import Qwen3StateDictAdapter

__all__ = [
    "Qwen3Model",
    "Qwen3ModelArgs",
    "Qwen3StateDictAdapter",
]

"""Archon model for the Hugging Face model_type ``qwen2``."""

from areal.experimental.models.archon.qwen2.model.args import Qwen2ModelArgs
from areal.experimental.models.archon.qwen2.model.model import Qwen2Model
from areal.experimental.models.archon.qwen2.model.state_dict_adapter import Qwen2StateDictAdapter

__all__ = [
    "Qwen2Model",
    "Qwen2ModelArgs",
    "Qwen2StateDictAdapter",
]

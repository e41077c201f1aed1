"""Archon model for the Hugging Face model_type ``gemma2``."""

from areal.experimental.models.archon.gemma2.model.args import Gemma2ModelArgs
from areal.experimental.models.archon.gemma2.model.model import Gemma2Model
from areal.experimental.models.archon.gemma2.model.state_dict_adapter import Gemma2StateDictAdapter

__all__ = [
    "Gemma2Model",
    "Gemma2ModelArgs",
    "Gemma2StateDictAdapter",
]

"""Archon model for the Hugging Face model_type ``olmo2``."""

from areal.experimental.models.archon.olmo2.model.args import Olmo2ModelArgs
from areal.experimental.models.archon.olmo2.model.model import Olmo2Model
from areal.experimental.models.archon.olmo2.model.state_dict_adapter import Olmo2StateDictAdapter

__all__ = [
    "Olmo2Model",
    "Olmo2ModelArgs",
    "Olmo2StateDictAdapter",
]

"""Archon model for the Hugging Face model_type ``gemma3_text``."""

from areal.experimental.models.archon.gemma3_text.model.args import Gemma3ModelArgs
from areal.experimental.models.archon.gemma3_text.model.model import Gemma3Model
from areal.experimental.models.archon.gemma3_text.model.state_dict_adapter import (
    Gemma3StateDictAdapter,
)

__all__ = [
    "Gemma3Model",
    "Gemma3ModelArgs",
    "Gemma3StateDictAdapter",
]

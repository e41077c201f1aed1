"""Archon model for the Hugging Face model_type ``modernbert``."""

from areal.experimental.models.archon.modernbert.model.args import ModernBertModelArgs
from areal.experimental.models.archon.modernbert.model.model import ModernBertModel
from areal.experimental.models.archon.modernbert.model.state_dict_adapter import (
    ModernBertStateDictAdapter,
)

__all__ = [
    "ModernBertModel",
    "ModernBertModelArgs",
    "ModernBertStateDictAdapter",
]

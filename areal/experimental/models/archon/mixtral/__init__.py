"""Archon model for the Hugging Face model_type ``mixtral``."""

from areal.experimental.models.archon.mixtral.model.args import MixtralModelArgs
from areal.experimental.models.archon.mixtral.model.model import MixtralModel
from areal.experimental.models.archon.mixtral.model.state_dict_adapter import (
    MixtralStateDictAdapter,
)

__all__ = [
    "MixtralModel",
    "MixtralModelArgs",
    "MixtralStateDictAdapter",
]

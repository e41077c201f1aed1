"""Archon model for the Hugging Face model_type ``every-thing``."""

from areal.experimental.models.archon.every_thing.model.args import EveryThingModelArgs
from areal.experimental.models.archon.every_thing.model.model import EveryThingModel
from areal.experimental.models.archon.every_thing.model.state_dict_adapter import (
    EveryThingStateDictAdapter,
)

__all__ = [
    "EveryThingModel",
    "EveryThingModelArgs",
    "EveryThingStateDictAdapter",
]

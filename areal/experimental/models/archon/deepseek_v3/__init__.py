"""Archon model for the Hugging Face model_type ``deepseek_v3``."""

from areal.experimental.models.archon.deepseek_v3.model.args import DeepseekV3ModelArgs
from areal.experimental.models.archon.deepseek_v3.model.model import DeepseekV3Model
from areal.experimental.models.archon.deepseek_v3.model.state_dict_adapter import (
    DeepseekV3StateDictAdapter,
)

__all__ = [
    "DeepseekV3Model",
    "DeepseekV3ModelArgs",
    "DeepseekV3StateDictAdapter",
]

"""Archon model for the Hugging Face model_type ``gpt_oss``."""

from areal.experimental.models.archon.gpt_oss.model.args import GptOssModelArgs
from areal.experimental.models.archon.gpt_oss.model.model import GptOssModel
from areal.experimental.models.archon.gpt_oss.model.state_dict_adapter import GptOssStateDictAdapter

__all__ = [
    "GptOssModel",
    "GptOssModelArgs",
    "GptOssStateDictAdapter",
]

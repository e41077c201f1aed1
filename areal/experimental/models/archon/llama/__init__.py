"""Archon model for the Hugging Face model_type ``llama``."""

from areal.experimental.models.archon.llama.model.args import LlamaModelArgs
from areal.experimental.models.archon.llama.model.model import LlamaModel
from areal.experimental.models.archon.llama.model.state_dict_adapter import LlamaStateDictAdapter

__all__ = [
    "LlamaModel",
    "LlamaModelArgs",
    "LlamaStateDictAdapter",
]

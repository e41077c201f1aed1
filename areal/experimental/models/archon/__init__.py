"""Archon: PyTorch-native training models, one folder per Hugging Face model_type.

``ARCHON_MODELS`` names every model; its spec is imported when it is asked for, so that importing
this package loads no torch. ``scaffold add-archon-model`` writes a model's folder and its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.experimental.models.archon.model_spec import (
        ModelSpec,
        get_model_spec,
        get_supported_model_types,
        is_supported_model,
    )

# model_type, as Hugging Face spells it, to the spec of its model.
ARCHON_MODELS: dict[str, str] = {
    "deepseek_v3": "areal.experimental.models.archon.deepseek_v3.spec:DEEPSEEK_V3_SPEC",
    "gemma3_text": "areal.experimental.models.archon.gemma3_text.spec:GEMMA3_TEXT_SPEC",
    "gpt_oss": "areal.experimental.models.archon.gpt_oss.spec:GPT_OSS_SPEC",
    "llama": "areal.experimental.models.archon.llama.spec:LLAMA_SPEC",
    "mixtral": "areal.experimental.models.archon.mixtral.spec:MIXTRAL_SPEC",
    "olmo2": "areal.experimental.models.archon.olmo2.spec:OLMO2_SPEC",
    "qwen2": "areal.experimental.models.archon.qwen2.spec:QWEN2_SPEC",
    "qwen3": "areal.experimental.models.archon.qwen3.spec:QWEN3_SPEC",
    "qwen3_moe": "areal.experimental.models.archon.qwen3_moe.spec:QWEN3_MOE_SPEC",
}

_SPEC_MODULE = "areal.experimental.models.archon.model_spec"

_LAZY_IMPORTS: dict[str, str] = {
    "ModelSpec": _SPEC_MODULE,
    "get_model_spec": _SPEC_MODULE,
    "get_supported_model_types": _SPEC_MODULE,
    "is_supported_model": _SPEC_MODULE,
}

__all__ = [
    "ARCHON_MODELS",
    "ModelSpec",
    "get_model_spec",
    "get_supported_model_types",
    "is_supported_model",
]

__getattr__, _lazy_dir = lazy_exports(__name__, _LAZY_IMPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)

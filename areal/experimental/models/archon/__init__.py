"""Archon: PyTorch-native training models, one folder per Hugging Face model_type.

``ARCHON_MODELS`` names every model; its spec is imported when it is asked for, so that importing
this package loads no torch. ``scaffold add-archon-model`` writes a model's folder and its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.experimental.models.archon.base import (
        BaseStateDictAdapter,
    )
    from areal.experimental.models.archon.expert_parallel import (
        ExpertParallel,
        ExpertTensorParallel,
        TensorParallel,
        apply_expert_parallel,
    )
    from areal.experimental.models.archon.model_spec import (
        ModelSpec,
        get_model_spec,
        get_supported_model_types,
        is_supported_model,
    )
    from areal.experimental.models.archon.moe_weight_converter import (
        MoEConversionState,
        MoEWeightConverter,
    )
    from areal.experimental.models.archon.parallel_dims import (
        ArchonParallelDims,
    )
    from areal.experimental.models.archon.pipeline_parallel import (
        generate_llm_fqn_per_model_part,
        pipeline_llm,
        pipeline_module_split,
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

_LAZY_IMPORTS: dict[str, str] = {
    "ArchonParallelDims": "areal.experimental.models.archon.parallel_dims",
    "BaseStateDictAdapter": "areal.experimental.models.archon.base",
    "ExpertParallel": "areal.experimental.models.archon.expert_parallel",
    "ExpertTensorParallel": "areal.experimental.models.archon.expert_parallel",
    "MoEConversionState": "areal.experimental.models.archon.moe_weight_converter",
    "MoEWeightConverter": "areal.experimental.models.archon.moe_weight_converter",
    "ModelSpec": "areal.experimental.models.archon.model_spec",
    "TensorParallel": "areal.experimental.models.archon.expert_parallel",
    "apply_expert_parallel": "areal.experimental.models.archon.expert_parallel",
    "generate_llm_fqn_per_model_part": "areal.experimental.models.archon.pipeline_parallel",
    "get_model_spec": "areal.experimental.models.archon.model_spec",
    "get_supported_model_types": "areal.experimental.models.archon.model_spec",
    "is_supported_model": "areal.experimental.models.archon.model_spec",
    "pipeline_llm": "areal.experimental.models.archon.pipeline_parallel",
    "pipeline_module_split": "areal.experimental.models.archon.pipeline_parallel",
}

__all__ = [
    "ARCHON_MODELS",
    "ArchonParallelDims",
    "BaseStateDictAdapter",
    "ExpertParallel",
    "ExpertTensorParallel",
    "MoEConversionState",
    "MoEWeightConverter",
    "ModelSpec",
    "TensorParallel",
    "apply_expert_parallel",
    "generate_llm_fqn_per_model_part",
    "get_model_spec",
    "get_supported_model_types",
    "is_supported_model",
    "pipeline_llm",
    "pipeline_module_split",
]

__getattr__, _lazy_dir = lazy_exports(__name__, _LAZY_IMPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)

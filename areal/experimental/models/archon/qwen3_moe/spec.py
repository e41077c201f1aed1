"""What the trainer needs of Qwen3Moe."""

from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm
from areal.experimental.models.archon.qwen3_moe.infra.parallelize import parallelize_qwen3_moe
from areal.experimental.models.archon.qwen3_moe.model.args import Qwen3MoeModelArgs
from areal.experimental.models.archon.qwen3_moe.model.model import Qwen3MoeModel
from areal.experimental.models.archon.qwen3_moe.model.state_dict_adapter import (
    Qwen3MoeStateDictAdapter,
)

QWEN3_MOE_SPEC = ModelSpec(
    name="qwen3_moe",
    model_class=Qwen3MoeModel,
    model_args_class=Qwen3MoeModelArgs,
    state_dict_adapter_class=Qwen3MoeStateDictAdapter,
    parallelize_fn=parallelize_qwen3_moe,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"qwen3_moe"}),
)

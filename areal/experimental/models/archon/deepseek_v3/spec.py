"""What the trainer needs of DeepseekV3."""

from areal.experimental.models.archon.deepseek_v3.infra.parallelize import parallelize_deepseek_v3
from areal.experimental.models.archon.deepseek_v3.model.args import DeepseekV3ModelArgs
from areal.experimental.models.archon.deepseek_v3.model.model import DeepseekV3Model
from areal.experimental.models.archon.deepseek_v3.model.state_dict_adapter import (
    DeepseekV3StateDictAdapter,
)
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

DEEPSEEK_V3_SPEC = ModelSpec(
    name="deepseek_v3",
    model_class=DeepseekV3Model,
    model_args_class=DeepseekV3ModelArgs,
    state_dict_adapter_class=DeepseekV3StateDictAdapter,
    parallelize_fn=parallelize_deepseek_v3,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"deepseek_v3"}),
)

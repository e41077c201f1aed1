"""What the trainer needs of GptOss."""

from areal.experimental.models.archon.gpt_oss.infra.parallelize import parallelize_gpt_oss
from areal.experimental.models.archon.gpt_oss.model.args import GptOssModelArgs
from areal.experimental.models.archon.gpt_oss.model.model import GptOssModel
from areal.experimental.models.archon.gpt_oss.model.state_dict_adapter import GptOssStateDictAdapter
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

GPT_OSS_SPEC = ModelSpec(
    name="gpt_oss",
    model_class=GptOssModel,
    model_args_class=GptOssModelArgs,
    state_dict_adapter_class=GptOssStateDictAdapter,
    parallelize_fn=parallelize_gpt_oss,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"gpt_oss"}),
)

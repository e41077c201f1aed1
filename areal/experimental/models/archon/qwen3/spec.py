"""What the trainer needs of Qwen3."""

from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm
from areal.experimental.models.archon.qwen3.infra.parallelize import parallelize_qwen3
from areal.experimental.models.archon.qwen3.model.args import Qwen3ModelArgs
from areal.experimental.models.archon.qwen3.model.model import Qwen3Model
from areal.experimental.models.archon.qwen3.model.state_dict_adapter import Qwen3StateDictAdapter

QWEN3_SPEC = ModelSpec(
    name="qwen3",
    model_class=Qwen3Model,
    model_args_class=Qwen3ModelArgs,
    state_dict_adapter_class=Qwen3StateDictAdapter,
    parallelize_fn=parallelize_qwen3,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"qwen3"}),
)

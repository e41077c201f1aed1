"""What the trainer needs of Qwen2."""

from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm
from areal.experimental.models.archon.qwen2.infra.parallelize import parallelize_qwen2
from areal.experimental.models.archon.qwen2.model.args import Qwen2ModelArgs
from areal.experimental.models.archon.qwen2.model.model import Qwen2Model
from areal.experimental.models.archon.qwen2.model.state_dict_adapter import Qwen2StateDictAdapter

QWEN2_SPEC = ModelSpec(
    name="qwen2",
    model_class=Qwen2Model,
    model_args_class=Qwen2ModelArgs,
    state_dict_adapter_class=Qwen2StateDictAdapter,
    parallelize_fn=parallelize_qwen2,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"qwen2"}),
)

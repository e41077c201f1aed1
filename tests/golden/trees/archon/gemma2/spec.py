"""What the trainer needs of Gemma2."""

from areal.experimental.models.archon.gemma2.infra.parallelize import parallelize_gemma2
from areal.experimental.models.archon.gemma2.model.args import Gemma2ModelArgs
from areal.experimental.models.archon.gemma2.model.model import Gemma2Model
from areal.experimental.models.archon.gemma2.model.state_dict_adapter import Gemma2StateDictAdapter
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

GEMMA2_SPEC = ModelSpec(
    name="gemma2",
    model_class=Gemma2Model,
    model_args_class=Gemma2ModelArgs,
    state_dict_adapter_class=Gemma2StateDictAdapter,
    parallelize_fn=parallelize_gemma2,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"gemma2"}),
)

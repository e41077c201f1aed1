"""What the trainer needs of Olmo2."""

from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.olmo2.infra.parallelize import parallelize_olmo2
from areal.experimental.models.archon.olmo2.model.args import Olmo2ModelArgs
from areal.experimental.models.archon.olmo2.model.model import Olmo2Model
from areal.experimental.models.archon.olmo2.model.state_dict_adapter import Olmo2StateDictAdapter
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

OLMO2_SPEC = ModelSpec(
    name="olmo2",
    model_class=Olmo2Model,
    model_args_class=Olmo2ModelArgs,
    state_dict_adapter_class=Olmo2StateDictAdapter,
    parallelize_fn=parallelize_olmo2,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"olmo2"}),
)

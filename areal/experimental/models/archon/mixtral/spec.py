"""What the trainer needs of Mixtral."""

from areal.experimental.models.archon.mixtral.infra.parallelize import parallelize_mixtral
from areal.experimental.models.archon.mixtral.model.args import MixtralModelArgs
from areal.experimental.models.archon.mixtral.model.model import MixtralModel
from areal.experimental.models.archon.mixtral.model.state_dict_adapter import (
    MixtralStateDictAdapter,
)
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

MIXTRAL_SPEC = ModelSpec(
    name="mixtral",
    model_class=MixtralModel,
    model_args_class=MixtralModelArgs,
    state_dict_adapter_class=MixtralStateDictAdapter,
    parallelize_fn=parallelize_mixtral,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"mixtral"}),
)

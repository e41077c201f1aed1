"""What the trainer needs of ModernBert."""

from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.modernbert.infra.parallelize import parallelize_modernbert
from areal.experimental.models.archon.modernbert.model.args import ModernBertModelArgs
from areal.experimental.models.archon.modernbert.model.model import ModernBertModel
from areal.experimental.models.archon.modernbert.model.state_dict_adapter import (
    ModernBertStateDictAdapter,
)
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

MODERNBERT_SPEC = ModelSpec(
    name="modernbert",
    model_class=ModernBertModel,
    model_args_class=ModernBertModelArgs,
    state_dict_adapter_class=ModernBertStateDictAdapter,
    parallelize_fn=parallelize_modernbert,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"modernbert"}),
)

"""What the trainer needs of Gemma3."""

from areal.experimental.models.archon.gemma3_text.infra.parallelize import parallelize_gemma3_text
from areal.experimental.models.archon.gemma3_text.model.args import Gemma3ModelArgs
from areal.experimental.models.archon.gemma3_text.model.model import Gemma3Model
from areal.experimental.models.archon.gemma3_text.model.state_dict_adapter import (
    Gemma3StateDictAdapter,
)
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

GEMMA3_TEXT_SPEC = ModelSpec(
    name="gemma3_text",
    model_class=Gemma3Model,
    model_args_class=Gemma3ModelArgs,
    state_dict_adapter_class=Gemma3StateDictAdapter,
    parallelize_fn=parallelize_gemma3_text,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"gemma3_text"}),
)

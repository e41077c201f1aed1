"""What the trainer needs of Llama."""

from areal.experimental.models.archon.llama.infra.parallelize import parallelize_llama
from areal.experimental.models.archon.llama.model.args import LlamaModelArgs
from areal.experimental.models.archon.llama.model.model import LlamaModel
from areal.experimental.models.archon.llama.model.state_dict_adapter import LlamaStateDictAdapter
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

LLAMA_SPEC = ModelSpec(
    name="llama",
    model_class=LlamaModel,
    model_args_class=LlamaModelArgs,
    state_dict_adapter_class=LlamaStateDictAdapter,
    parallelize_fn=parallelize_llama,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"llama"}),
)

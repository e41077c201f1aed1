"""What the trainer needs of EveryThing."""

from areal.experimental.models.archon.every_thing.infra.parallelize import parallelize_every_thing
from areal.experimental.models.archon.every_thing.model.args import EveryThingModelArgs
from areal.experimental.models.archon.every_thing.model.model import EveryThingModel
from areal.experimental.models.archon.every_thing.model.state_dict_adapter import (
    EveryThingStateDictAdapter,
)
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.pipeline_parallel import pipeline_llm

EVERY_THING_SPEC = ModelSpec(
    name="every_thing",
    model_class=EveryThingModel,
    model_args_class=EveryThingModelArgs,
    state_dict_adapter_class=EveryThingStateDictAdapter,
    parallelize_fn=parallelize_every_thing,
    pipelining_fn=pipeline_llm,
    supported_model_types=frozenset({"every-thing"}),
)

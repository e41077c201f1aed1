"""Weights of EveryThing under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.every_thing.model.args import EveryThingModelArgs
from areal.experimental.models.archon.every_thing.model.model import EveryThingModel
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter


class EveryThingStateDictAdapter(RuleAdapter):
    """Maps the weights of EveryThing by rules: a name on the Hub, then what it holds."""

    model_class = EveryThingModel
    model_args_class = EveryThingModelArgs
    RULES = (
        Rename("norm.weight", "norm.weight"),
        Rename("head.weight", "output.weight"),
    )

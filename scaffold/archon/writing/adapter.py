"""``model/state_dict_adapter.py``: how the names on the Hub hold a model's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from scaffold.archon.writing.names import ModelNames
from scaffold.archon.writing.source import Source, class_text
from scaffold.archon.writing.values import Json, literal

POSITIONAL = ("hub", "archon", "source")
"""Arguments of a rule that are given by position."""


def adapter_file(design: Json, names: ModelNames) -> str:
    """Returns ``model/state_dict_adapter.py``."""
    source = Source(f"Weights of {names.prefix} under the names on the Hub.", names.first_party)
    source.use("typing", "ClassVar")
    source.use(names.shared("state_dict"), "RuleAdapter")
    source.use(names.own("model", "model"), names.model)
    rules = cast("Sequence[Json]", design.get("weights") or [])
    rows = [f"    {_rule_text(rule, source, names)}," for rule in rules]
    parts = [
        "\n".join(["RULES: ClassVar[tuple[AnyRule, ...]] = (", *rows, ")"]),
        f"model_class: ClassVar[type[nn.Module]] = {names.model}",
    ]
    source.use("torch", "nn")
    source.use(names.shared("state_dict", "rules"), "AnyRule")
    doc = "Maps each tensor on the Hub to the parameters that it holds."
    source.add(class_text(names.adapter, "RuleAdapter", doc, parts))
    return source.text()


def _rule_text(rule: Json, source: Source, names: ModelNames) -> str:
    kind = str(rule["rule"])
    source.use(names.shared("state_dict"), kind)
    given = [literal(rule[key]) for key in POSITIONAL if key in rule]
    given += [f"{k}={literal(v)}" for k, v in rule.items() if k not in (*POSITIONAL, "rule")]
    return f"{kind}({', '.join(given)})"

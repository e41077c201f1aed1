"""``model/state_dict_adapter.py``: how the names on the Hub hold a model's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source, class_text
from scaffold.archon.codegen.values import Json
from scaffold.templating.render import python_literal

POSITIONAL = ("hub", "archon", "source")
"""Arguments of a rule that are given by position."""

_DEFAULTS = {"groups": 1, "axis": 0, "transposed": False, "when": None}
_OPTIONS = (*_DEFAULTS, "shape", "order")
"""Fields of a rule that are written; the others say how it was found."""


def adapter_file(design: Json, names: ModelNames) -> str:
    """Returns ``model/state_dict_adapter.py``."""
    source = Source(f"Weights of {names.prefix} under the names on the Hub.", names.first_party)
    source.use(names.shared("state_dict"), "RuleAdapter")
    source.use(names.own("model", "model"), names.model)
    rules = cast("Sequence[Json]", design.get("weights") or [])
    rows = [f"    {_rule_text(rule, source, names)}," for rule in rules]
    body = "\n".join([f"model_class = {names.model}", "RULES = (", *rows, ")"])
    doc = f"Maps the weights of {names.prefix} by rules: a name on the Hub, then what it holds."
    source.add(class_text(names.adapter, "RuleAdapter", doc, [body]))
    return source.text()


def _rule_text(rule: Json, source: Source, names: ModelNames) -> str:
    kind = str(rule["rule"])
    source.use(names.shared("state_dict"), kind)
    given = [_literal(rule[key]) for key in POSITIONAL if key in rule]
    given += [
        f"{key}={_literal(rule[key])}"
        for key in _OPTIONS
        if key in rule and rule[key] != _DEFAULTS.get(key)
    ]
    return f"{kind}({', '.join(given)})"


def _literal(value: Any) -> str:
    """Returns a value as Python; lists become tuples, for rules are immutable."""
    if not isinstance(value, list):
        return python_literal(value)
    entries = [_literal(entry) for entry in cast("list[Any]", value)]
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"

"""``model/state_dict_adapter.py``: how the names on the Hub hold a model's parameters."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import cast

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source, class_text
from scaffold.archon.codegen.values import Json, literal

# The three names of a rule come in this order in the shared `state_dict` module.
POSITIONAL = ("hub", "archon", "source")
"""Arguments of a rule that are given by position."""

_DEFAULTS = {"groups": 1, "axis": 0, "transposed": False, "when": None}
"""Fields of a rule that are written where they are something else; others say how it was found."""


def adapter_file(design: Json, names: ModelNames) -> str:
    """Return ``model/state_dict_adapter.py``."""
    source = Source(f"Weights of {names.prefix} under the names on the Hub.", names)
    source.share("state_dict", "RuleAdapter")
    source.use(names.own("model", "args"), names.args)
    source.use(names.own("model", "model"), names.model)
    rules = cast("Sequence[Json]", design.get("weights") or [])
    rows = [f"    {_rule_text(rule, source)}," for rule in rules]
    classes = [f"model_class = {names.model}", f"model_args_class = {names.args}"]
    body = "\n".join([*classes, "RULES = (", *rows, ")"])
    doc = f"Maps the weights of {names.prefix} by rules: a name on the Hub, then what it holds."
    source.add(class_text(names.adapter, "RuleAdapter", doc, [body]))
    return source.text()


def in_model_order(rules: Sequence[Json], model: str) -> list[Json]:
    """Return rules in the order in which a model defines the parameters that they give.

    Args:
        rules: As they were found: in the order of transformers' modules.
        model: The text of ``model/model.py``, whose last class is the model.
    """
    classes = {
        node.name: _attributes(node)
        for node in ast.parse(model).body
        if isinstance(node, ast.ClassDef)
    }
    parameters = {str(rule["hub"]): rule["archon"] for rule in rules if "archon" in rule}

    def place(rule: Json) -> list[float]:
        archon = parameters.get(str(rule["hub"]), "")  # of a tied name, where it is not left out
        first = cast("list[str]", archon)[0] if isinstance(archon, list) else str(archon)
        found: list[float] = []
        # The last class is the model; from there each part of a name leads to the class of an
        # attribute.
        kind = next(reversed(classes), "")
        for attribute in (part for part in first.split(".") if part != "{}"):
            if kind not in classes:  # a shared module, whose parameters stay as they were found
                break
            order, kind = classes[kind].get(attribute, (math.inf, ""))
            found.append(order)
        return found

    # Lists of line numbers compare level by level: the model's attribute, the block's, and so on.
    return sorted(rules, key=place)


def _attributes(node: ast.ClassDef) -> dict[str, tuple[int, str]]:
    """Return where a class sets each attribute, and the first class that its value names."""
    found: dict[str, tuple[int, str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
            called = [
                call.func.id
                for call in ast.walk(each.value)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            ]
            # `self.attention = Attention(args)`: the first name with a capital is the class.
            own = next((name for name in called if name[0].isupper()), "")
            found.setdefault(each.targets[0].attr, (each.lineno, own))
    return found


def _rule_text(rule: Json, source: Source) -> str:
    kind = str(rule["rule"])
    source.share("state_dict", kind)
    given = [literal(rule[key]) for key in POSITIONAL if key in rule]
    given += [
        f"{key}={literal(rule[key])}"
        for key, usual in _DEFAULTS.items()
        if key in rule and rule[key] != usual
    ]
    return f"{kind}({', '.join(given)})"

"""The mixture of experts of a generated model: its arguments and its constructor call."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from scaffold.archon.codegen.names import ARCHON
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json, default_text, literal, spelled, value_text
from scaffold.syntax import parse
from scaffold.templating.manifests import templates_folder

_ARGUMENT = re.compile(r"\bargs\.(\w+)")


@functools.cache
def defaults() -> dict[str, Any]:
    """Return what the fields of ``MoEArgs`` are when nothing is said, in their order."""
    # Read as text: importing it would need torch.
    file = templates_folder().parent / f"{ARCHON.replace('.', '/')}/moe/args.py"
    classes = (n for n in parse(file.read_bytes()).body if isinstance(n, ast.ClassDef))
    fields = next(n for n in classes if n.name == "MoEArgs").body
    return {
        ast.unparse(n.target): ast.literal_eval(n.value)
        for n in fields
        if isinstance(n, ast.AnnAssign) and n.value is not None
    }


def moe_text(moe: Json, source: Source) -> str:
    """Return the call that makes a block's mixture of experts."""
    source.share("moe", "MoE")
    # `moe_args` is one for all layers: what differs is replaced where a block is made.
    changes = {name: value for name, value in _options(moe).items() if _differs_by_layer(value)}
    args = "args.moe_args"
    if changes:
        source.use("dataclasses", "replace")
        rows = [f"{name}={value_text(value)}" for name, value in changes.items()]
        args = f"replace({args}, {', '.join(rows)})"
    return f"MoE({args}, args.dim, {value_text(moe['hidden_dim'])})"


def moe_fields(design: Json) -> list[Json]:
    """Return the field ``moe_args`` of a model's arguments, if the model has experts."""
    if not design.get("moe"):
        return []
    fields = {str(field["name"]): field for field in cast("list[Json]", design["args"])}
    inner = set(fields) - {str(field["name"]) for field in outer_args(design)}
    read: list[str] = []
    default: list[str] = []
    options = _options(design["moe"])
    for name, value in options.items():
        if _differs_by_layer(value):
            continue
        stated = _count_of_shared(options) if name == "num_shared_experts" else value
        read.append(f"{name}={_from_config(stated, fields, inner)}")
        usual = _usual(value, fields)
        # What equals the default of MoEArgs is left to it.
        if usual != literal(defaults()[name]):
            default.append(f"{name}={usual}")
    return [
        {
            "name": "moe_args",
            "type": "MoEArgs",
            "default": {"expr": f"MoEArgs({', '.join(default)})"},
            "expr": f"MoEArgs({', '.join(read)})",
            "doc": "Experts, and how a token chooses among them.",
        }
    ]


def outer_args(design: Json) -> list[Json]:
    """Return the arguments that something other than the experts' options reads.

    The others are in ``moe_args`` only: one number has one place.
    """
    fields = cast("list[Json]", design["args"])
    if not design.get("moe"):
        return list(fields)
    moe = cast("Json", design["moe"])
    options = [v for v in _options(moe).values() if not _differs_by_layer(v)]
    inner = _names_in(options)
    rest = {key: part for key, part in design.items() if key not in ("args", "moe", "evidence")}
    by_layer = [v for v in _options(moe).values() if _differs_by_layer(v)]
    used = _names_in(rest) | _names_in(moe["hidden_dim"]) | _names_in(by_layer)
    kept = [field for field in fields if field["name"] not in inner - used]
    # What a kept argument is computed from is kept too, however many steps away.
    while True:
        texts = " ".join(str(field["expr"]) for field in kept)
        needed = set(re.findall(r"\{(\w+)\}", texts)) - {str(field["name"]) for field in kept}
        missing = [field for field in fields if field["name"] in needed]
        if not missing:
            return kept
        names = {str(field["name"]) for field in [*kept, *missing]}
        kept = [field for field in fields if field["name"] in names]


def _options(moe: Json) -> dict[str, Any]:
    """Return the options that say something, in the order of ``MoEArgs``."""
    given = cast("Mapping[str, Any]", moe["args"])
    options = {name: given[name] for name in defaults() if name in given}
    if options.get("shared_activation") == options.get("activation", defaults()["activation"]):
        # None there means that of the routed experts.
        options.pop("shared_activation", None)
    return {name: value for name, value in options.items() if value != defaults()[name]}


def _count_of_shared(options: Mapping[str, Any]) -> Any:
    """Return how many shared experts there are: none where a configuration gives them no width.

    ``MoEArgs`` takes a width of zero for one that is not stated.
    """
    width = options.get("shared_expert_intermediate_size")
    if not isinstance(width, Mapping) or _differs_by_layer(width):
        return options["num_shared_experts"]
    width = cast("Json", width)
    text = f"args.{width['arg']}" if "arg" in width else str(width["expr"])
    return {"expr": f"int(bool({text}))"}


def _differs_by_layer(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    value = cast("Json", value)
    return "layer_arg" in value or "layer_id" in str(value.get("expr", ""))


def _from_config(value: Any, fields: Mapping[str, Json], inner: set[str]) -> str:
    """Return a value as it is read from the config; braces name arguments of the model."""
    if not isinstance(value, Mapping):
        return literal(value)
    value = cast("Json", value)
    # An expression, in which each `args.NAME` is replaced.
    if "arg" not in value:
        return _ARGUMENT.sub(lambda found: _inlined(found[1], fields, inner), str(value["expr"]))
    return _inlined(str(value["arg"]), fields, inner, is_whole=True)


def _inlined(
    name: str, fields: Mapping[str, Json], inner: set[str], *, is_whole: bool = False
) -> str:
    if name not in inner:
        return f"{{{name}}}"
    text = spelled(str(fields[name]["expr"]))
    # An argument may be computed from others that are in `moe_args` alone.
    text = re.sub(r"\{(\w+)\}", lambda found: _inlined(found[1], fields, inner), text)
    return text if is_whole or re.fullmatch(r"[\w.]+", text) else f"({text})"


def _usual(value: Any, fields: Mapping[str, Json]) -> str:
    """Return a value as it is under the default config."""
    if not isinstance(value, Mapping):
        return literal(value)
    value = cast("Json", value)
    if "arg" in value:
        return default_text(fields[str(value["arg"])])
    return _ARGUMENT.sub(lambda found: default_text(fields[found[1]]), str(value["expr"]))


def _names_in(part: Any) -> set[str]:
    """Return the arguments that a part of a design refers to."""
    text = json.dumps(part)
    found = re.findall(r'"(?:arg|layer_arg)": "(\w+)"', text)
    return {*found, *_ARGUMENT.findall(text)}

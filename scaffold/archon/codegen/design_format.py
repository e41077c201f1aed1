"""What a design says, and the check that it can be written.

A design is JSON. A value in it is a literal, or one of ``{"arg": NAME}``, ``{"layer_arg": NAME}``
(a field with one entry for each layer) and ``{"expr": PYTHON}`` over ``args`` and ``layer_id``. A
part that a model has only under some configs has ``"when": VALUE``; what it never has is left out.

    model_type, class_prefix   what transformers calls the model; what the classes start with
    source                     versions and classes of what was measured
    args                       fields of the arguments: name, type, default, doc and expr, which is
                               Python over hf_config, n_layers and {fields} named in braces
    refusals                   conditions over hf_config that raise, each with its message
    ropes                      name of a field to expr, default, pairing, reverse and layer_type
    embedding                  multiplier, norm, token_types, positions, padding_idx, tokens_dim,
                               projection, order
    block                      modules (name, kind, norm, when) and variants, each a list of steps
    attention                  kind gqa: sizes, biases, clip_qkv, norms, rope, scale, softcap,
                               window, chunk, causal, sinks, alibi, gate, temperature, out_norm;
                               kind mla: ranks
    mixer                      class of transformers that mixes tokens where attention does not,
                               and whether it is built from the number of the layer
    mlp, moe                   the feed-forward; the experts and how tokens choose among them
    encoder                    true where a sequence gets a score; then tokens see later ones
    head                       norm, bias, multiplier or divisor, softcap, transform; pooling of
                               an encoder
    weights                    rules from names on the Hub to names of parameters
    unknown                    what could not be decided; it is named in the written files

A step is ``{"out", "call", "in"}`` (a module, or several that exclude each other), ``{"out",
"sum": [[name, weight], ...]}`` or ``{"out", "mul": [name, weight]}``; the first input is ``x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from scaffold.archon.codegen.values import Json
from scaffold.errors import TemplateError

REQUIRED = ("model_type", "class_prefix", "args", "block", "attention")
KINDS = ("norm", "attention", "mixer", "mlp", "moe")
_BUILT_IN = {"attn_type", "is_critic", "num_labels", "moe_args"}
"""Fields that all arguments have without the design naming them."""


def check_design(design: Json) -> None:
    """Check that a design refers only to what it holds.

    Raises:
        TemplateError: All that is wrong, by name.
    """
    problems = [f"no {key!r}" for key in REQUIRED if not design.get(key)]
    if not problems:
        problems = [*_unknown_fields(design), *_unknown_modules(design["block"], design)]
    if problems:
        raise TemplateError(
            f"the design of {design.get('model_type', '?')} cannot be written: "
            + "; ".join(problems),
            code="template_invalid",
        )


def _unknown_fields(design: Json) -> Iterator[str]:
    known = {str(field["name"]) for field in design["args"]} | set(design.get("ropes") or {})
    parts = {key: part for key, part in design.items() if key not in ("args", "evidence")}
    # In the text of the JSON a reference is found wherever it is nested.
    text = json.dumps(parts)
    named = re.findall(r'"(?:arg|layer_arg)": "(\w+)"', text)
    read = re.findall(r"\bargs\.(\w+)", " ".join(re.findall(r'"expr": "([^"]*)"', text)))
    missing = sorted({*named, *read} - known - _BUILT_IN)
    yield from (f"no field {name!r} in args" for name in missing)


def _unknown_modules(block: Json, design: Json) -> Iterator[str]:
    modules = {str(module["name"]): str(module["kind"]) for module in block["modules"]}
    for name, kind in modules.items():
        if kind not in KINDS:
            yield f"module {name!r} of kind {kind!r}; known: {', '.join(KINDS)}"
        elif kind in ("mixer", "mlp", "moe") and not design.get(kind):
            yield f"module {name!r} needs {kind!r}"
    for variant in block["variants"]:
        made = {"x"}
        for step in variant["steps"]:
            names, calls = _named(step)
            yield from (f"step uses {n!r}, which no step before makes" for n in names - made)
            yield from (f"step calls {c!r}, which is not a module" for c in calls - set(modules))
            made.add(str(step["out"]))


def _named(step: Json) -> tuple[set[str], set[str]]:
    """Return the names that a step reads, and the modules that it calls."""
    if "call" in step:
        targets: Any = step["call"]
        calls = {targets} if isinstance(targets, str) else set(cast("Sequence[str]", targets))
        return {str(step["in"])}, calls
    rows: Any = [step["mul"]] if "mul" in step else step["sum"]
    return {str(row[0]) for row in cast("Sequence[Sequence[Any]]", rows)}, set()

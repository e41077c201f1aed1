"""Derive from a configuration the design of its Archon model.

A tiny instance is measured, and one more for each variation of its configuration. An option that
never changes is a constant of the design; one that does becomes an argument with the simplest
expression over config fields that gives every measurement. A variation that cannot be measured, or
that no expression gives, is refused by the generated model.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import Case
from archon_probe.design.refusals import OF_ALL_MODELS, narrowed, refusal
from archon_probe.design.shaping import shape_design
from archon_probe.errors import ProbeError
from archon_probe.measure.mixer_reach import describe_mixers
from archon_probe.measure.model import observe
from archon_probe.measure.observation import Observation
from archon_probe.measure.random_weights import names_beside, random_model, save_and_load
from archon_probe.measure.roles import UnknownStructureError
from archon_probe.measure.rotation_dtype import rotation_in_fp32
from archon_probe.measure.size import check_size, differing
from archon_probe.measure.tasks import call, is_encoder
from archon_probe.measure.tiny import tiny_config
from archon_probe.measure.variations import error_text, variations
from archon_probe.stages import stage
from archon_probe.weight_rules.find import find_rules
from archon_probe.weight_rules.merge import merge_rules
from archon_probe.weight_rules.problems import in_layers

SCHEMA = 1
# What transformers appends to the family's name: `Qwen3ForCausalLM`, `GPT2LMHeadModel`.
PREFIX_ENDS = r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSequenceClassification)$"

Measured = list[tuple[Case, Observation]]


def derive(real: Any) -> dict[str, Any]:
    """Return the design of a model of a configuration, whose values become the defaults.

    Raises:
        ProbeError: The tiny default cannot be measured: nothing can be written then.
    """
    stage("measuring the tiny default")
    small, model = tiny_model(real)
    base = _text(small)
    try:
        first = observe(model)
    except UnknownStructureError as error:
        # Of what is unknown, a state or a convolution is told by what it does.
        mixers = describe_mixers(model, base.vocab_size)
        beside = f"; tokens are mixed without attention by {mixers}" if mixers else ""
        hint = "train it with the backend fsdp, which runs transformers' own model"
        if is_encoder(base):  # no other backend has attention to later tokens
            hint = "train another encoder, or a decoder as a reward model"
        raise ProbeError(
            f"{type(model).__name__} has a part that no probe recognises: {error}{beside}",
            code="model_unsuited",
            hint=hint,
        ) from error
    measured: Measured = [(Case("default", base, len(first.layers)), first)]
    unknown: list[dict[str, Any]] = []
    found_rules = [(measured[0][0], *hub_rules(model, first))]
    _check_reached(model, found_rules[0][2])
    every = variations(small)
    for number, variation in enumerate(every, 1):
        if set(variation.field.split(" + ")) & set(OF_ALL_MODELS):
            continue
        stage(f"measuring {variation.name} ({number} of {len(every)})")
        config = _text(variation.config)
        varied = random_model(variation.config, 0)
        try:
            found = observe(varied)
        except UnknownStructureError as error:
            unknown.append(_unknown(variation, error.module, error.what))
            continue
        case = Case(variation.name, config, len(found.layers))
        # Only a switch or a count changes the layout of a checkpoint, and a rotation never does.
        is_shape = isinstance(variation.value, (bool, int)) or variation.value is None
        # New tensors, or a tie that is new, also need rules for their weights.
        known = {name for _, other in measured for name in other.tensors}
        ties = {other.head["tied"] for _, other in measured}
        has_new = not set(found.tensors) <= known or found.head["tied"] not in ties
        if has_new or (is_shape and not variation.field.startswith("rope")):
            rules, left_over = hub_rules(varied, found)
            if left_over and not found_rules[0][2]:
                # A checkpoint with tensors that no parameter has is another model.
                names = ", ".join(sorted({problem["name"] for problem in left_over}))
                unknown.append(_unknown(variation, "weights", f"no rule for {names}"))
                continue
            found_rules.append((case, rules, left_over))
        measured.append((case, found))
    stage("fitting expressions")
    text = _text(real)
    arguments = Arguments(Case("asked for", text, text.num_hidden_layers), measured)
    design = {
        "schema": SCHEMA,
        "model_type": text.model_type,
        "class_prefix": re.sub(PREFIX_ENDS, "", type(model).__name__),
        "source": source_of(model),
    }
    design |= shape_design(arguments)
    if ropes := design.get("ropes"):
        stage("measuring rotations below fp32")
        kept = rotation_in_fp32(small)
        design["ropes"] = {name: {**rope, "in_fp32": kept} for name, rope in ropes.items()}
    by_name = {v.name: v for v in every}
    for name, paths in arguments.missed.items():
        if name in by_name:
            unknown.append(_unknown(by_name[name], ", ".join(sorted(paths)), "not explained"))
    design["args"] = arguments.as_json()
    # What the model reproduces must not be refused along with what it does not.
    right = [case.config for case in arguments.cases if case.name not in arguments.missed]
    refusals = [
        narrowed(made, by_name[u["variation"]].config, right)
        for u in unknown
        if (made := refusal(u, base, text)) is not None
    ]
    # Of several refusals under one condition the first stays, in its place.
    design["refusals"] = list({r["condition"]: r for r in reversed(refusals)}.values())[::-1]
    rules, conflicts = merge_rules([(r, arguments.at(case)) for case, r, _ in found_rules])
    if is_encoder(text):
        rules += [{"rule": "Ignored", "hub": name} for name in sorted(names_beside(model))]
    problems = [p for _, _, found in found_rules for p in found] + list(conflicts)
    design["weights"] = rules
    design["unknown"] = [{k: v for k, v in u.items() if k != "values"} for u in unknown]
    design["unknown"] += [{"module": "weights", "what": str(p), "lines": ""} for p in problems]
    design["evidence"] = arguments.evidence
    return design


def tiny_model(real: Any) -> tuple[Any, Any]:
    """Return a tiny configuration of a model, and a random instance of it.

    Raises:
        ProbeError: transformers refuses all small sizes that were tried, or does not run with them,
            or some size stays too large.
    """
    try:
        small = tiny_config(real)
        check_size(small, real.get_text_config(decoder=True))
        return small, random_model(small, 0)
    except ProbeError:
        raise
    # Whatever the code of a model raises where sizes do not fit together.
    except Exception as error:
        raise ProbeError(
            f"no small {real.model_type} can be measured: {differing(real) or error_text(error)}",
            code="model_unsuited",
            hint="give a config.json of it, if this is for want of a field",
        ) from error


def _check_reached(model: Any, left_over: list[Any]) -> None:
    """Refuse a model whose checkpoints have tensors for another input than text.

    Raises:
        ProbeError: All tensors that no rule explains are parameters that a text does not reach.
    """
    names = [problem["name"] for problem in left_over]
    if not names:
        return
    tokens = torch.arange(6)[None] % _text(model.config).vocab_size
    call(model, tokens).logits.sum().backward()
    idle = {n for n, p in model.named_parameters() if p.grad is None}
    model.zero_grad(set_to_none=True)
    if not {*names} <= {*idle, *map(in_layers, idle)}:
        return
    parts = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in names[:4]))
    raise ProbeError(
        f"{type(model).__name__} has parts for another input than text, which its checkpoints "
        f"hold and a text does not reach: {parts}",
        code="model_unsuited",
        hint="name a model that reads text alone",
    )


def _text(config: Any) -> Any:
    return config.get_text_config()


def source_of(model: Any) -> dict[str, str]:
    """Return the place of the reference."""
    file = Path(inspect.getfile(type(model)))
    return {
        "transformers": transformers.__version__,
        "file": "/".join(file.parts[-3:]),
        "config_class": type(model.config).__name__,
        "model_class": type(model).__name__,
    }


def hub_rules(model: Any, found: Observation) -> tuple[list[Any], list[Any]]:
    """Return how the names on the Hub map to the Archon model's, and what is left over."""
    with tempfile.TemporaryDirectory() as folder:
        hub = save_and_load(model, Path(folder))
    archon = {n: t.detach().contiguous() for n, t in found.tensors.items()}
    # transformers lists every tie that a class may have; whether this one ties was measured.
    tied = getattr(model, "all_tied_weights_keys", {}) if found.head.get("tied") else {}
    parameters = {n for n, _ in model.named_parameters()}
    buffers = {n for n, _ in model.named_buffers()} - parameters
    # Some buffers of a checkpoint are tensors of the Archon model; the others are ignored.
    unused = [
        n
        for n, t in hub.items()
        if n in buffers
        and not any(t.shape == a.shape and bool((t == a).all()) for a in archon.values())
    ]
    rules, problems = find_rules(archon, hub, _sizes(found), tied=tied, ignorable=unused)
    return rules, problems


def _sizes(found: Observation) -> dict[str, int]:
    sizes = {k: v for k, v in found.embedding.items() if isinstance(v, int)}
    for layer in found.layers:
        for module in layer["modules"].values():
            for name, value in module.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    sizes.setdefault(name, value)
    return sizes


def _unknown(variation: Any, module: str, what: str) -> dict[str, Any]:
    return {
        "module": module,
        "what": what,
        "lines": "",
        "variation": variation.name,
        "values": (variation.field, variation.value),
    }

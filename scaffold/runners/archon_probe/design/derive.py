"""From a configuration to a design: what an Archon model of it has to be.

A tiny instance is measured, and one more for each variation of its configuration. An option that
never changes is a constant of the design; one that does becomes an argument with the simplest
expression over config fields that gives every measurement. A variation that cannot be measured, or
that no expression gives, is refused by the generated model.
"""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import Case
from archon_probe.design.shaping import shape_design
from archon_probe.errors import ProbeError
from archon_probe.measure.model import Observation, observe
from archon_probe.measure.random_weights import random_model
from archon_probe.measure.roles import UnknownStructureError
from archon_probe.measure.tiny import tiny_config
from archon_probe.measure.variations import variations
from archon_probe.stages import stage
from archon_probe.weight_rules.merge import merge_rules

SCHEMA = 1

Measured = list[tuple[Case, Observation]]

NEUTRAL = {"partial_rotary_factor": 1.0}
"""What keys of rotary parameters are where they are left out, if that is not None."""


def derive(request: dict[str, Any]) -> dict[str, Any]:
    """Returns the design of a model.

    Args:
        request: ``config`` (parsed config.json) or ``model_type``.

    Raises:
        ProbeError: The tiny default cannot be measured: nothing can be written then.
    """
    from archon_probe.measure.model_source import resolve

    return derive_config(resolve(request))


def derive_config(real: Any) -> dict[str, Any]:
    """Returns the design of a model of a configuration, whose values become the defaults."""
    stage("measuring the tiny default")
    small = tiny_config(real)
    base = _text(small)
    model = random_model(small, 0)
    try:
        first = observe(model)
    except UnknownStructureError as error:
        raise ProbeError(
            f"{type(model).__name__} has a part that no probe knows: {error}",
            code="model_unsuited",
            hint="write this model by hand, or teach scaffold/runners/archon_probe the part",
        ) from error
    measured: Measured = [(Case("default", base, len(first.layers)), first)]
    unknown: list[dict[str, Any]] = []
    found_rules = [(measured[0][0], *hub_rules(model, first))]
    every = variations(small)
    for variation in every:
        stage(f"measuring {variation.name}")
        config = _text(variation.config)
        varied = random_model(variation.config, 0)
        try:
            found = observe(varied)
        except UnknownStructureError as error:
            unknown.append(_unknown(variation, error.module, error.what))
            continue
        measured.append((Case(variation.name, config, len(found.layers)), found))
        if _may_be_kept_otherwise(variation) or _new_names(found, measured[:-1]):
            rules, left_over = hub_rules(varied, found)
            if left_over and not found_rules[0][2]:
                # A checkpoint with tensors that no parameter has is another model.
                names = ", ".join(sorted({problem["name"] for problem in left_over}))
                unknown.append(_unknown(variation, "weights", f"no rule for {names}"))
                measured.pop()
                continue
            found_rules.append((measured[-1][0], rules, left_over))
    stage("fitting expressions")
    arguments = Arguments(real_case(real), measured)
    design = {
        "schema": SCHEMA,
        "model_type": _text(real).model_type,
        "class_prefix": _prefix(model),
        "source": source_of(model),
    }
    design |= shape_design(arguments, measured)
    by_name = {v.name: v for v in every}
    for name, paths in arguments.missed.items():
        if name in by_name:
            unknown.append(_unknown(by_name[name], ", ".join(sorted(paths)), "not explained"))
    design["args"] = arguments.as_json()
    right = [case.config for case in arguments.cases if case.name not in arguments.missed]
    refusals = [
        narrowed(made, by_name[u["variation"]].config, right)
        for u in unknown
        if (made := refusal(u, base, _text(real))) is not None
    ]
    design["refusals"] = list({r["condition"]: r for r in reversed(refusals)}.values())[::-1]
    rules, conflicts = merge_rules([(r, arguments.at(case)) for case, r, _ in found_rules])
    problems = [p for _, _, found in found_rules for p in found] + list(conflicts)
    design["weights"] = rules
    design["unknown"] = [{k: v for k, v in u.items() if k != "values"} for u in unknown]
    design["unknown"] += [{"module": "weights", "what": str(p), "lines": ""} for p in problems]
    design["evidence"] = arguments.evidence
    return design


def real_case(real: Any) -> Case:
    """Returns the configuration that defaults are taken from."""
    config = _text(real)
    return Case("asked for", config, config.num_hidden_layers)


def _text(config: Any) -> Any:
    return config.get_text_config()


def _prefix(model: Any) -> str:
    name = type(model).__name__
    for ending in ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"):
        name = name.removesuffix(ending)
    return name


def source_of(model: Any) -> dict[str, str]:
    """Returns where the reference stands."""
    import transformers

    file = Path(inspect.getfile(type(model)))
    return {
        "transformers": transformers.__version__,
        "file": "/".join(file.parts[-3:]),
        "config_class": type(model.config).__name__,
        "model_class": type(model).__name__,
    }


def _may_be_kept_otherwise(variation: Any) -> bool:
    """Says whether a checkpoint may hold the same parameters in another layout."""
    is_shape = isinstance(variation.value, (bool, int)) or variation.value is None
    return is_shape and not variation.field.startswith("rope")


def _new_names(found: Observation, before: Measured) -> bool:
    """Says whether an observation has parameters that none before had, or shares others."""
    known = {n for _, o in before for n in o.tensors}
    ties = {o.head["tied"] for _, o in before}
    return not set(found.tensors) <= known or found.head["tied"] not in ties


def hub_rules(model: Any, found: Observation) -> tuple[list[Any], list[Any]]:
    """Returns how the names on the Hub map to the Archon model's, and what is left over."""
    from safetensors.torch import load_file

    from archon_probe.weight_rules.find import find_rules

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        hub: dict[str, Tensor] = {}
        for file in sorted(Path(folder).glob("*.safetensors")):
            hub |= load_file(file)
    archon = {n: t.detach().contiguous() for n, t in found.tensors.items()}
    tied = getattr(model, "all_tied_weights_keys", {}) if found.head.get("tied") else {}
    parameters = {n for n, _ in model.named_parameters()}
    buffers = {n for n, _ in model.named_buffers()} - parameters
    unused = [n for n in hub if n in buffers and not _is_used(hub[n], archon)]
    rules, problems = find_rules(archon, hub, _sizes(found), tied=tied, ignorable=unused)
    return rules, problems


def _is_used(tensor: Tensor, archon: dict[str, Tensor]) -> bool:
    """Says whether a buffer of a checkpoint is a tensor of the Archon model."""
    return any(t.shape == tensor.shape and bool((t == tensor).all()) for t in archon.values())


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


def refusal(unknown: dict[str, Any], base: Any, real: Any) -> dict[str, str] | None:
    """Returns the condition under which a generated model refuses a configuration.

    Args:
        unknown: A variation that is not reproduced.
        base: The tiny configuration that was varied, and is reproduced.
        real: The configuration that was asked for.
    """
    name, value = unknown["values"]
    if not isinstance(name, str):
        return None
    names = name.split(" + ")
    values = value if len(names) > 1 else [value]
    conditions = [_held(n, v, base, real) for n, v in zip(names, values, strict=True)]
    if None in conditions:
        return None
    told = ", ".join(f"{n}={{hf_config.{n}!r}}" for n in names)
    # The message becomes an f-string, whose braces are those of `told` only.
    why = f"{unknown['module']}: {unknown['what']}"[:120].replace("{", "{{").replace("}", "}}")
    return {
        "condition": " and ".join(filter(None, conditions)),
        "message": f"{told} is not reproduced ({why})",
    }


def narrowed(made: dict[str, str], refused: Any, right: list[Any]) -> dict[str, str]:
    """Returns a refusal that spares reproduced configurations, if a switch tells them.

    Args:
        made: The refusal.
        refused: The configuration that it is for.
        right: All that are reproduced.
    """
    condition = made["condition"]
    spared = [c for c in map(_text, right) if eval(condition, {"hf_config": c})]
    switches = {k: v for k, v in _text(refused).to_dict().items() if isinstance(v, bool)}
    for name, value in switches.items() if spared else ():
        if all(getattr(c, name, value) is not value for c in spared):
            return {**made, "condition": f"{condition} and hf_config.{name} is {value}"}
    return made


def _held(name: str, value: Any, base: Any, real: Any) -> str | None:
    """Returns when a field is flipped as it was, or None where that cannot be told."""
    if name in ("rope_parameters", "rope_scaling"):
        return _held_inside(name, value, base, real)
    field = f"hf_config.{name}"
    held = _read(base, name)
    if value is None and None not in (held, _read(real, name)):
        return f"{field} is None"  # whatever its size
    if isinstance(held, (int, float)) and held != _read(real, name):
        # A size that was shrunk: only that it is the same as the width says something of real ones.
        width = base.attribute_map.get("hidden_size", "hidden_size")
        is_width = held == base.hidden_size and _read(real, name) == real.hidden_size
        return f"{field} != hf_config.hidden_size" if is_width and name != width else None
    if isinstance(value, bool) or value is None:
        return f"{field} is {value}"
    if isinstance(held, (int, float)) and not isinstance(held, bool):
        return f"{field} != {held!r}"
    if isinstance(held, list) and isinstance(value, list):
        return _held_list(field, value, held, _read(real, name) or [])
    if held is None and not isinstance(value, str):
        return f"{field} is not None"
    return f"{field} == {value!r}"


def _held_list(field: str, value: list[Any], held: list[Any], real: list[Any]) -> str | None:
    """Returns when a list is as the flipped one is: empty or not, of one kind or of several.

    Its very items say nothing of a model with other layers.
    """
    kinds, before, asked = ({str(v) for v in row} for row in (value, held, real))
    if bool(value) != bool(held):
        found, is_asked = (f"bool({field})" if value else f"not {field}"), bool(real) == bool(value)
    elif len(value) != len(held) or kinds == before:
        return None
    elif len(before) == 1 < len(kinds):
        found, is_asked = f"len(set(map(str, {field} or []))) > 1", len(asked) > 1
    elif len(kinds) == 1:
        found, is_asked = f"set(map(str, {field} or [])) == {kinds!r}", asked == kinds
    else:
        return None
    return None if is_asked else found


def _held_inside(name: str, value: Any, base: Any, real: Any) -> str | None:
    """Returns when the one key of a dict is flipped that was, None where there were several."""
    before, asked = ({**NEUTRAL, **(_read(c, name) or {})} for c in (base, real))
    after = {**NEUTRAL, **(value or {})}
    flipped = [k for k in {**before, **after} if before.get(k) != after.get(k)]
    if len(flipped) != 1 or isinstance(after.get(flipped[0]), dict):
        return None
    key = flipped[0]
    held = before.get(key)
    if asked.get(key) != held:
        return None
    found = f"(getattr(hf_config, {name!r}, None) or {{}}).get({key!r})"
    if held is None:
        return f"{found} is not None"
    return f"{found} not in (None, {held!r})" if key in NEUTRAL else f"{found} != {held!r}"


def _read(config: Any, name: str) -> Any:
    """Returns a field of a configuration, or of one inside it."""
    for part in name.split("."):
        config = getattr(config, part, None)
    return config

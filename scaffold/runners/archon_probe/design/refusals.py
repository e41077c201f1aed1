"""Write the conditions under which a generated model refuses what it does not reproduce."""

from __future__ import annotations

from typing import Any

from archon_probe.measure.tiny import read_field

OF_ALL_MODELS = ("is_causal", "per_layer_config")
"""Fields that the shared base of all models refuses, so that no model repeats it."""

NEUTRAL = {"partial_rotary_factor": 1.0}
"""What keys of rotary parameters are where they are left out, if that is not None."""


def refusal(unknown: dict[str, Any], base: Any, real: Any) -> dict[str, str] | None:
    """Return the condition under which a generated model refuses a configuration.

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
    if "rope_parameters." in name:  # a key of rotations, asked for beside a kind that is right
        names, values = names[-1:], values[-1:]
    conditions = [_held(n, v, base, real) for n, v in zip(names, values, strict=True)]
    # A flip of several fields is refused as a whole, or it cannot be refused.
    if None in conditions:
        return None
    shown = ", ".join(f"{n}={{hf_config.{n.partition('.')[0]}!r}}" for n in names)
    # The message becomes an f-string, whose braces are those of `shown` only.
    why = f"{unknown['module']}: {unknown['what']}"[:120].replace("{", "{{").replace("}", "}}")
    return {
        "condition": " and ".join(filter(None, conditions)),
        "message": f"{shown} is not reproduced ({why})",
    }


def narrowed(made: dict[str, str], refused: Any, right: list[Any]) -> dict[str, str]:
    """Return a refusal that spares reproduced configurations, if a switch separates them.

    Args:
        made: The refusal.
        refused: The configuration that it is for.
        right: All that are reproduced.
    """
    condition = made["condition"]
    # Configurations that the model reproduces and that this condition would refuse all the same.
    spared = [c for c in right if eval(condition, {"hf_config": c})]
    switches = {k: v for k, v in refused.get_text_config().to_dict().items() if isinstance(v, bool)}
    for name, value in switches.items() if spared else ():
        if all(getattr(c, name, value) is not value for c in spared):
            return {**made, "condition": f"{condition} and hf_config.{name} is {value}"}
    return made


def field_text(name: str, base: Any) -> str:
    """Return the expression that reads a field, which a configuration may lack as the base does."""
    is_there = hasattr(base, name.partition(".")[0])
    return f"hf_config.{name}" if is_there else f"getattr(hf_config, {name!r}, None)"


def _held(name: str, value: Any, base: Any, real: Any) -> str | None:
    """Return when a field is flipped as it was, or None where no condition can be written."""
    if name in ("rope_parameters", "rope_scaling"):
        return _held_inside(name, value, base, real)
    if name.startswith("rope_parameters."):
        rope = read_field(base, "rope_parameters") or {}
        name, key = name.split(".")
        return _held_inside(name, {**rope, key: value}, base, real)
    field = field_text(name, base)
    held = read_field(base, name)
    if value is None and None not in (held, read_field(real, name)):
        return f"{field} is None"  # whatever its size
    if isinstance(held, (int, float)) and held != read_field(real, name):
        # A size that was shrunk: of real ones it shows only whether they equal the width.
        width = base.attribute_map.get("hidden_size", "hidden_size")
        is_width = held == base.hidden_size and read_field(real, name) == real.hidden_size
        return f"{field} != hf_config.hidden_size" if is_width and name != width else None
    if isinstance(value, bool) or value is None:
        return f"{field} is {value}"
    if isinstance(held, (int, float)) and not isinstance(held, bool):
        return f"{field} != {held!r}"
    if isinstance(held, list) and isinstance(value, list):
        return _held_list(field, value, held, read_field(real, name) or [])
    if held is None and not isinstance(value, str):
        return f"{field} is not None"
    return f"{field} == {value!r}"


def _held_list(field: str, value: list[Any], held: list[Any], real: list[Any]) -> str | None:
    """Return when a list is as the flipped one is: empty or not, of one kind or of several.

    Its very items mean nothing for a model with other layers.
    """
    kinds, before, wanted = ({str(v) for v in row} for row in (value, held, real))
    if bool(value) != bool(held):
        found, is_asked = (f"bool({field})" if value else f"not {field}"), bool(real) == bool(value)
    elif len(value) != len(held) or kinds == before:
        return None
    elif len(before) == 1 < len(kinds):
        found, is_asked = f"len(set(map(str, {field} or []))) > 1", len(wanted) > 1
    elif len(kinds) == 1:
        found, is_asked = f"set(map(str, {field} or [])) == {kinds!r}", wanted == kinds
    else:
        return None
    return None if is_asked else found


def _held_inside(name: str, value: Any, base: Any, real: Any) -> str | None:
    """Return when the one key of a dict is flipped that was, None where there were several."""
    before, wanted = ({**NEUTRAL, **(read_field(c, name) or {})} for c in (base, real))
    after = {**NEUTRAL, **(value or {})}
    flipped = [k for k in {**before, **after} if before.get(k) != after.get(k)]
    if len(flipped) != 1 or isinstance(after.get(flipped[0]), dict):
        return None
    key = flipped[0]
    held = before.get(key)
    # The tiny configuration had to change this key, so the flip is none of the real one.
    if wanted.get(key) != held:
        return None
    found = f"(getattr(hf_config, {name!r}, None) or {{}}).get({key!r})"
    if held is None:
        return f"{found} is not None"
    return f"{found} not in (None, {held!r})" if key in NEUTRAL else f"{found} != {held!r}"

"""Find which rules map a checkpoint on the Hub to Archon parameters, by the values themselves.

Where every value occurs once, the values show where each element went. What is left is to write it
as a rule: as it is, transposed, an entry of a stack, rows of several parameters in some order.
The rules that are found here are plain dicts; their names and fields are those of the classes in
``archon/state_dict``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from archon_probe.weight_rules.arrangements import Match, explain
from archon_probe.weight_rules.merge import Rule, narrow, rule_key, without_repetition
from archon_probe.weight_rules.problems import (
    Problem,
    grouped,
    named,
    repeated_values,
    unexplained,
    unknown_tensor,
)
from archon_probe.weight_rules.values import ValueIndex

# Placeholders in the names of rules: for the layer's number, and for that of an expert.
LAYER, EXPERT = "{}", "{e}"


def find_rules(
    archon: Mapping[str, Tensor],
    hub: Mapping[str, Tensor],
    sizes: Mapping[str, Any],
    *,
    tied: Mapping[str, str] | None = None,
    ignorable: Collection[str] = (),
) -> tuple[list[Rule], list[Problem]]:
    """Find the rules that explain a checkpoint.

    Args:
        archon: Parameters of the Archon model; values that occur once show where they went.
        hub: The same model as ``save_pretrained`` wrote it.
        sizes: Numbers among the model's arguments, lists for those that differ by layer.
        tied: Tensors that the checkpoint leaves out, to those that replace them.
        ignorable: Tensors of the checkpoint that are no parameters, such as buffers.

    Returns:
        The rules, and what they do not explain: empty if they map every tensor and parameter.
    """
    index = ValueIndex(archon)
    found: dict[str, Match] = {}
    problems: list[Problem] = repeated_values(archon, index)
    for name, tensor in hub.items():
        # First every tensor whose values occur once; these need no names.
        match = None if name in ignorable else explain(tensor, index, sizes, layer_of(name))
        if match is not None:
            found[name] = match
    wanted = {n: t for n, t in hub.items() if n not in found and n not in ignorable}
    # Values that repeat explain nothing by themselves, so these come after the others.
    found |= _equals_in_layer(wanted, {n: archon[n] for n in _uncovered(found, index, archon)})
    unused = _unused_experts(wanted, found, archon)
    wanted = {n: t for n, t in wanted.items() if n not in unused}
    left = _uncovered(found, index, archon)
    problems = [p for p in problems if p["name"] in left]
    problems += [unknown_tensor(n, t, index) for n, t in wanted.items() if n not in found]
    problems += [unexplained("archon", name, archon[name], hub) for name in left]
    places = {name: place for place, name in enumerate(archon)}
    # In the order of the model's parameters, in which rules are written.
    in_order = sorted(found, key=lambda name: places[found[name].parts[0]])
    ordered = {name: found[name] for name in in_order}
    rules = _generalised({n: m for n, m in ordered.items() if m.rows is None}, problems)
    rules += _split({n: m for n, m in ordered.items() if m.rows is not None}, archon, problems)
    rules += unused.values()
    rules += [{"rule": "Ignored", "hub": _pattern(n)} for n in hub if n in ignorable]
    rules += _tied_rules(index.twins, found, tied or {}, problems)
    return without_repetition(rules), grouped(problems)


def _equals_in_layer(hub: Mapping[str, Tensor], archon: Mapping[str, Tensor]) -> dict[str, Match]:
    """Return pairs that only each other equal in their layer, as constants of an activation do."""
    pairs = [
        (name, part)
        for name, tensor in hub.items()
        for part, values in archon.items()
        if layer_of(name) == layer_of(part) and torch.equal(tensor, values)
    ]
    hubs, parts = Counter(name for name, _ in pairs), Counter(part for _, part in pairs)
    return {n: Match("Rename", [p]) for n, p in pairs if hubs[n] == parts[p] == 1}


def _unused_experts(
    hub: Mapping[str, Tensor], found: Mapping[str, Match], archon: Mapping[str, Tensor]
) -> dict[str, Rule]:
    """Return rules, by tensor, of those numbered after the last expert that a parameter has.

    There must be a parameter in the layer that counts them with the others: the router's.
    """
    stacked = {
        (_pattern(name, match.entry), layer_of(name)): match.parts[0]
        for name, match in found.items()
        if match.rule == "Rename" and match.entry is not None
    }
    numbers: dict[tuple[str, int | None], dict[int, str]] = {}
    for name in hub:
        entry = int(next((p for p in reversed(name.split(".")) if p.isdigit()), -1))
        numbers.setdefault((_pattern(name, entry), layer_of(name)), {})[entry] = name
    rules: dict[str, Rule] = {}
    for key, names in numbers.items():
        part = stacked.get(key)
        # Their numbers have to go on where those of the experts in the parameter end.
        if part is None or sorted(names) != list(range(archon[part].shape[0], max(names) + 1)):
            continue
        beside = {n: t for n, t in archon.items() if layer_of(n) == key[1] and t.dim()}
        counter = next((n for n, t in beside.items() if len(t) == max(names) + 1), None)
        if counter is not None:
            parts = [_pattern(part), _pattern(counter)]
            rule = {"rule": "Unused", "hub": key[0], "archon": parts}
            rules |= dict.fromkeys(names.values(), rule)
    return rules


def _uncovered(
    found: Mapping[str, Match], index: ValueIndex, archon: Mapping[str, Tensor]
) -> list[str]:
    """Return parameters that no tensor gives, or gives only in part."""
    given: dict[str, int] = {}
    for match in found.values():
        if match.rows is not None:
            part, (first, last) = match.parts[0], match.rows
            given[part] = given.get(part, 0) + last - first
            continue
        for part in match.parts:
            entries = archon[part].shape[0] if match.entry is None and archon[part].dim() else 1
            given[part] = given.get(part, 0) + entries
    return [
        n for n in index.names if given.get(n, 0) < (archon[n].shape[0] if archon[n].dim() else 1)
    ]


def layer_of(name: str) -> int | None:
    return next((int(part) for part in name.split(".") if part.isdigit()), None)


def _pattern(name: str, entry: int | None = None) -> str:
    """Return a name with placeholders for its layer number and the number of an entry."""
    parts = name.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    if entry is not None:
        # The first number of a name is the layer's, so that of an expert comes behind it.
        where = [i for i in numbers[1:] or numbers if int(parts[i]) == entry]
        if where:
            parts[where[-1]] = EXPERT
            numbers.remove(where[-1])
    if numbers:
        parts[numbers[0]] = LAYER
    return ".".join(parts)


def _generalised(found: Mapping[str, Match], problems: list[Problem]) -> list[Rule]:
    """Return one rule for all tensors that differ in the numbers of layer and expert only."""
    rules: dict[str, Rule] = {}
    for name, match in found.items():
        layers = {layer_of(part) for part in match.parts}
        hub_layer = layer_of(name)
        # Of a stacked tensor entry n has to be that of expert n.
        if match.entry is not None and EXPERT not in _pattern(name, match.entry):
            problems.append(
                named(name, f"holds entry {match.entry} of {match.parts}, not its number")
            )
            continue
        if layers != {hub_layer} and layers != {None}:
            problems.append(named(name, f"holds {match.parts}, of another layer"))
            continue
        archon = [_pattern(part) for part in match.parts]
        rule: Rule = {
            "rule": "Stacked" if match.rule == "Rename" and match.entry is not None else match.rule,
            "hub": _pattern(name, match.entry) if layers != {None} else name,
            "archon": archon[0] if len(archon) == 1 else archon,
            **match.options,
        }
        known = rules.setdefault(rule_key(rule), rule)
        if match.candidates:
            narrow(known, match.candidates, problems)
    return list(rules.values())


def _split(
    found: Mapping[str, Match], archon: Mapping[str, Tensor], problems: list[Problem]
) -> list[Rule]:
    """Return one rule for all tensors that have the rows of one parameter of their layer."""
    tensors: dict[str, list[str]] = {}
    for name, match in sorted(found.items(), key=lambda item: item[1].rows or ()):
        tensors.setdefault(match.parts[0], []).append(name)
    rules: dict[str, Rule] = {}
    for part, names in tensors.items():
        rows = [found[name].rows for name in names]
        share = -(-len(archon[part]) // len(names))
        even = [(n * share, min((n + 1) * share, len(archon[part]))) for n in range(len(names))]
        hub = [_pattern(name) for name in names]
        if {layer_of(name) for name in names} != {layer_of(part)}:
            problems.append(named(str(hub), f"hold rows of {part}, of another layer"))
        elif rows != even:
            problems.append(named(str(hub), f"hold {part} in shares that are not even: {rows}"))
        else:
            rule: Rule = {"rule": "Split", "hub": hub, "archon": _pattern(part)}
            rules.setdefault(rule_key(rule), rule)
    return list(rules.values())


def _tied_rules(
    twins: Mapping[str, str],
    found: Mapping[str, Match],
    tied: Mapping[str, str],
    problems: list[Problem],
) -> list[Rule]:
    """Return the rules of parameters that a checkpoint lacks because others have their values."""
    holder = {match.parts[0]: name for name, match in found.items() if match.rule == "Rename"}
    rules: list[Rule] = []
    for twin, source in twins.items():
        # transformers lists the names that are tied, each with the one that a checkpoint has.
        names = [name for name, other in tied.items() if other == holder.get(source)]
        if not names:
            problems.append(
                {"side": "archon", "name": twin, "nearest": source, "why": "has the same values"}
            )
            continue
        # No checkpoint has shown this name; one of an untied model may show another.
        assumed = {"assumed": True}
        rules.append({"rule": "Rename", "hub": names[0], "archon": _pattern(twin)} | assumed)
        rules.append({"rule": "Tied", "hub": names[0], "source": holder[source]})
    return rules

"""Experts as transformers holds them in memory: packed, where the Hub has a matrix for each."""

from __future__ import annotations

from collections.abc import Sequence

from areal.experimental.models.archon.state_dict.rules import (
    EXPERT,
    AnyRule,
    Fused,
    Rename,
    Rule,
    Stacked,
    Unused,
)

# Gate, up and down projection; what transformers calls the packed ones.
# Source: transformers' `conversion_mapping`, which stacks experts and joins gate and up.
_PARTS = ("w1", "w3", "w2")
_GATE_UP, _DOWN = "gate_up_proj", "down_proj"


def with_packed_experts(rules: Sequence[AnyRule]) -> tuple[AnyRule, ...] | None:
    """Return rules for checkpoints whose experts are packed.

    Returns:
        None where the rules have no gated experts of single matrices.
    """
    stacks: dict[str, dict[str, str]] = {}
    for rule in rules:
        if isinstance(rule, Stacked):
            owner, _, part = rule.parts[0].rpartition(".")
            stacks.setdefault(owner, {})[part] = rule.hubs[0].partition(f".{EXPERT}.")[0]
    packed: list[Rule] = []
    for owner, prefixes in stacks.items():
        if set(prefixes) == set(_PARTS) and len(set(prefixes.values())) == 1:
            gate, up, down = (f"{owner}.{part}" for part in _PARTS)
            packed.append(Fused(f"{prefixes['w1']}.{_GATE_UP}", (gate, up), axis=1))
            packed.append(Rename(f"{prefixes['w1']}.{_DOWN}", down))
    replaced = {part for rule in packed for part in rule.parts}
    kept = [rule for rule in rules if not _is_for(rule, replaced)]
    return (*kept, *packed) if packed else None


def _is_for(rule: AnyRule, parameters: set[str]) -> bool:
    return isinstance(rule, Stacked | Unused) and rule.parts[0] in parameters

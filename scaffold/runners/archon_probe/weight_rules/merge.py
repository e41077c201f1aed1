"""Merge rules that were found on single configs into rules for all configs of a model."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from archon_probe.weight_rules.problems import Problem, named

Rule = dict[str, Any]
# As a number of groups: as many as a part has rows, so that rows of the parts alternate.
EVERY_ROW = "rows"
# Fields for how sure a rule is, or that another config may change.
_SECONDARY = ("assumed", "candidates", "groups", "when")


def merge_rules(
    findings: Sequence[tuple[Sequence[Rule], Mapping[str, Any]]],
) -> tuple[list[Rule], list[Problem]]:
    """Merge what was found on several configs of one model into rules for all of them.

    Args:
        findings: Rules, and the model's arguments that they were found with.

    Returns:
        The rules, with a condition where two give the same parameter and an argument decides;
        and the problems: numbers of groups that no name fits everywhere, conflicts without a
        reason.
    """
    merged: dict[str, Rule] = {}
    seen: dict[str, list[int]] = {}
    order: list[str] = []
    problems: list[Problem] = []
    for number, (rules, args) in enumerate(findings):
        # A rule that is new goes behind the one that it follows in its own config.
        previous = -1
        for rule in rules:
            key = rule_key(rule) if not rule.get("assumed") else f"assumed {rule_key(rule)}"
            if key not in merged:
                merged[key] = dict(rule)
                order.insert(previous + 1, key)
            previous = order.index(key)
            seen.setdefault(key, []).append(number)
            if "candidates" in rule:
                # Another config may lack the argument that names a number of groups.
                names = [
                    c
                    for c in rule["candidates"]
                    if not isinstance(c, str) or c == EVERY_ROW or c in args
                ]
                narrow(merged[key], names or list(rule["candidates"]), problems)
    _agree_on_groups(merged.values(), problems)
    _replace_assumed(merged)
    _add_conditions(merged, seen, [dict(args) for _, args in findings], problems)
    return without_repetition(merged[key] for key in order if key in merged), problems


def _agree_on_groups(rules: Iterable[Rule], problems: list[Problem]) -> None:
    """Give weight and bias of the same modules the same groups.

    A bias may exist in one config only, which does not show by itself what its groups follow.
    """
    by_modules: dict[str, list[Rule]] = {}
    for rule in rules:
        if "candidates" in rule:
            modules = [part.rpartition(".")[0] for part in rule["archon"]]
            by_modules.setdefault(repr(modules), []).append(rule)
    for siblings in by_modules.values():
        common = [
            c for c in siblings[0]["candidates"] if all(c in s["candidates"] for s in siblings)
        ]
        for rule in siblings if common else ():
            narrow(rule, common, problems)


def _replace_assumed(merged: dict[str, Rule]) -> None:
    """Drop names of tied tensors for those that an untied checkpoint has."""
    renames = [rule for rule in merged.values() if rule["rule"] == "Rename"]
    shown = {rule["archon"]: rule["hub"] for rule in renames if not rule.get("assumed")}
    for key, rule in list(merged.items()):
        if not rule.get("assumed"):
            continue
        if rule["archon"] not in shown:
            del rule["assumed"]
            continue
        del merged[key]
        for tie in merged.values():
            if tie["rule"] == "Tied" and tie["hub"] == rule["hub"]:
                tie["hub"] = shown[rule["archon"]]


def _add_conditions(
    merged: Mapping[str, Rule],
    seen: Mapping[str, list[int]],
    arguments: Sequence[Mapping[str, Any]],
    problems: list[Problem],
) -> None:
    """Give rules for the same parameter, or the same tensor, conditions that exclude each other."""
    parts = {
        key: {rule["archon"]} if isinstance(rule["archon"], str) else set(rule["archon"])
        for key, rule in merged.items()
        if "archon" in rule and rule["rule"] != "Unused"
    }
    for one, other in itertools.combinations(parts, 2):
        here, there = set(seen[one]), set(seen[other])
        # Rules that one config has both of do not exclude each other.
        if not parts[one] & parts[other] or here & there:
            continue
        condition = _condition(here, there, arguments)
        if condition is None:
            why = f"and {merged[other]} exclude each other; no argument decides which"
            problems.append(named(str(merged[one]["hub"]), why))
        else:
            merged[one]["when"], merged[other]["when"] = condition


def _condition(
    here: Collection[int], there: Collection[int], arguments: Sequence[Mapping[str, Any]]
) -> tuple[str, str] | None:
    """Return conditions of the two groups: an argument whose values separate one from the other."""
    # Switches first: a size that differs as well separates the configs by accident.
    names = sorted(arguments[0], key=lambda name: not isinstance(arguments[0][name], bool))
    for name in names:
        ours = {repr(arguments[i].get(name)) for i in here}
        theirs = {repr(arguments[i].get(name)) for i in there}
        if ours & theirs:
            continue
        if ours | theirs <= {"True", "False"}:
            return (name, f"not {name}") if ours == {"True"} else (f"not {name}", name)
        if len(ours) == 1 or len(theirs) == 1:
            value = next(iter(ours if len(ours) == 1 else theirs))
            same, other = f"{name} == {value}", f"not {name} == {value}"
            return (same, other) if len(ours) == 1 else (other, same)
    return None


def rule_key(rule: Rule) -> str:
    return repr({k: v for k, v in sorted(rule.items()) if k not in _SECONDARY})


def narrow(rule: Rule, candidates: Sequence[Any], problems: list[Problem]) -> None:
    """Keep the names of a number of groups that fit one more tensor."""
    kept = [c for c in rule.get("candidates", candidates) if c in candidates]
    if not kept:
        why = f"groups are {rule['candidates']} in one place, {candidates} in another"
        problems.append(named(rule["hub"], why))
        return
    rule["candidates"], rule["groups"] = kept, kept[0]


def without_repetition(rules: Iterable[Rule]) -> list[Rule]:
    return list({repr(rule): rule for rule in rules}.values())

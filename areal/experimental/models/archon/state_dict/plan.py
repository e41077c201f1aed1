"""From rules and a model's parameters to every tensor that its checkpoint has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.state_dict.rules import (
    EXPERT,
    LAYER,
    AnyRule,
    HubTensor,
    Ignored,
    Rule,
    Shape,
    Tied,
    Unused,
    row_tensors,
)
from areal.experimental.models.archon.state_dict.sizes import applies

# How many names a message lists of each kind; the rest is counted.
NAMES_IN_MESSAGE = 40


@dataclass(frozen=True)
class CheckpointPlan:
    """Lists the tensors of a checkpoint and the parameters that they hold.

    Args:
        tensors: By name on the Hub.
        parameters: Shape of each parameter of the model, by name.
        tied: Tensors that may be left out, to the ones that stand for them.
        ignored: Patterns of tensors that no parameter needs.
    """

    tensors: dict[str, HubTensor]
    parameters: dict[str, Shape]
    tied: dict[str, str]
    ignored: tuple[str, ...]

    @cached_property
    def holders(self) -> dict[str, list[HubTensor]]:
        """Tensors on the Hub that hold each parameter, tied ones left out."""
        found: dict[str, list[HubTensor]] = {name: [] for name in self.parameters}
        for tensor in self.tensors.values():
            if tensor.name not in self.tied:
                for name in dict.fromkeys(piece.archon for piece in tensor.pieces):
                    found[name].append(tensor)
        for twin, source in self.twins.items():
            found[twin] = found[source]
        return found

    @cached_property
    def twins(self) -> dict[str, str]:
        """Parameters whose own tensor is tied, to the parameter that has their values."""
        return {
            self.tensors[hub].pieces[0].archon: self.tensors[source].pieces[0].archon
            for hub, source in self.tied.items()
            if hub in self.tensors
        }

    @cached_property
    def beside(self) -> dict[str, list[HubTensor]]:
        """Tensors that hold no parameter, by the one with which they are saved."""
        found: dict[str, list[HubTensor]] = {}
        for tensor in self.tensors.values():
            if tensor.beside is not None:
                found.setdefault(tensor.beside, []).append(tensor)
        return found

    @cached_property
    def saved(self) -> dict[str, HubTensor]:
        """Tensors that a checkpoint of the model gets."""
        return {n: tensor for n, tensor in self.tensors.items() if n not in self.tied}

    @cached_property
    def required(self) -> dict[str, HubTensor]:
        """Tensors that a checkpoint must have."""
        return {n: tensor for n, tensor in self.saved.items() if tensor.beside is None}

    def divided_as(self, found: Mapping[str, Shape]) -> CheckpointPlan:
        """Return the plan with parameters split into tensors as a checkpoint splits them.

        Args:
            found: Shape of each tensor in the checkpoint.
        """
        changed: dict[str, HubTensor] = {}
        for name, holders in self.holders.items():
            names = [h.name for h in holders if h.pieces[0].rows is not None and h.name in found]
            shape, counts = self.parameters[name], [found[n][0] for n in names]
            rest = {tuple(found[n][1:]) for n in names}
            if len(names) == len(holders) and rest == {shape[1:]} and sum(counts) == shape[0]:
                changed |= {t.name: t for t in row_tensors(names, counts, name, shape)}
        return replace(self, tensors=self.tensors | changed) if changed else self

    def ignores(self, name: str) -> bool:
        """Return whether a tensor on the Hub may be there and is not read."""
        return name in self.tied or any(_regex(p).fullmatch(name) for p in self.ignored)

    def mismatches(self, found: Mapping[str, Shape], *, partial: bool = False) -> list[str]:
        """Return what keeps a checkpoint from fitting the model, one line for each kind.

        Args:
            found: Shape of each tensor in the checkpoint.
            partial: Missing tensors are no mismatch.
        """
        missing = [] if partial else [name for name in self.required if name not in found]
        extra = [n for n in found if n not in self.tensors and not self.ignores(n)]
        wrong = [
            f"{name} {tuple(shape)} instead of {self.tensors[name].shape}"
            for name, shape in found.items()
            if name in self.tensors and tuple(shape) != self.tensors[name].shape
        ]
        kinds = {"missing": missing, "unknown": extra, "of another shape": wrong}
        return [f"{len(names)} {kind}: {listed(names)}" for kind, names in kinds.items() if names]


_RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def current_name(name: str) -> str:
    """Return a name on the Hub as transformers writes it today.

    Checkpoints converted from TensorFlow, such as those of BERT, name the parameters of their norms
    otherwise.
    """
    for old, new in _RENAMED.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def listed(names: Iterable[str]) -> str:
    """Return names for a message, in order, the last ones only counted."""
    names = sorted(names)
    shown = ", ".join(names[:NAMES_IN_MESSAGE])
    rest = len(names) - NAMES_IN_MESSAGE
    return f"{shown} and {rest} more" if rest > 0 else shown


def make_plan(
    rules: Sequence[AnyRule], parameters: Mapping[str, Shape], args: Any
) -> CheckpointPlan:
    """Bind rules to the parameters of one model.

    Args:
        rules: In any order; those that fit no parameter are not used.
        parameters: Shape of each entry of the model's state dict.
        args: The model's arguments.

    Raises:
        ConfigError: A parameter has no rule or several, or sizes do not divide; all are named.
    """
    active = [rule for rule in rules if applies(rule.when, args)]
    by_pattern = _names_by_pattern(parameters)
    tensors: dict[str, HubTensor] = {}
    holders: dict[str, list[str]] = {name: [] for name in parameters}
    problems: list[str] = []
    for rule in active:
        if not isinstance(rule, Rule):
            continue
        for layer, names in _matches(rule, by_pattern, parameters, problems):
            for name in names if not isinstance(rule, Unused) else ():
                holders[name].append(rule.hubs[0])
            try:
                bound = list(rule.bind(layer, names, [parameters[n] for n in names], args))
            except ConfigError as error:
                problems.append(str(error))
                continue
            problems += [f"{t.name} is mapped twice" for t in bound if t.name in tensors]
            tensors |= {tensor.name: tensor for tensor in bound}
    if without := [name for name, hubs in holders.items() if not hubs]:
        problems.append(f"parameters without a rule: {listed(without)}")
    if several := [f"{name} from {hubs}" for name, hubs in holders.items() if len(hubs) > 1]:
        problems.append(f"parameters with several rules: {listed(several)}")
    if problems:
        raise ConfigError("the rules do not fit the model: " + "; ".join(problems))
    return CheckpointPlan(
        tensors,
        dict(parameters),
        {rule.hub: rule.source for rule in active if isinstance(rule, Tied)},
        tuple(rule.hub for rule in active if isinstance(rule, Ignored)),
    )


def _names_by_pattern(names: Iterable[str]) -> dict[str, list[tuple[int | None, str]]]:
    """Group names by what they are with their first number replaced by the placeholder."""
    grouped: dict[str, list[tuple[int | None, str]]] = {}
    for name in names:
        parts = name.split(".")
        where = next((i for i, part in enumerate(parts) if part.isdigit()), None)
        layer = None
        if where is not None:
            layer, parts[where] = int(parts[where]), LAYER
        grouped.setdefault(".".join(parts), []).append((layer, name))
    return grouped


def _matches(
    rule: Rule,
    by_pattern: Mapping[str, list[tuple[int | None, str]]],
    parameters: Mapping[str, Shape],
    problems: list[str],
) -> Iterable[tuple[int | None, list[str]]]:
    """Yield the layers, with their parameters, that a rule is for."""
    for layer, _ in by_pattern.get(rule.parts[0], []):
        number = "" if layer is None else str(layer)
        names = [part.replace(LAYER, number) for part in rule.parts]
        if absent := [name for name in names if name not in parameters]:
            problems.append(f"{rule.hub} holds {listed(absent)}, which the model does not have")
            continue
        yield layer, names


def _regex(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern)
    for placeholder in (LAYER, EXPERT):
        escaped = escaped.replace(re.escape(placeholder), r"\d+")
    return re.compile(escaped)

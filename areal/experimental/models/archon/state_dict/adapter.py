"""The state-dict adapter that follows from rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs, BaseStateDictAdapter
from areal.experimental.models.archon.state_dict.copying import copy_in, gather
from areal.experimental.models.archon.state_dict.packed_experts import with_packed_experts
from areal.experimental.models.archon.state_dict.plan import (
    CheckpointPlan,
    current_name,
    listed,
    make_plan,
)
from areal.experimental.models.archon.state_dict.rules import (
    AnyRule,
    Ignored,
    Rename,
    Rule,
    Shape,
    Unused,
)

SCORE = "score.weight"
# A critic's head is the only thing that a language model's checkpoint cannot give it.
_SCORE_RULES = (Rename(SCORE, SCORE), Rename("score.bias", "score.bias"))
# Before a score an encoder may have a linear map; a decoder's map is before its logits.
_HEADS = ("score", "head_dense")
_WRAPPERS = ("._checkpoint_wrapped_module", "._orig_mod")


class RuleAdapter(BaseStateDictAdapter):
    """Maps state dicts by the rules that a subclass lists.

    Class attributes:
        RULES: What each tensor on the Hub holds.
        model_class: The model; its parameters are what a checkpoint must give.
        model_args_class: What the model is built from.

    Args:
        model_config: The Hugging Face configuration of the checkpoint.
        hf_assets_path: Folder of a Hugging Face checkpoint, for its index of shards.
        is_critic: Whether the model has ``score`` in the place of ``output``; None where each state
            dict shows it by having that tensor.
        num_labels: Numbers that a critic gives each token.
    """

    RULES: ClassVar[tuple[AnyRule, ...]] = ()
    model_class: ClassVar[type[nn.Module]]
    model_args_class: ClassVar[type[BaseModelArgs]]

    def __init__(
        self,
        model_config: Any,
        hf_assets_path: str | Path | None = None,
        *,
        is_critic: bool | None = None,
        num_labels: int = 1,
    ) -> None:
        super().__init__(model_config, hf_assets_path)
        # An encoder has nothing but a score.
        self.is_critic = True if self.scores_sequences else is_critic
        self.num_labels = num_labels
        rules = [r for r in self.rules() if isinstance(r, Rule) and not isinstance(r, Unused)]
        self.from_hf_map = {hub: r.archon for r in rules for hub in r.hubs}
        self.from_hf_map |= {r.hub: None for r in self.rules() if isinstance(r, Ignored)}
        self.to_hf_map = {part: r.hub for r in rules for part in r.parts}
        self._waiting: dict[str, dict[str, Tensor]] = {}
        self._critics: dict[int, Self] = {}

    @cached_property
    def scores_sequences(self) -> bool:
        """Whether the model is an encoder, whose rules say where its score is on the Hub."""
        rules = (rule for rule in self.RULES if isinstance(rule, Rule))
        return any(part == SCORE for rule in rules for part in rule.parts)

    def rules(self) -> tuple[AnyRule, ...]:
        """Return the rules, with those of a critic's head where the model may be one."""
        has_own = self.is_critic is False or self.scores_sequences
        return self.RULES if has_own else (*self.RULES, *_SCORE_RULES)

    def for_state(self, state: Mapping[str, Any]) -> Self:
        """Return the adapter of a critic where that was left open and a state has a score.

        Args:
            state: Tensors by name, on the Hub or in the model: a score has one name in both.
        """
        score = next((t for name, t in state.items() if unwrapped(name) == SCORE), None)
        if self.is_critic is not None or score is None:
            return self
        labels = int(score.shape[0])
        if labels not in self._critics:
            made = type(self)(self.model_config, is_critic=True, num_labels=labels)
            self._critics[labels] = made
        return self._critics[labels]

    @cached_property
    def args(self) -> BaseModelArgs:
        """The arguments of the model that the configuration describes.

        Raises:
            ConfigError: The model does not implement the configuration.
        """
        is_critic = bool(self.is_critic)
        made = self.model_args_class.from_hf_config(self.model_config, is_critic=is_critic)
        return dataclasses.replace(made, num_labels=self.num_labels) if is_critic else made

    @cached_property
    def plan(self) -> CheckpointPlan:
        """What the checkpoint of the whole model has.

        Raises:
            ConfigError: The rules do not fit the model.
        """
        with torch.device("meta"):
            model = self.model_class(self.args)
        shapes: dict[str, Shape] = {n: tuple(t.shape) for n, t in model.state_dict().items()}
        return make_plan(self.rules(), shapes, self.args)

    @cached_property
    def _packed_plan(self) -> CheckpointPlan | None:
        rules = with_packed_experts(self.rules())
        return rules and make_plan(rules, self.plan.parameters, self.args)

    def plan_of(self, found: Mapping[str, Shape]) -> CheckpointPlan:
        """Return the plan of a checkpoint that is to be read.

        Single experts may also be packed as transformers has them in memory. Tensors that are in
        one parameter may divide it in any way, and from now on are saved as they were read.

        Args:
            found: Shape of each tensor in the checkpoint.
        """
        self.plan = self.plan.divided_as(found)
        packed = self._packed_plan
        if packed and any(n in packed.tensors and n not in self.plan.tensors for n in found):
            return packed
        return self.plan

    @cached_property
    def unused_names(self) -> frozenset[str]:
        """Name on the Hub of tensors that nothing computes with; they are saved as zeros."""
        return frozenset(self.plan.saved.keys() - self.plan.required.keys())

    @cached_property
    def head_names(self) -> frozenset[str]:
        """Name on the Hub of the language model's head, which a critic does not have."""
        return frozenset(
            hub
            for rule in self.RULES
            if isinstance(rule, Rule) and rule.parts[0].startswith("output.")
            for hub in rule.hubs
        )

    def from_hf(
        self, hf_state_dict: Mapping[str, Tensor], *, partial: bool = False
    ) -> dict[str, Tensor]:
        """Return the state dict of the Archon model.

        Args:
            hf_state_dict: All tensors of a checkpoint. They are not copied where a parameter is
                just one of them.
            partial: Parameters that have no tensor are left out, as for one stage of a pipeline.

        Raises:
            ConfigError: A tensor is missing, unknown or of another shape; all are named.
        """
        if (own := self.for_state(hf_state_dict)) is not self:
            return own.from_hf(hf_state_dict, partial=partial)
        named = {current_name(n): t for n, t in hf_state_dict.items()}
        given = {n: t for n, t in named.items() if not self._is_dropped(n, t)}
        shapes = {name: tuple(tensor.shape) for name, tensor in given.items()}
        fresh = {n: self.plan.tensors[n].shape for n in self.fresh_names(shapes).values()}
        given |= {name: fresh_head(shape) for name, shape in fresh.items()}
        shapes |= fresh
        plan = self.plan_of(shapes)
        if problems := plan.mismatches(shapes, partial=partial):
            raise ConfigError("the state dict does not fit the model: " + "; ".join(problems))
        found = {n: _parameter(n, plan, given, partial) for n in plan.parameters}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def fresh_names(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters of a critic's head that a language model's checkpoint lacks.

        An encoder may also lack the linear map before its score.

        Returns:
            The name on the Hub of each.
        """
        fresh: dict[str, str] = {}
        for head in _HEADS if self.scores_sequences else _HEADS[:1]:
            parts = [
                name for name in (f"{head}.weight", f"{head}.bias") if name in self.plan.holders
            ]
            names = {part: self.plan.holders[part][0].name for part in parts}
            if names and names[parts[0]] not in found:
                fresh |= names
        return fresh

    def _is_dropped(self, name: str, tensor: Tensor) -> bool:
        has_no_place = name in self.head_names or not tensor.numel()
        return name not in self.plan.tensors and has_no_place

    def to_hf(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict under the names on the Hub.

        Args:
            state_dict: The model's, or a part of it, as of one stage of a pipeline. A tensor that
                is on the Hub as it is here is not copied.

        Raises:
            ConfigError: A parameter is unknown, of another shape, or comes without those that share
                its tensor on the Hub; all are named.
        """
        if (own := self.for_state(state_dict)) is not self:
            return own.to_hf(state_dict)
        state = {unwrapped(name): tensor for name, tensor in state_dict.items()}
        self._refuse_unknown(state)
        found: dict[str, Tensor] = {}
        torn: list[str] = []
        for holder in self.plan.saved.values():
            absent = [name for name in holder.parameters if name not in state]
            if not absent:
                found[holder.name] = gather(holder, state)
            elif len(absent) < len(holder.parameters):
                torn.append(f"{holder.name} needs {listed(absent)}")
        if torn:
            raise ConfigError("parameters that share a tensor are missing: " + listed(torn))
        return found

    def _refuse_unknown(self, state: Mapping[str, Tensor]) -> None:
        expected = self.plan.parameters
        unknown = [name for name in state if name not in expected]
        wrong = [
            f"{name} {tuple(tensor.shape)} instead of {expected[name]}"
            for name, tensor in state.items()
            if name in expected and tuple(tensor.shape) != expected[name]
        ]
        if unknown or wrong:
            raise ConfigError(
                f"not the model's state dict: unknown {listed(unknown) or 'none'}; "
                f"of another shape {listed(wrong) or 'none'}"
            )

    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        """Return what one parameter is on the Hub: none, one or several tensors.

        A parameter that shares its tensor with others gives nothing until the last of them comes;
        the earlier ones wait inside the adapter.

        Args:
            name: The parameter's, wrappers of checkpointing and compilation allowed.
            tensor: All of it.

        Raises:
            ConfigError: The parameter is unknown or of another shape.
        """
        if (own := self.for_state({name: tensor})) is not self:
            return own.convert_single_to_hf(name, tensor)
        name = unwrapped(name)
        self._refuse_unknown({name: tensor})
        if name in self.plan.twins:
            return []
        found: list[tuple[str, Tensor]] = []
        for holder in [*self.plan.holders[name], *self.plan.beside.get(name, ())]:
            needed = set(holder.parameters)
            if needed == {name}:
                found.append((holder.name, gather(holder, {name: tensor})))
                continue
            waiting = self._waiting.setdefault(holder.name, {})
            waiting[name] = tensor
            if waiting.keys() == needed:
                found.append((holder.name, gather(holder, self._waiting.pop(holder.name))))
        return found


def _parameter(
    name: str, plan: CheckpointPlan, given: Mapping[str, Tensor], partial: bool
) -> Tensor | None:
    """Return one parameter, or None where none of its tensors is given."""
    name = plan.twins.get(name, name)
    holders = plan.holders[name]
    absent = [holder.name for holder in holders if holder.name not in given]
    if len(absent) == len(holders) and partial:
        return None
    if absent:
        raise ConfigError(f"{name} is held by several tensors and misses {listed(absent)}")
    first = given[holders[0].name]
    if holders[0].pieces[0].is_whole:
        return first
    whole = torch.empty(plan.parameters[name], dtype=first.dtype, device=first.device)
    for holder in holders:
        copy_in({name: whole}, holder, given[holder.name])
    return whole


def unwrapped(name: str) -> str:
    """Return a parameter's name without what checkpointing and compilation put into it."""
    for wrapper in _WRAPPERS:
        name = f".{name}".replace(wrapper, "").removeprefix(".")
    return name


def fresh_head(shape: Shape) -> Tensor:
    """Return a new head: every process that asks gets the same values.

    Source: the standard deviation is one over the root of the inputs, so that scores of normalised
    states start with variance one.
    """
    if len(shape) == 1:
        return torch.zeros(shape)
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

"""Describe a whole model: one observation of one instance under one configuration."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.attention import observe_attention
from archon_probe.measure.ends import observe_embedding, observe_head
from archon_probe.measure.hooks import Call, Trace, record
from archon_probe.measure.mixer import mixes_tokens, observe_mixer
from archon_probe.measure.mla import observe_mla
from archon_probe.measure.mlp import observe_mlp
from archon_probe.measure.moe import observe_moe
from archon_probe.measure.norm import observe_norm
from archon_probe.measure.observation import Observation, Observed, linear_weight
from archon_probe.measure.roles import (
    UnknownStructureError,
    attention_paths,
    direct_calls,
    find_skeleton,
)
from archon_probe.measure.wiring import Wiring, wire

LENGTH = 37
"""Tokens of the run: more than a tiny window, chunk or original length."""


def tokens_for(config: Any, length: int = LENGTH) -> Tensor:
    """Return one sequence [1, T] of different tokens, none of them special."""
    special: set[Any] = set()
    for name in ("pad_token_id", "eos_token_id", "bos_token_id"):
        value = getattr(config, name, None)
        special |= set(value) if isinstance(value, (list, tuple)) else {value}
    usual = [t for t in range(config.vocab_size) if t not in special]
    # All different, so that each row of what is computed belongs to one row of the embedding.
    order = torch.randperm(len(usual), generator=torch.Generator().manual_seed(3))
    return torch.tensor([[usual[int(i)] for i in order[:length]]])


@torch.no_grad()
def observe(model: Any) -> Observation:
    """Measure a model in evaluation mode.

    Raises:
        UnknownStructureError: It has a part that is not known; the error names it.
    """
    config = model.config.get_text_config()
    # No special tokens: a model may mask some of them, or treat them apart.
    trace = record(model, tokens_for(config))
    skeleton = find_skeleton(model, trace)
    observation = Observation({}, {}, [])
    observe_embedding(model, trace, skeleton, observation)
    for i, path in enumerate(skeleton.layers):
        layer = observe_layer(trace, path, config, observation, f"layers.{i}.")
        observation.layers.append(layer)
    observe_head(model, trace, skeleton, observation)
    return observation


def observe_layer(
    trace: Trace, path: str, config: Any, observation: Observation, prefix: str
) -> dict[str, Any]:
    """Describe one decoder layer, its modules under their Archon names."""
    attentions = attention_paths(trace, path)
    calls = direct_calls(trace, path, attentions)
    wiring = wire(trace.of(path)[0], calls, attentions)
    kinds = {n: _kind(trace, n, group, attentions) for n, group in wiring.calls.items()}
    names = _names(wiring, kinds)
    modules: dict[str, Any] = {}
    for old, new in names.items():
        found = _observe_module(trace, kinds[old], wiring.calls[old], config)
        modules[new] = {"kind": kinds[old], **found.features}
        for tensor_name, tensor in found.tensors.items():
            observation.tensors[f"{prefix}{new}.{tensor_name}"] = tensor
    return {"steps": _renamed(wiring.steps, names), "modules": modules}


def _kind(trace: Trace, name: str, group: list[Call], attentions: list[str]) -> str:
    call = group[0]
    if name in attentions:
        return "attention"
    # By what it computes, since the names of norms differ between models.
    if len(group) == 1 and observe_norm(call.module, call.x) is not None:
        return "norm"
    if len(group) == 1 and mixes_tokens(call):
        return "mixer"
    parameters = [p for g in group for p in g.module.parameters()]
    # Before "mlp": experts are made of linear maps, too.
    if any(p.ndim == 3 for p in parameters) or _has_experts(group):
        return "moe"
    if any(linear_weight(m) is not None for g in group for m in g.module.modules()):
        return "mlp"
    raise UnknownStructureError(
        name, f"a {type(call.module).__name__} that is neither a norm nor a map"
    )


def _has_experts(group: list[Call]) -> bool:
    """Return whether experts are kept in a list, or in matrices that no linear map holds."""
    for module in (m for g in group for m in g.module.modules()):
        if isinstance(module, nn.ModuleList) and len(module) > 1:
            return True
        own = list(module.parameters(recurse=False))
        if linear_weight(module) is None and any(p.ndim >= 2 for p in own):
            return True
    return False


def _observe_module(trace: Trace, kind: str, group: list[Call], config: Any) -> Observed:
    call = group[0]
    if kind == "attention":
        _refuse_chosen_keys(trace, call)
        if len(group) > 1:
            call = replace(call, outputs=group[-1].outputs)
        try:
            return observe_attention(trace, call, config, beside=group[1:])
        # Latent attention is tried where plain projections do not explain queries, keys and values.
        except UnknownStructureError:
            latent = observe_mla(trace, call, config)
            if latent is None:
                raise
            return latent
    if kind == "mixer":
        return observe_mixer(call, config)
    if kind == "norm":
        features = observe_norm(call.module, call.x)
        assert features is not None
        tensors = {n: p.detach() for n, p in call.module.named_parameters()}
        return Observed({"norm": {"when": True, **features}}, tensors)
    if kind == "mlp":
        # The group itself may be linear maps that the layer calls one by one.
        inner = [c for g in group for c in [*trace.under(g.path), g]]
        return observe_mlp(group, inner, config)
    try:
        found = observe_moe(call.module, call.x.reshape(1, -1, call.x.shape[-1]), config)
    except TypeError as error:
        what = f"a {type(call.module).__name__} that asks for more than the stream: {error}"
        raise UnknownStructureError(call.path, what) from error
    if found["unknown"]:
        raise UnknownStructureError(call.path, "; ".join(found["unknown"]))
    return Observed({"hidden_dim": found["hidden_dim"], **found["args"]}, found["tensors"])


def _refuse_chosen_keys(trace: Trace, call: Call) -> None:
    """Refuse attention in which a part of its own chooses the keys that a query sees.

    Its choice changes nothing where a sequence has fewer tokens than it chooses, as a tiny one has.

    Raises:
        UnknownStructureError: A part of it gives places of tokens, and no numbers.
    """
    for inner in trace.under(call.path):
        if inner.outputs and not any(y.is_floating_point() for y in inner.outputs):
            kind = type(inner.module).__name__
            what = f"a {kind}, which chooses the keys that a query sees: sparse attention"
            raise UnknownStructureError(inner.path, what)


def _names(wiring: Wiring, kinds: dict[str, str]) -> dict[str, str]:
    """Give modules their Archon names, by what they are and what they feed."""
    names: dict[str, str] = {}
    made = {s["out"]: s["call"] for s in wiring.steps if "call" in s}
    fed_by = {s["call"]: made.get(s["in"]) for s in wiring.steps if "call" in s}
    for module, kind in kinds.items():
        if kind != "norm":
            names[module] = {"mlp": "feed_forward"}.get(kind, kind)
    # Norms by their neighbours, as models call them by many names.
    for module, kind in kinds.items():
        if kind != "norm":
            continue
        feeds = [kinds[m] for m, source in fed_by.items() if source == module]
        source = fed_by[module]
        if {"attention", "mixer"} & set(feeds):
            names[module] = "attention_norm"
        elif "mlp" in feeds or "moe" in feeds:
            names[module] = "ffn_norm"
        elif source is not None and kinds[source] in {"attention", "mixer"}:
            names[module] = "attention_post_norm"
        elif source is not None and kinds[source] in {"mlp", "moe"}:
            names[module] = "ffn_post_norm"
        else:
            own = module.rpartition(".")[2]
            names[module] = own if own.islower() else "output_norm"
    totals, numbers = Counter(names.values()), defaultdict(itertools.count)
    return {
        module: f"{name}_{next(numbers[name])}" if totals[name] > 1 else name
        for module, name in names.items()
    }


def _renamed(steps: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """Return steps with Archon module names, and short names for what they compute."""
    # What each step computes, by the name it has in the trace.
    values = {"x": "x"}
    renamed: list[dict[str, Any]] = []
    for step in steps:
        if "call" in step:
            values[step["out"]] = f"{names[step['call']]}_out"
            call, given = names[step["call"]], values[step["in"]]
            renamed.append({"out": values[step["out"]], "call": call, "in": given})
        else:
            terms = [[values[n], w] for n, w in step["sum"]]
            values[step["out"]] = f"h{sum('sum' in s for s in renamed)}"
            renamed.append({"out": values[step["out"]], "sum": terms})
    return renamed

"""Find how an encoder makes a score of a sequence from the hidden states of its tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from archon_probe.measure.algebra import is_close
from archon_probe.measure.attention import linear_bias, linear_weight
from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.mlp import activations
from archon_probe.measure.norm import observe_norm
from archon_probe.measure.observation import Observation
from archon_probe.measure.roles import Skeleton, UnknownStructureError


def observe_scoring(model: Any, trace: Trace, skeleton: Skeleton, observation: Observation) -> None:
    """Describe the final norm, what is taken of all tokens, the maps behind it, and the score.

    Raises:
        UnknownStructureError: The head is made of something else.
    """
    last = trace.of(skeleton.layers[-1])[0]
    head = trace.of(skeleton.head)[-1]
    after = [c for c in trace.calls if last.order < c.order < head.order and c.inputs and c.outputs]
    states = _rows(last.y)
    features: dict[str, Any] = {"norm": {"when": False}, "transform": {"when": False}}
    observation.head = features
    for call in after:
        kind = observe_norm(call.module, call.x)
        if kind is not None and is_close(_rows(call.x), states):
            features["norm"] = {"when": True, **kind}
            _keep(observation, "norm", call)
            states = _rows(call.y)
            break
    given = _rows(head.x)
    pooling = _pooling(given, states)
    if pooling is None:
        pooling = _transformed(model.config, after, given, states, observation)
    if pooling is None:
        raise UnknownStructureError(head.path, "its input is no pooled state, mapped once or not")
    bias = linear_bias(head.module)
    features |= {"pooling": pooling, "tied": False, "bias": bias is not None}
    features |= {"input_multiplier": 1.0, "multiplier": 1.0, "softcap": None}
    _keep(observation, "score", head)


def _transformed(
    config: Any, after: list[Call], given: Tensor, states: Tensor, observation: Observation
) -> str | None:
    """Describe a linear map of the pooled state, an activation and maybe a norm behind it."""
    maps = [c for c in after if linear_weight(c.module) is not None]
    found = ((c, pooling) for c in maps if (pooling := _pooling(_rows(c.x), states)) is not None)
    dense, pooling = next(found, (None, None))
    if dense is None:
        return None
    closing: Call | None = None
    norm: dict[str, Any] = {"when": False}
    for call in after:
        kind = observe_norm(call.module, call.x) if call.order > dense.order else None
        if kind is not None and is_close(_rows(call.y), given):
            closing, norm, given = call, {"when": True, **kind}, _rows(call.x)
            break
    for name, function, _ in activations([], config):
        if is_close(function(_rows(dense.y)), given):
            has_bias = linear_bias(dense.module) is not None
            transform = {"when": True, "activation": name, "bias": has_bias, "norm": norm}
            observation.head["transform"] = transform
            break
    else:
        raise UnknownStructureError(dense.path, "an unknown activation")
    _keep(observation, "head_dense", dense)
    if closing is not None:
        _keep(observation, "head_norm", closing)
    return pooling


def _pooling(pooled: Tensor, states: Tensor) -> str | None:
    """Return what is taken of the states of all tokens: the first one, the mean, or all.

    All of them are scored where it is the scores that are pooled.
    """
    kinds = {"cls": states[:1], "mean": states.mean(0, keepdim=True), "late": states}
    return next((name for name, row in kinds.items() if is_close(pooled, row)), None)


def _keep(observation: Observation, name: str, call: Call) -> None:
    for key, parameter in call.module.named_parameters():
        observation.tensors[f"{name}.{key}"] = parameter.detach()
    observation.paths[name] = call.path


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])

"""Find the parts every decoder has: embeddings, layers, the head, and attention in a layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.tasks import is_encoder


class UnknownStructureError(Exception):
    """A model that is built in a way that the probe cannot describe.

    Args:
        module: Path of the module.
        what: Was looked for and not found.
    """

    def __init__(self, module: str, what: str) -> None:
        super().__init__(f"{module}: {what}")
        self.module = module
        self.what = what


@dataclass(frozen=True)
class Skeleton:
    """The parts of a model.

    Args:
        embed: Path of the token embedding.
        layers: Path of each decoder layer, in order.
        head: Path of the output projection.
    """

    embed: str
    layers: list[str]
    head: str


def find_skeleton(model: Any, trace: Trace) -> Skeleton:
    """Find embeddings, layers and head.

    Raises:
        UnknownStructureError: One of them is missing.
    """
    paths = {id(m): p for p, m in model.named_modules()}
    embed = paths.get(id(model.get_input_embeddings()))
    if is_encoder(model.config):
        head = _scoring_path(trace)
    else:
        head = paths.get(id(model.get_output_embeddings()))
    if embed is None or head is None:
        raise UnknownStructureError("", "no token embedding or no output projection")
    # Names of attributes differ between models; that members run one after another does not.
    lists = [
        (p, m)
        for p, m in model.named_modules()
        if isinstance(m, nn.ModuleList) and len(m) and _runs_in_sequence(p, len(m), trace)
    ]
    if not lists:
        raise UnknownStructureError("", "no list of layers that feed each other")
    # The outermost list: a layer may hold one that runs in sequence, too.
    path, layers = min(lists, key=lambda item: item[0].count("."))
    return Skeleton(embed, [f"{path}.{i}" for i in range(len(layers))], head)


def _scoring_path(trace: Trace) -> str | None:
    """Return the linear map whose output is the score of the sequence, or of all its tokens."""
    scores = trace.of("")[-1].y
    maps = [c for c in reversed(trace.under("")) if isinstance(c.module, nn.Linear) and c.outputs]
    rows = ((c.path, c.y.reshape(-1, c.y.shape[-1])) for c in maps)
    fits = (path for path, y in rows if torch.allclose(y.mean(0, keepdim=True), scores))
    return next(fits, None)


def _runs_in_sequence(path: str, count: int, trace: Trace) -> bool:
    """Return whether each member of a list is called once, and is a layer.

    It is one where its scores pass a softmax. Some layers mix tokens in another way: then each
    member's output is the next one's input.
    """
    calls = [trace.of(f"{path}.{i}") for i in range(count)]
    if any(len(each) != 1 for each in calls):
        return False
    if all(_has_softmax(f"{path}.{i}", trace) for i in range(count)):
        return True
    return any(_has_softmax(f"{path}.{i}", trace) for i in range(count)) and all(
        torch.equal(one.y, other.x) for (one,), (other,) in pairwise(calls)
    )


def _has_softmax(path: str, trace: Trace) -> bool:
    return any(function.name == "softmax" for function in trace.functions_under(path))


def attention_paths(trace: Trace, layer: str) -> list[str]:
    """Return the modules of a layer that mix tokens, innermost, in the order of their calls."""
    found: list[str] = []
    for function in trace.functions_under(layer):
        scores = function.inputs[0] if function.inputs else None
        if function.name != "softmax" or scores is None or scores.ndim < 3:
            continue
        # A router's softmax goes over experts; only scores of attention are [..., T, T or more].
        length = trace.tokens.shape[1]
        if scores.shape[-2] == length and scores.shape[-1] >= length and function.path not in found:
            found.append(function.path)
    return found


def direct_calls(trace: Trace, layer: str, attentions: list[str]) -> list[Call]:
    """Return the calls that a layer is made of, containers around attention opened up.

    Args:
        layer: Path of the layer.
        attentions: Paths of what mixes tokens in it.
    """
    # A container between layer and attention is opened, so that norms inside it are seen as steps.
    opened = {layer}
    for path in attentions:
        parts = path.split(".")
        for end in range(len(parts) - 1, 0, -1):
            parent = ".".join(parts[:end])
            if parent == layer or not parent.startswith(f"{layer}."):
                break
            opened.add(parent)
    opened |= {c.path for c in trace.under(layer) if _adds_inside(trace, c)}
    called = {c.path for c in trace.under(layer)} | {layer}
    calls: list[Call] = []
    for call in trace.under(layer):
        parent = call.path.rpartition(".")[0]
        while parent not in called and parent.startswith(layer):
            parent = parent.rpartition(".")[0]  # a list is a place and runs nothing
        if parent in opened and call.path not in opened and call.outputs:
            calls.append(without_additions(trace, call))
    return sorted(calls, key=lambda c: c.order)


def _adds_inside(trace: Trace, call: Call) -> bool:
    """Return whether a module gets the stream beside its input, and norms the sum of both.

    Such a module is a piece of its layer: a map, the residual and a norm behind it.
    """
    inner = trace.under(call.path)
    if not call.outputs or not inner or not inner[-1].outputs or not inner[-1].inputs:
        return False
    last = inner[-1]
    others = [x for x in call.inputs.values() if x.shape == call.y.shape and x is not call.x]
    made = [c.y for c in inner[:-1] if c.outputs and c.y.shape == call.y.shape]
    return torch.equal(last.y, call.y) and any(
        torch.equal(last.x, y + other) for y in made for other in others
    )


def without_additions(trace: Trace, call: Call) -> Call:
    """Return a call as if the layer, and not the module, added what it adds.

    Some modules get the residual and add it to their result; one returns a bias beside it.
    """
    y = call.y
    biases = [o for o in call.outputs[1:] if o.ndim == 1 and o.shape[0] == y.shape[-1]]
    if biases:
        return replace(call, outputs=[y + biases[0]])
    others = [x for n, x in call.inputs.items() if x.shape == y.shape and x is not call.x]
    for inner in reversed(trace.under(call.path)):
        if not inner.outputs or inner.y.shape != y.shape:
            continue
        for other in others:
            if torch.allclose(inner.y + other, y, rtol=1e-5, atol=1e-6):
                return _sole_map(trace, call, inner.y) or replace(call, outputs=[inner.y])
    return call


def _sole_map(trace: Trace, call: Call, y: Tensor) -> Call | None:
    """Return the linear map that a module is, apart from an addition and from dropout."""
    maps = [c for c in trace.under(call.path) if isinstance(c.module, nn.Linear)]
    if len(maps) == 1 and torch.equal(maps[0].x, call.x) and torch.equal(maps[0].y, y):
        return maps[0]
    return None

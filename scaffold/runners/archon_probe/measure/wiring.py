"""Find how a decoder layer combines its modules: order, residuals, multipliers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from archon_probe.measure.algebra import explain, is_close
from archon_probe.measure.hooks import Call
from archon_probe.measure.roles import UnknownStructureError


@dataclass
class Wiring:
    """A layer as a list of steps.

    Args:
        steps: ``{"out", "call", "in"}`` or ``{"out", "sum": [[name, weight], ...]}``; the input is
            "x", the last step's out is the layer's output.
        calls: The call behind each module name that steps use.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    calls: dict[str, list[Call]] = field(default_factory=dict)


def wire(layer: Call, calls: list[Call], attentions: Collection[str] = ()) -> Wiring:
    """Explain every module's input, and the layer's output, by what was computed before it.

    Args:
        layer: The call of the layer.
        calls: Of what it is made of, in order; several calls of one module may be one block, as
            two linear maps with an activation between them.
        attentions: Paths of what mixes tokens; a linear map of the result may follow outside.

    Raises:
        UnknownStructureError: An input is no sum of what is known.
    """
    wiring = Wiring()
    known: dict[str, Tensor] = {"x": layer.x.reshape(-1, layer.x.shape[-1])}
    for group in _blocks(calls, attentions):
        source = group[0].x_rows
        name = group[0].path
        step_in = _step(wiring, known, source, name)
        out = f"{name}:out"
        known[out] = group[-1].y_rows
        wiring.steps.append({"out": out, "call": name, "in": step_in})
        wiring.calls[name] = group
    # The last residual is a sum that no module computes.
    final = _step(wiring, known, layer.y_rows, f"{layer.path} output")
    if wiring.steps and wiring.steps[-1]["out"] != final:
        wiring.steps.append({"out": f"{layer.path}:y", "sum": [[final, 1.0]]})
    return wiring


def _blocks(calls: list[Call], attentions: Collection[str]) -> list[list[Call]]:
    """Leave out what changes nothing, and join linear maps with an activation between them."""
    blocks: list[list[Call]] = []
    for call in calls:
        if not call.inputs or not call.outputs:
            continue
        # Dropout in evaluation, or a residual's identity.
        if not list(call.module.parameters()) and is_close(call.y_rows, call.x_rows, 0.0):
            continue
        blocks.append([call])
    joined: list[list[Call]] = []
    width = None
    for block in blocks:
        call = block[0]
        width = call.x.shape[-1] if width is None else width
        before = joined[-1] if joined else []
        # The output projection of an attention may be beside it.
        is_after = [c.path for c in before] in [[path] for path in attentions]
        is_map = isinstance(call.module, nn.Linear)
        if is_after and is_map and is_close(call.x_rows, before[0].y_rows, 0.0):
            before.append(call)
            continue
        # Between two maps the width is not that of the stream: what follows belongs to the block
        # before.
        if joined and (call.x_rows.shape[-1] != width or joined[-1][-1].y_rows.shape[-1] != width):
            joined[-1].extend(block)
        else:
            joined.append(block)
    return joined


def _step(wiring: Wiring, known: dict[str, Tensor], target: Tensor, what: str) -> str:
    """Return the name of a known tensor that equals the target, after adding a sum if needed."""
    terms = explain(target, known)
    if terms is None:
        raise UnknownStructureError(what, f"is not a weighted sum of {', '.join(known)}")
    # The input is a tensor that is known already, and no sum.
    if len(terms) == 1 and terms[0][1] == 1.0:
        return terms[0][0]
    name = f"sum{sum('sum' in s for s in wiring.steps)}"
    wiring.steps.append({"out": name, "sum": [[n, w] for n, w in terms]})
    known[name] = target
    return name

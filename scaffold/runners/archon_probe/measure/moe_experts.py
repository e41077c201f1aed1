"""Find how routed experts compute, and which parts of their parameters do what.

Shape letters: T tokens, E experts, K experts per token, H an expert's width, D features.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import is_close
from archon_probe.measure.mlp import activations
from archon_probe.measure.moe_run import Bench, attributes, declared

Ask = Callable[[Tensor, Tensor, Tensor], Tensor]
Gate = Callable[[Tensor, Any], Tensor]
"""From the products of w1 and w3, None without w3, to what w2 multiplies."""
_SMALL = 0.0625
"""Below any limit, exact in binary, and large enough to divide by."""


@dataclass
class Layout:
    """One reading of the experts' parameters, as views: writes reach the module.

    Args:
        w1: [E, H, D], whose product is activated.
        w3: [E, H, D], whose product multiplies it; None where nothing does.
        w2: [E, D, H].
        b1: [E, H] or None, as the others.
        b3: Of w3.
        b2: [E, D] or None.
    """

    w1: Tensor
    w3: Tensor | None
    w2: Tensor
    b1: Tensor | None
    b3: Tensor | None
    b2: Tensor | None


@dataclass
class Experts:
    """What the experts were found to be.

    Args:
        layout: Of their parameters.
        args: Fields of MoEArgs.
        gate: From the products of w1 and w3 to what w2 multiplies.
    """

    layout: Layout
    args: dict[str, Any]
    gate: Gate


class ExpertCall:
    """The experts' module by itself, and what it returns for ordinary and for large tokens.

    Args:
        bench: Holds it.
        module: The experts.
        num_experts: Routed ones.
        ask: Calls the module with tokens [T, D], experts [T, K] and weights [T, K].
    """

    def __init__(self, bench: Bench, module: nn.Module, num_experts: int, ask: Ask) -> None:
        self.bench, self.module, self.num_experts, self.ask = bench, module, num_experts, ask
        x = bench.tokens(24)
        self.experts = torch.arange(24) % num_experts
        index, ones = self.experts.unsqueeze(-1), torch.ones(24, 1)
        # Limits show in large numbers only.
        self.cases = [
            (given, ask(given, index, ones), tolerance)
            for given, tolerance in ((x, 2e-5), (x * 40, 1e-4))
        ]

    @torch.no_grad()
    def gives(self, layout: Layout, gate: Gate) -> bool:
        """Return whether a layout and a gate give what the experts return."""
        for x, expected, tolerance in self.cases:
            try:
                found = compute(layout, gate, x, self.experts)
            except (RuntimeError, TypeError, AttributeError):
                return False
            if not is_close(found, expected, tolerance):
                return False
        return True


def find_experts(call: ExpertCall) -> Experts | None:
    """Search layouts and gate functions for one that gives the module's output."""
    # First the plain form with each known activation, in every layout; measuring comes last.
    named = [(name, function) for name, function, _ in activations([], call.bench.config)]
    for layout in layouts_of(call):
        for name, function in named:

            def gate(given: Tensor, up: Tensor | None, function: Any = function) -> Tensor:
                return function(given) if up is None else function(given) * up

            if call.gives(layout, gate):
                plain = {"gate_alpha": None, "gate_limit": None, "up_limit": None, "up_offset": 0.0}
                return _experts(layout, {"activation": name, **plain}, gate)
    for layout in (each for each in layouts_of(call) if each.w3 is not None):
        found = _measured(call, layout)
        if found is not None and call.gives(layout, found[1]):
            return _experts(layout, *found)
    return None


def _experts(layout: Layout, args: dict[str, Any], gate: Gate) -> Experts:
    is_gated, has_bias = layout.w3 is not None, layout.b2 is not None
    return Experts(layout, args | {"gated": is_gated, "expert_bias_terms": has_bias}, gate)


# --- layouts


Split = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""From the rows of what a map widens to, [E, rows, ...], to those that are activated and others."""


def layouts_of(call: ExpertCall) -> Iterator[Layout]:
    """Yield the readings of the parameters that the shapes allow."""
    own = [p.detach() for p in call.module.parameters()]
    matrices = [p for p in own if p.ndim == 3]
    if not matrices:
        count = call.num_experts
        # All experts below each other in one matrix.
        stacked = [p for p in own if p.ndim == 2 and p.shape[0] % count == 0 and p.shape[0] > count]
        matrices = [p.unflatten(0, (count, -1)) for p in stacked]
    vectors = [p for p in own if p.ndim == 2 and p.shape[0] == matrices[0].shape[0]]
    # Shapes alone do not decide where E, D and H are equal: each reading is tried on tokens.
    for *ups, down in itertools.permutations(matrices, len(matrices)):
        # The last of the order is read as the map back, the others as gate and up.
        for w2 in _turns(down, call.bench.dim, -2):
            for w1, w3, biases in _pairs(ups, vectors, call.bench.dim, w2.shape[-1]):
                known = slice(call.num_experts)
                yield Layout(w1[known], None if w3 is None else w3[known], w2[known], *biases)


def _turns(tensor: Tensor, dim: int, axis: int) -> Iterator[Tensor]:
    """Yield matrices, as they are and transposed, that have the width of the stream in an axis."""
    yield from (t for t in (tensor, tensor.transpose(1, 2)) if t.shape[axis] == dim)


def _pairs(
    ups: list[Tensor], vectors: list[Tensor], dim: int, width: int
) -> Iterator[tuple[Tensor, Tensor | None, tuple[Tensor | None, ...]]]:
    """Yield w1 and w3, and the biases that go with them: b1, b3 and b2."""
    if len(ups) == 1:
        for both in _turns(ups[0], dim, -1):
            for split in _splits(both.shape[1], width):
                biases: tuple[Tensor | None, ...] = (None, None, None)
                if vectors:
                    if [v.shape[1] for v in vectors] != [both.shape[1], dim]:
                        continue
                    biases = (*split(vectors[0]), vectors[1])
                yield *split(both), biases
    if len(ups) == 2 and not vectors:
        for gate, up in itertools.product(_turns(ups[0], dim, -1), _turns(ups[1], dim, -1)):
            if gate.shape[1] == up.shape[1] == width:
                yield gate, up, (None, None, None)


def _splits(rows: int, width: int) -> list[Split]:
    """Return the ways in which gate and up may share the rows of a map, if there is a gate."""
    if rows == width:
        return [lambda t: (t, None)]
    if rows != 2 * width:
        return []
    return [
        lambda t: (t[:, :width], t[:, width:]),
        lambda t: (t[:, width:], t[:, :width]),
        lambda t: (t[:, 0::2], t[:, 1::2]),
        lambda t: (t[:, 1::2], t[:, 0::2]),
    ]


# --- what an expert computes


def compute(layout: Layout, gate: Gate, x: Tensor, experts: Tensor) -> Tensor:
    """Run each token [T, D] through one expert [T]: [T, D]."""
    given = _product(x, layout.w1, layout.b1, experts)
    up = None if layout.w3 is None else _product(x, layout.w3, layout.b3, experts)
    out = torch.einsum("th,tdh->td", gate(given, up), layout.w2[experts])
    return out if layout.b2 is None else out + layout.b2[experts]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, experts: Tensor) -> Tensor:
    out = torch.einsum("td,thd->th", x, weight[experts])
    return out if bias is None else out + bias[experts]


@torch.no_grad()
def _measured(call: ExpertCall, layout: Layout) -> tuple[dict[str, Any], Gate] | None:
    """Measure limits, offset and slope by feeding one hidden unit chosen numbers."""
    module, config = call.module, call.bench.config

    def unit(gate: Tensor, up: Tensor) -> Tensor:
        with call.bench.changed():
            for tensor in vars(layout).values():
                if isinstance(tensor, Tensor):
                    tensor.zero_()
            # Unit 0 of expert 0 gets its gate from feature 0 and its up from feature 1; nothing
            # else counts.
            assert layout.w3 is not None
            layout.w1[0, 0, 0] = layout.w3[0, 0, 1] = layout.w2[0, 0, 0] = 1
            x = torch.zeros(gate.numel(), call.bench.dim)
            x[:, 0], x[:, 1] = gate, up
            nought = torch.zeros(len(x), 1, dtype=torch.long)
            return call.ask(x, nought, torch.ones(len(x), 1))[:, 0].double()

    # At a gate of 1 the output is a line in up: its value at 0 is the offset, its ends are the
    # limits.
    one, far = torch.ones(1), 1e4
    at_zero = float(unit(one, 0 * one))
    slope = (float(unit(one, _SMALL * one)) - at_zero) / _SMALL
    if abs(slope) < 1e-6:
        return None
    offset = declared(module, at_zero / slope) if at_zero else 0.0
    highest = float(unit(one, far * one)) / slope - offset
    lowest = float(unit(one, -far * one)) / slope - offset
    up_limit = None if highest > 0.9 * far else declared(module, highest)
    # A clamp that is not symmetric is none that the shared layer has.
    if up_limit is not None and abs(lowest + highest) > 1e-3 * highest:
        return None

    def activation(gate: Tensor) -> Tensor:
        up = torch.full_like(gate, _SMALL)
        return (unit(gate, up) - unit(gate, 0 * up)) / _SMALL

    largest = float(activation(far * one))
    points = torch.tensor([_SMALL, -0.5, -1.0])
    alpha = _swish_slope(module, points, activation(points))
    if alpha is not None:

        def swish(gate: Tensor) -> Tensor:
            return gate * (gate * alpha).sigmoid()

        return _gate(module, "silu", swish, alpha, largest, up_limit, offset)
    grid = torch.linspace(-3, _SMALL, 50)
    values = activation(grid)
    for name, function, _ in activations([], config):
        try:
            is_it = is_close(function(grid).double(), values, 1e-4)
        except (RuntimeError, TypeError, AttributeError):
            continue
        if is_it:
            return _gate(module, name, function, None, largest, up_limit, offset)
    return None


def _swish_slope(module: nn.Module, points: Tensor, values: Tensor) -> float | None:
    """Return alpha of ``g * sigmoid(alpha * g)`` if the module holds such a number."""
    # `g * sigmoid(alpha * g)` over g is the sigmoid, whose inverse gives alpha at each point.
    shares = values.double() / points.double()
    if not bool(((shares > 0) & (shares < 1)).all()):
        return None
    alphas = (shares / (1 - shares)).log() / points.double()
    alpha = declared(module, float(alphas.median()))
    if float((alphas - alpha).abs().max()) > 1e-3 * abs(alpha):
        return None
    # A slope that is no attribute of the module is that of a named activation, such as SiLU's 1.
    return alpha if alpha in attributes(module, float) else None


def _gate(
    module: nn.Module,
    name: str,
    function: Callable[[Tensor], Tensor],
    alpha: float | None,
    largest: float,
    up_limit: float | None,
    offset: float,
) -> tuple[dict[str, Any], Gate]:
    limit = None
    if largest < 0.9 * float(function(torch.tensor(1e4))):
        # Bisection for what goes into the activation where its output stops to grow.
        low, high = 0.0, 1e4
        for _ in range(80):
            middle = (low + high) / 2
            value = float(function(torch.tensor(middle, dtype=torch.float64)))
            low, high = (middle, high) if value < largest else (low, middle)
        limit = declared(module, low)

    def gate(given: Tensor, up: Tensor) -> Tensor:
        if limit is not None:
            given = given.clamp(max=limit)
        if up_limit is not None:
            up = up.clamp(-up_limit, up_limit)
        return function(given) * (up + offset)

    args = {"activation": name, "gate_alpha": alpha, "gate_limit": limit}
    return args | {"up_limit": up_limit, "up_offset": offset}, gate

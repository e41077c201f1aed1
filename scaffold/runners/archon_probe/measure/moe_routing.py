"""Find which router chose these experts with these weights.

Shape letters: T tokens, E experts, K experts per token, D features.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archon_probe.measure.moe_run import Bench, Run, attributes, declared

# The orders of norms over chosen scores that are tried before numbers of the module.
NORM_ORDERS = (1.0, 2.0, 3.0, 4.0)


@dataclass
class Choice:
    """What tokens chose: experts [T, K] in ascending order, and their weights [T, K]."""

    experts: Tensor
    weights: Tensor

    @classmethod
    def of(cls, experts: Tensor, weights: Tensor) -> Choice:
        """Sort each token's experts."""
        experts, order = experts.sort(dim=-1)
        return cls(experts, weights.float().gather(-1, order))


@dataclass
class Routing:
    """A router that explains a choice.

    Args:
        args: Fields of MoEArgs.
        weight: Name of the projection's weight.
        bias: Name of its bias, or None.
        expert_bias: Name of the bias that takes part in the choice only, or None.
    """

    args: dict[str, Any]
    weight: str
    bias: str | None
    expert_bias: str | None


def find_routing(bench: Bench, run: Run, choice: Choice, skip: str) -> Routing | None:
    """Search the routers that MoEArgs can express.

    Args:
        bench: Holds the module.
        run: Where the choice was made.
        choice: To explain.
        skip: Prefix of the experts' parameters.
    """
    named = dict(t for t in bench.tensors() if not t[0].startswith(skip))
    top_k = choice.experts.shape[1]
    least = max(int(choice.experts.max()) + 1, top_k)  # rows of a router
    for name, weight in named.items():
        if weight.ndim != 2 or weight.shape[1] != bench.dim or weight.shape[0] < least:
            continue
        vectors = [n for n, v in named.items() if v.numel() == weight.shape[0] and n != name]
        options = [*vectors, None]
        pairs = [p for p in itertools.product(options, options) if p[0] != p[1] or p[0] is None]
        # The fullest assignment first: a bias that is left out may not change these choices.
        pairs.sort(key=lambda p: (p[0] is None) + (p[1] is None))
        for bias, expert_bias in pairs:
            for args in _candidates(run, weight.shape[0], top_k):
                found = Routing(dict(args), name, bias, expert_bias)
                if _explains(bench, run, choice, named, found):
                    return found
    return None


def _candidates(run: Run, width: int, top_k: int) -> Iterator[dict[str, Any]]:
    """Yield routers, those first that call functions of the shapes that were seen."""
    functions = [s for s in run.steps if s.name in ("softmax", "sigmoid")]
    sizes = [(s.name, s.inputs[0].shape[-1]) for s in functions if s.inputs[0].ndim == 2]
    # Of the chosen alone, or of all: a fact where the numbers agree.
    kinds = [(n, size == top_k) for n, size in sizes if top_k != width and size in (top_k, width)]
    # A single chosen score may also be the gate of a shared expert.
    kinds.sort(key=lambda kind: kind[1] and top_k == 1)
    kinds += [(f, a) for a in (False, True) for f in ("softmax", "sigmoid") if (f, a) not in kinds]
    for function, after in kinds:
        for groups in _groups(run, width):
            yield {"score_func": function, "score_after_topk": after, **groups}
    if top_k == 2:
        yield {"score_func": "sparsemixer", "score_after_topk": False}


def _groups(run: Run, width: int) -> Iterator[dict[str, Any]]:
    # A topk of two within each group shows that a group is worth its two best.
    has_pairs = any(s.name == "topk" and s.inputs[0].ndim == 3 and s.k == 2 for s in run.steps)
    for step in run.steps:
        groups = step.inputs[0].shape[-1]
        if step.name == "topk" and step.inputs[0].ndim == 2 and groups < width:
            if width % groups:
                continue
            for worth in ("top2", "max") if has_pairs else ("max", "top2"):
                if worth == "max" or width // groups > 1:
                    yield {
                        "num_expert_groups": groups,
                        "num_limited_groups": step.k,
                        "group_score_func": worth,
                    }
    yield {"num_expert_groups": None, "num_limited_groups": None, "group_score_func": "top2"}


def logits_of(bench: Bench, found: Routing, x: Tensor) -> Tensor:
    """Return the router's logits, [T, E]."""
    named = dict(bench.tensors())
    logits = x @ named[found.weight].detach().t()
    if found.bias is not None:
        logits = logits + named[found.bias].detach().flatten()
    cap = found.args.get("router_softcap")
    return torch.tanh(logits / cap) * cap if cap else logits


def _explains(
    bench: Bench, run: Run, choice: Choice, named: dict[str, Tensor], found: Routing
) -> bool:
    args = found.args
    args["router_softcap"] = _softcap(bench, run, found)
    logits = logits_of(bench, found, run.x)
    bias = None if found.expert_bias is None else named[found.expert_bias].detach().flatten()
    if args["score_func"] == "sparsemixer":
        return bias is None and _is_sparsemixer(bench, run, choice, found)
    experts, scores = choose(logits, args, bias, choice.experts.shape[1])
    experts, order = experts.sort(dim=-1)
    # First the choice, which is exact; then the weights, which are rounded.
    if not torch.equal(experts, choice.experts):
        return False
    return _find_norm(bench, found, choice, scores.gather(-1, order))


def _softcap(bench: Bench, run: Run, found: Routing) -> float:
    found.args.pop("router_softcap", None)
    logits = logits_of(bench, found, run.x)
    for step in run.steps:
        if step.name == "tanh" and step.inputs[0].shape == logits.shape:
            # `tanh(logits / cap)`: the quotient of logits and the tanh's input is the cap,
            # everywhere.
            ratio = logits / step.inputs[0]
            if float((ratio - ratio.median()).abs().max()) < 1e-3 * float(ratio.median().abs()):
                return declared(bench.module, float(ratio.median()))
    return 0.0


def choose(
    logits: Tensor, args: dict[str, Any], bias: Tensor | None, top_k: int
) -> tuple[Tensor, Tensor]:
    """Route by MoEArgs, without the norm: experts [T, K] and scores [T, K]."""
    scores = logits if args["score_after_topk"] else score(logits, args["score_func"])
    # The bias takes part in the choice and not in the weights.
    value = scores if bias is None else scores + bias
    groups = args.get("num_expert_groups")
    if groups is not None:
        parts = value.reshape(len(value), groups, -1)
        best = parts.amax(-1)
        if args["group_score_func"] == "top2":
            best = parts.topk(2, -1).values.sum(-1)
        closed = torch.ones_like(best, dtype=torch.bool)
        closed.scatter_(1, best.topk(args["num_limited_groups"], -1).indices, False)
        value = parts.masked_fill(closed.unsqueeze(-1), float("-inf")).reshape(value.shape)
    experts = value.topk(top_k, -1).indices
    scores = scores.gather(-1, experts)
    return experts, score(scores, args["score_func"]) if args["score_after_topk"] else scores


def score(logits: Tensor, function: str) -> Tensor:
    """Apply a score function over the last axis."""
    return logits.sigmoid() if function == "sigmoid" else logits.softmax(-1)


def _find_norm(bench: Bench, found: Routing, choice: Choice, scores: Tensor) -> bool:
    """Return whether a norm and a scale lead from scores to weights; record them if so."""
    for order, least in _norms(bench):
        norm = 1.0 if order is None else scores.norm(order, -1, keepdim=True).clamp(min=least)
        ratio = choice.weights / (scores / norm)
        scale, spread = float(ratio.median()), float(ratio.max() - ratio.min())
        # The ratio is the same for every token but for a few roundings of fp32.
        if spread < 2e-5 * abs(scale):
            found.args |= {
                "route_norm": order is not None,
                "route_norm_p": order or 1.0,
                "route_norm_min": least,
                "route_scale": declared(bench.module, scale, 1e-5),
            }
            return True
    return False


def _norms(bench: Bench) -> Iterator[tuple[float | None, float]]:
    """Yield orders of norms with the least value they may have."""
    yield None, 0.0
    yield from ((order, 0.0) for order in NORM_ORDERS)
    numbers = [v for v in attributes(bench.module, float) if v > 0]
    yield from ((number, 0.0) for number in numbers)
    yield from ((1.0, number) for number in numbers)


def _is_sparsemixer(bench: Bench, run: Run, choice: Choice, found: Routing) -> bool:
    """Return whether it is the sparse mixer; narrow its threshold by the logits that took part."""
    found.args["sparsemixer_eps"] = 0.0
    low, high = 0.0, float("inf")
    logits = logits_of(bench, found, run.x)
    open_logits = logits
    for _ in range(2):
        best, expert = open_logits.max(-1, keepdim=True)
        # Source: SparseMixer (arXiv:2409.12136): logits beyond 2 eps from the best take no part.
        distance = (best - logits) / logits.abs().clamp(min=best)
        position = (choice.experts == expert).float()
        if not bool((position.sum(-1) == 1).all()):
            return False
        weight = (choice.weights * position).sum(-1)
        order = distance.masked_fill(open_logits.isinf(), float("inf")).argsort(-1)
        powers = (open_logits - best).exp().gather(-1, order)
        shares = 1 / powers.cumsum(-1)
        near = (shares - weight.unsqueeze(-1)).abs().argmin(-1, keepdim=True)
        if float((shares.gather(-1, near)[:, 0] - weight).abs().max()) > 1e-5:
            return False
        ranked = distance.masked_fill(open_logits.isinf(), float("inf")).gather(-1, order)
        low = max(low, float(ranked.gather(-1, near).max()))
        after = (near + 1).clamp(max=ranked.shape[-1] - 1)
        beyond = ranked.gather(-1, after)[near < ranked.shape[-1] - 1]
        high = min(high, float(beyond.min()))
        open_logits = open_logits.scatter(-1, expert, float("-inf"))
    found.args |= {"sparsemixer_eps": _between(bench, low / 2, high / 2), "route_norm": False}
    found.args |= {"route_norm_p": 1.0, "route_norm_min": 0.0, "route_scale": 1.0}
    return True


def _between(bench: Bench, low: float, high: float) -> float:
    numbers = attributes(bench.module, float)
    return next((n for n in numbers if 0 < low <= n < high), max(low, 0.0))


@torch.no_grad()
def find_guards(bench: Bench, found: Routing, read: Any, top_k: int) -> None:
    """Measure what keeps the norm from being zero, on tokens whose chosen scores nearly vanish.

    Args:
        bench: Its router's weights are overwritten for the while.
        found: Gets ``route_norm_eps`` and ``route_norm_min``.
        read: Returns the choice of a run.
        top_k: Experts per token.
    """
    args = found.args
    args |= {"route_norm_eps": 0.0}
    # Where the norm is not a plain sum, or its scores cannot vanish, there is nothing to guard.
    if (
        not args["route_norm"]
        or args["route_norm_min"] > 1e-3
        or args["route_norm_p"] != 1.0
        or (args["score_after_topk"] and args["score_func"] == "softmax")
    ):
        return
    if all(
        v is None or v[1] > 0.99 for v in (_shrunk(bench, found, read, top_k, c) for c in (55, 30))
    ):
        return
    exact = {
        c: _shrunk(bench, found, read, top_k, c) for c in (5, 10, 15, 20, 25, 30, 35, 40, 46, 55)
    }
    partial = {c: v for c, v in exact.items() if v is not None and v[1] < 0.99}
    if not partial:
        return
    # Where the guard halves the weights it is as large as the sum, and so measured best.
    total, ratio = min(partial.values(), key=lambda v: abs(v[1] - 0.5))
    floor = declared(bench.module, total / ratio, 2e-2)
    near = [v for v in exact.values() if v is not None and v[1] > 1e-3]
    # Two readings of the same measurement: a least norm, or an epsilon that is added to it.
    as_min = max(abs(r - t / max(t, floor)) for t, r in near)
    eps = declared(bench.module, total / ratio - total, 2e-2)
    as_eps = max(abs(r - t / (t + eps)) for t, r in near)
    args |= {"route_norm_eps": eps} if as_eps <= as_min else {"route_norm_min": floor}


def _shrunk(
    bench: Bench, found: Routing, read: Any, top_k: int, c: float
) -> tuple[float, float] | None:
    """Return the sum of the chosen scores and of their weights where chosen logits are near -c."""
    named = dict(bench.tensors())
    weight = named[found.weight]
    direction = bench.tokens(1, seed=11)[0]
    with bench.changed():
        rows = torch.linspace(1.0, 1.02, weight.shape[0])
        is_softmax = found.args["score_func"] == "softmax"
        if is_softmax:
            if found.expert_bias is None:
                return None
            # Improbable experts win by their bias alone.
            few = max(weight.shape[0] // 2, top_k)
            chosen = torch.arange(weight.shape[0]) < few
            rows = torch.where(chosen, rows, 0.0)
            bias = named[found.expert_bias]
            bias.copy_(torch.where(chosen, 10.0, 0.0).reshape(bias.shape))
        weight.copy_(-c * rows[:, None] * direction / direction.square().sum())
        if found.bias is not None:
            named[found.bias].zero_()
        run = bench.run(direction.repeat(4, 1))
        choice = read(run)
        if choice is None:
            return None
        logits = logits_of(bench, found, run.x)
        scores = score(logits, found.args["score_func"]).gather(-1, choice.experts)
        total = float(scores.double().sum(-1).median())
        scale = found.args["route_scale"]
        return total, float(choice.weights.double().sum(-1).median()) / scale


def find_router_dtype(bench: Bench, found: Routing, half: Run | None) -> str | None:
    """Return the dtype of the projection in a bfloat16 run if it is not bfloat16."""
    shape = dict(bench.tensors())[found.weight].shape
    for step in half.steps if half is not None else ():
        if step.name in ("linear", "matmul", "mm") and step.output.shape[-1] == shape[0]:
            used = [t.dtype for t in step.inputs if t.shape in (shape, shape[::-1])]
            if used:
                return None if used[0] == torch.bfloat16 else str(used[0]).removeprefix("torch.")
    return None

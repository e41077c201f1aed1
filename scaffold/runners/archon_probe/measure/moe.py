"""Find which mixture of experts a module is.

Shape letters: T tokens, E experts, K experts per token, D features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import explain, is_close
from archon_probe.measure.hooks import Call
from archon_probe.measure.mlp import observe_mlp
from archon_probe.measure.moe_experts import ExpertCall, Experts, compute, find_experts
from archon_probe.measure.moe_memory import Place, place_of, remembered
from archon_probe.measure.moe_routing import (
    Choice,
    Routing,
    choose,
    find_guards,
    find_router_dtype,
    find_routing,
    logits_of,
)
from archon_probe.measure.moe_run import Bench, Run, declared
from archon_probe.measure.norm import observe_norm
from archon_probe.measure.roles import UnknownStructureError

# Enough for every one of a few experts to be chosen many times.
TOKENS = 256


@dataclass
class Routed:
    """The call that ran the routed experts.

    Args:
        call: Of the module that holds them.
        choice: Who went where, with which weight.
        is_input_scaled: Weights multiply what goes in.
        output: [T, D].
    """

    call: Call
    choice: Choice
    is_input_scaled: bool
    output: Tensor


def observe_moe(module: nn.Module, x: Tensor, config: Any = None) -> dict[str, Any]:
    """Find the options of MoEArgs under which Archon's layer computes what a module computes.

    Args:
        module: The layer, as transformers builds it.
        x: [1, T, D], any input of it.
        config: Of several names for one activation, the one it uses is reported.

    Returns:
        ``args`` (fields of MoEArgs, without those that do not matter here), ``hidden_dim``,
        ``tensors`` (by their names in Archon's layer); and ``unknown``, what could not be found:
        then the rest is not complete.
    """

    def look(read: set[str]) -> tuple[dict[str, Any], dict[str, Place]]:
        return _look(Bench(module, x.shape[-1], config, read))

    return remembered(module, config, look)


def _look(bench: Bench) -> tuple[dict[str, Any], dict[str, Place]]:
    bench.randomise()
    found: dict[str, Any] = {"args": {}, "tensors": {}, "unknown": []}
    try:
        _observe(bench, found)
    except UnknownStructureError as error:
        found["unknown"].append(error.what)
    sources = dict(bench.tensors())
    return found, {n: place_of(t, sources) for n, t in found.pop("tensors").items()}


def _observe(bench: Bench, found: dict[str, Any]) -> None:
    run = bench.run(bench.tokens(TOKENS))
    routed = read_routed(run)
    if routed is None:
        raise UnknownStructureError("", "no call that runs experts on tokens")
    routing = find_routing(bench, run, routed.choice, f"{routed.call.path}.")
    if routing is None:
        raise UnknownStructureError("", "no known router makes these choices with these weights")
    if routing.args["score_func"] == "sparsemixer":
        # Its threshold lies between logits of two tokens: many of them leave it little room.
        many = bench.run(bench.tokens(16384, seed=8))
        choice = _choice(many)
        routing = choice and find_routing(bench, many, choice, f"{routed.call.path}.")
        if routing is None:
            raise UnknownStructureError("", "its router changes with the number of tokens")
    find_guards(bench, routing, _choice, routed.choice.experts.shape[1])
    half = bench.run_in_bf16()
    routing.args["router_dtype"] = find_router_dtype(bench, routing, half)
    calls = [call for call in (half.calls if half else ()) if call.path == routed.call.path]
    given = [t for call in calls[:1] for t in call.inputs.values()]
    routing.args["weights_in_fp32"] = any(t.dtype == torch.float32 for t in given)
    experts = _experts(bench, routed)
    _write(bench, routed, routing, experts, found)
    _combine(bench, run, routed, found)
    _check(bench, run, routed, routing, experts, found)
    for name in _idle(found["args"]):
        del found["args"][name]


def _idle(args: dict[str, Any]) -> set[str]:
    """Return the options whose value changes nothing beside the others' values."""
    norm = {"route_norm_p", "route_norm_eps", "route_norm_min"}
    groups = {"num_limited_groups", "group_score_func"}
    shared = {"shared_expert_intermediate_size", "shared_activation", "shared_bias"}
    shared |= {"use_shared_expert_gate", "output_scale"}
    idle: set[str] = set()
    if not args["route_norm"]:
        idle |= norm
    routes = args["num_experts"] + args["num_zero_experts"]
    # The scores of the chosen experts add up to one already.
    if args["score_func"] == "softmax" and (args["score_after_topk"] or args["top_k"] == routes):
        idle |= norm | {"route_norm"}
    if args["score_func"] == "sparsemixer":
        idle |= norm | groups | {"route_norm", "num_expert_groups", "score_after_topk"}
    else:
        idle |= {"sparsemixer_eps"}
    if args["num_expert_groups"] is None:
        idle |= groups
    # All groups are taken, however they are scored.
    elif args["num_expert_groups"] == args["num_limited_groups"]:
        idle |= {"group_score_func"}
    if args["num_shared_experts"] == 0:
        idle |= shared
    if args["gate_alpha"] is not None:
        idle |= {"activation"}
    return idle & set(args)


def read_routed(run: Run) -> Routed | None:
    """Find the call that ran the experts: it got experts per token, or every token per expert."""
    for call in run.calls:
        indices = [t for t in call.inputs.values() if t.dtype == torch.int64 and t.ndim == 2]
        for index in indices:
            weights = [
                t
                for t in call.inputs.values()
                if t.is_floating_point() and t.shape == index.shape and t.numel() != run.x.numel()
            ]
            if weights and index.shape[0] == len(run.x) and call.y.numel() == run.x.numel():
                output = call.y.reshape(run.x.shape)
                return Routed(call, Choice.of(index, weights[0]), False, output)
    for call in run.calls:
        if any(p.ndim == 3 for p in call.module.parameters(recurse=False)):
            return _read_dense(call, run)
    return None


def _read_dense(call: Call, run: Run) -> Routed | None:
    """Read weights from what each expert got of each token.

    Raises:
        UnknownStructureError: They get something narrower than the stream.
    """
    width, dim = call.x.shape[-1], run.x.shape[-1]
    if width != dim:
        what = f"experts that work on {width} features where the stream has {dim}"
        raise UnknownStructureError(call.path, what)
    given = call.x.reshape(-1, *run.x.shape)
    factors = (given * run.x).sum(-1) / run.x.square().sum(-1)
    if not is_close(factors.unsqueeze(-1) * run.x, given):
        return None
    # An expert that was not chosen gets zeros.
    is_chosen = factors.t() != 0
    counts = is_chosen.sum(-1)
    if int(counts.min()) != int(counts.max()) or given.shape[0] == int(counts.max()):
        return None
    experts = is_chosen.nonzero()[:, 1].reshape(len(run.x), -1)
    choice = Choice.of(experts, factors.t().gather(-1, experts))
    return Routed(call, choice, True, call.y.reshape(given.shape).sum(0))


def _choice(run: Run) -> Choice | None:
    routed = read_routed(run)
    return None if routed is None else routed.choice


def _experts(bench: Bench, routed: Routed) -> Experts:
    module = dict(bench.module.named_modules())[routed.call.path]
    matrices = [p for p in module.parameters() if p.ndim == 3]
    if matrices:
        # A projection may hold rows for experts that compute nothing; both hold those that do.
        count = min(p.shape[0] for p in matrices)
    else:
        own = f"{routed.call.path}."
        routers = (t for n, t in bench.tensors() if not n.startswith(own) and t.ndim == 2)
        rows = (t.shape[0] for t in routers if t.shape[1] == bench.dim)
        count = next(n for n in rows if n > int(routed.choice.experts.max()))
    experts = find_experts(ExpertCall(bench, module, count, _asker(bench, routed)))
    if experts is None:
        raise UnknownStructureError("", "no known layout and activation give the experts' output")
    return experts


def _asker(bench: Bench, routed: Routed) -> Any:
    """Return a function that calls the experts with arguments in the places they were seen in."""
    inputs, module = routed.call.inputs, dict(bench.module.named_modules())[routed.call.path]

    def ask(x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        if routed.is_input_scaled:
            count = routed.call.x.numel() // routed.call.x.shape[-1] // TOKENS
            scores = torch.zeros(len(x), count).scatter_(1, experts, weights)
            given = (scores.t().unsqueeze(-1) * x).reshape(-1, x.shape[-1])
            return module(given).reshape(count, *x.shape).sum(0)
        # Some modules cannot take a single choice: the others get no weight.
        others = torch.arange(routed.choice.experts.shape[1])
        experts = (experts + others) % int(routed.choice.experts.max() + 1)
        weights = torch.where(others == 0, weights, 0.0)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, tensor in inputs.items():
            if tensor.dtype == torch.int64:
                value = experts
            elif tensor.numel() == TOKENS * bench.dim:
                value = x if tensor.ndim == 2 else x.unsqueeze(0)
            else:
                value = weights
            if name.isdigit():
                args.append(value)
            else:
                kwargs[name] = value
        return module(*args, **kwargs).reshape(x.shape)

    return ask


def _write(
    bench: Bench, routed: Routed, routing: Routing, experts: Experts, found: dict[str, Any]
) -> None:
    """Write what was found of the router and of the routed experts."""
    named, args, tensors = dict(bench.tensors()), found["args"], found["tensors"]
    weight, layout = named[routing.weight], experts.layout
    args |= routing.args | {
        "top_k": routed.choice.experts.shape[1],
        "router_bias": routing.bias is not None,
        "use_expert_bias": routing.expert_bias is not None,
        "score_before_experts": routed.is_input_scaled,
    }
    args.setdefault("sparsemixer_eps", 0.0)
    args.setdefault("num_expert_groups", None)
    args.setdefault("num_limited_groups", None)
    args.setdefault("group_score_func", "top2")
    # The router may choose experts that compute nothing, which no parameter has.
    count = layout.w1.shape[0]
    args |= experts.args | {"num_experts": count, "num_zero_experts": weight.shape[0] - count}
    tensors["router.gate.weight"] = weight
    if routing.bias is not None:
        tensors["router.gate.bias"] = named[routing.bias].flatten()
    if routing.expert_bias is not None:
        tensors["expert_bias"] = named[routing.expert_bias].flatten()
    found["hidden_dim"] = layout.w1.shape[1]
    for name in ("w1", "w2", "w3", "b1", "b2", "b3"):
        tensor = getattr(layout, name)
        if tensor is not None:
            tensors[f"experts.{name}"] = tensor


def _combine(bench: Bench, run: Run, routed: Routed, found: dict[str, Any]) -> None:
    """Find what is added to the routed experts."""
    args = found["args"]
    target = _find_post_norm(run, found)
    known = {"routed": routed.output}
    branches, gates = _branches(bench, run, routed)
    for call in branches:
        known[call.path] = call.y.reshape(run.x.shape)
        for gate in gates:
            # A gate of shared experts is one sigmoid for each token.
            known[f"{call.path} * {gate.path}"] = known[call.path] * gate.y.reshape(-1, 1).sigmoid()
    terms = dict(explain(target, known) or [])
    if "routed" not in terms or len(terms) > 2:
        raise UnknownStructureError("", f"its output is not a sum of {', '.join(known)}")
    scale = terms.pop("routed")
    args |= {
        "num_shared_experts": len(terms),
        "shared_expert_intermediate_size": 0,
        "shared_activation": None,
        "shared_bias": False,
        "use_shared_expert_gate": False,
        "output_scale": 1.0,
    }
    for name, factor in terms.items():
        args["output_scale"] = factor
        path, _, gate = name.partition(" * ")
        _write_shared(bench, run, next(c for c in branches if c.path == path), found)
        if gate:
            args["use_shared_expert_gate"] = True
            weight = dict(bench.tensors())[f"{gate}.weight"]
            found["tensors"]["shared_expert_gate.weight"] = weight
    scale = declared(bench.module, scale / args["output_scale"], 1e-5)
    args["route_scale"] = declared(bench.module, args["route_scale"] * scale, 1e-5)


def _find_post_norm(run: Run, found: dict[str, Any]) -> Tensor:
    """Return what the norm at the end gets, the output itself if there is none."""
    found["args"]["post_norm_eps"] = None
    for call in run.calls:
        if not call.outputs or call.y.numel() != run.y.numel():
            continue
        kind = observe_norm(call.module, call.x)
        if kind is None or not is_close(call.y.reshape(run.y.shape), run.y):
            continue
        if kind["kind"] != "rms" or kind["offset"] or not kind["weight"] or kind["bias"]:
            raise UnknownStructureError("", f"a norm at its end of an unknown kind: {kind}")
        found["args"]["post_norm_eps"] = kind["eps"]
        found["tensors"]["post_norm.weight"] = dict(call.module.named_parameters())["weight"]
        return call.x.reshape(run.x.shape)
    return run.y


def _branches(bench: Bench, run: Run, routed: Routed) -> tuple[list[Call], list[Call]]:
    """Return modules that map all tokens to outputs, and linear maps to one number per token."""
    branches: list[Call] = []
    gates: list[Call] = []
    for call in run.calls:
        if call.depth > 1 or call.path == routed.call.path or not call.outputs:
            continue
        weights = [p for p in call.module.parameters() if p.ndim == 2]
        if call.y.numel() == len(run.x) and len(weights) == 1:
            gates.append(call)
        elif call.y.numel() == run.x.numel() and len(weights) > 1 and call.y.is_floating_point():
            branches.append(call)
    return branches, gates


def _write_shared(bench: Bench, run: Run, call: Call, found: dict[str, Any]) -> None:
    prefix = f"{call.path}."
    inner = [c for c in run.calls if c.path == call.path or c.path.startswith(prefix)]
    seen = observe_mlp([call], inner, bench.config)
    features = seen.features
    is_gated = features["gated"]
    parts = ("w1", "w2", "w3") if is_gated else ("w1", "w2")
    biases = {features[f"{part}_bias"] for part in parts}
    is_scaled = {features["first_multiplier"], features["down_multiplier"]} != {1.0}
    is_other = is_gated != found["args"]["gated"] or is_scaled
    if is_other or features["inner_norm"]["when"] or len(biases) != 1:
        raise UnknownStructureError(call.path, f"shared experts of an unknown kind: {features}")
    found["args"] |= {
        "shared_expert_intermediate_size": features["hidden_dim"],
        "shared_activation": features["activation"],
        "shared_bias": biases.pop(),
    }
    for name, tensor in seen.tensors.items():
        found["tensors"][f"shared_experts.{name}"] = tensor


@torch.no_grad()
def _check(
    bench: Bench,
    run: Run,
    routed: Routed,
    routing: Routing,
    experts: Experts,
    found: dict[str, Any],
) -> None:
    """Compute the output from the findings alone, but for the shared experts."""
    args, x = found["args"], run.x
    logits = logits_of(bench, routing, x)
    chosen = routed.choice.experts
    if args["score_func"] != "sparsemixer":
        bias = found["tensors"].get("expert_bias")
        bias = None if bias is None else bias.detach()
        mine = choose(logits, args, bias, args["top_k"])[0].sort(-1).values
        if not torch.equal(mine, chosen):
            raise UnknownStructureError("", "its choice is not reproduced")
    weights = routed.choice.weights
    count = args["num_experts"]
    total = torch.zeros_like(x)
    for k in range(args["top_k"]):
        index, weight = chosen[:, k], weights[:, k : k + 1]
        given = x * weight if args["score_before_experts"] else x
        part = compute(experts.layout, experts.gate, given, index.clamp(max=count - 1))
        # Experts after the routed ones return what they get.
        part = torch.where((index < count).unsqueeze(-1), part, given)
        total += part if args["score_before_experts"] else part * weight
    difference = float((total - routed.output).norm() / routed.output.norm())
    if difference > 2e-5:  # fp32 through three products, summed over the experts of a token
        raise UnknownStructureError("", f"routed output is off by {difference:.2g}")

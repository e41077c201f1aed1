"""Find how an attention module turns its input into queries, keys, values, scores and an output.

Shape letters: T tokens, H query heads, K key-value heads, D size of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import (
    is_close,
    match_columns,
    match_partly_scaled,
    match_scaled,
    ratio,
    rounded,
)
from archon_probe.measure.gates import observe_gate
from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.norm import norm_giving, observe_norm
from archon_probe.measure.observation import Observed, keep, keep_linear, linear_weight
from archon_probe.measure.roles import UnknownStructureError
from archon_probe.measure.rotary import observe_rotation, observe_temperature
from archon_probe.measure.scores import MASKED, Products, observe_scores


def products_of(trace: Trace, path: str) -> Products:
    """Return the products of an attention module.

    Raises:
        UnknownStructureError: There are not two products around one softmax.
    """
    functions = trace.functions_under(path)
    # Over keys, of which there are as many as queries, or more with sinks.
    softmaxes = [
        i
        for i, f in enumerate(functions)
        if f.name == "softmax"
        and f.inputs[0].ndim >= 3
        and f.inputs[0].shape[-1] >= f.inputs[0].shape[-2] > 1
    ]
    if len(softmaxes) != 1:
        raise UnknownStructureError(path, f"{len(softmaxes)} softmaxes over keys where 1 is known")
    at = softmaxes[0]
    before = [f for f in functions[:at] if f.name != "softmax"]
    after = [f for f in functions[at + 1 :] if f.name != "softmax"]
    if not before or not after:
        raise UnknownStructureError(path, "no product before or after its softmax")
    length = trace.tokens.shape[1]
    # `baddbmm` takes what is added first, so operands are counted from the end.
    q, kt = before[-1].inputs[-2:]
    v = after[0].inputs[-1]
    scores = functions[at].inputs[0]
    q = _heads(q, length, path)
    return Products(
        q,
        _shared(_heads(kt.transpose(-1, -2), length, path), len(q)),
        _shared(_heads(v, length, path), len(q)),
        scores.reshape(-1, *scores.shape[-2:]),
        _heads(after[0].output, length, path),
    )


def _shared(x: Tensor, heads: int) -> Tensor:
    """Repeat keys or values that a product broadcasts over its query heads."""
    return x.repeat_interleave(heads // len(x), dim=0)


def _heads(x: Tensor, length: int, path: str) -> Tensor:
    if x.shape[-2] != length:
        raise UnknownStructureError(path, f"a product of shape {tuple(x.shape)}")
    return x.reshape(-1, *x.shape[-2:])


def observe_attention(
    trace: Trace, call: Call, config: Any, beside: Sequence[Call] = ()
) -> Observed:
    """Describe an attention module whose queries, keys and values are projected from its input.

    Args:
        trace: The run.
        call: Of the module.
        config: The model's configuration.
        beside: Of its output projection, where that is no part of the module.

    Raises:
        UnknownStructureError: Something of it cannot be explained.
    """
    products = products_of(trace, call.path)
    leaves = [c for c in trace.under(call.path) if not any(c.module.children())] + [*beside]
    x = call.x.reshape(-1, call.x.shape[-1])
    linears = [c for c in leaves if linear_weight(c.module) is not None]
    projections = [c for c in linears if is_close(c.x_rows, x)]
    observed = Observed({"kind_of_attention": "gqa"})
    norms = norms_under(trace, call)
    parts = {
        role: find_side(role, values, projections, norms, call.path)
        for role, values in (("q", products.q), ("k", products.k), ("v", products.v))
    }
    limits = [side.clip for side in parts.values() if side.clip is not None]
    limit = limits[-1] if limits else None
    head_dim, v_head_dim = products.q.shape[-1], products.v.shape[-1]
    n_heads = products.q.shape[0]
    kv_rows = list(dict.fromkeys(parts["k"].columns))
    n_kv_heads = len(kv_rows) // head_dim
    features = observed.features
    features |= {
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "head_dim": head_dim,
        "v_head_dim": v_head_dim,
        "clip_qkv": {"when": limit is not None, "limit": limit},
    }
    if limit is not None:
        features["clip_qkv"]["after_norm"] = any(side.is_clipped_late for side in parts.values())
    for role in ("q", "k", "v"):
        side = parts[role]
        # Keys and values that several query heads share have each row of the weight once.
        rows = list(dict.fromkeys(side.columns)) if role != "q" else side.columns
        has_bias = keep_linear(observed.tensors, f"w{role}", side.source.module, rows)
        features |= {f"{role}_bias": has_bias, f"{role}_norm": side.norm_feature()}
        if side.norm is not None:
            keep(observed.tensors, f"{role}_norm", side.norm.module)
    # Grouped queries: each head of keys, `groups` times in a row.
    groups = n_heads // max(n_kv_heads, 1)
    if parts["k"].columns != [
        c
        for g in range(n_kv_heads)
        for _ in range(groups)
        for c in kv_rows[g * head_dim :][:head_dim]
    ]:
        raise UnknownStructureError(call.path, "keys are not shared by consecutive query heads")
    rotation = _rotation_of(parts["q"], parts["k"])
    if rotation is None:
        raise UnknownStructureError(
            call.path, "queries are neither rotated nor left as projected and normed"
        )
    if not rotation["when"]:
        # Where nothing rotates, the order of norm and rotation cannot be seen.
        for role in ("q_norm", "k_norm"):
            features[role].pop("after_rope", None)
    features["temperature"] = observe_temperature(rotation.pop("temperature"), config)
    features["rope"] = rotation
    features |= observe_scores(products, config)
    # What multiplies projected queries or keys is part of the scale in Archon's attention.
    features["scale"] *= parts["q"].factor * parts["k"].factor
    _output(trace, call, products, linears, observed, config)
    features["value_scale"] *= parts["v"].factor
    if features["sinks"]["when"] and "sinks" not in observed.tensors:
        own = dict(call.module.named_parameters(recurse=False))
        sinks = [t for t in own.values() if t.ndim == 1 and len(t) == n_heads]
        if len(sinks) != 1:
            raise UnknownStructureError(
                call.path, "an extra score per head that is not a parameter"
            )
        observed.tensors["sinks"] = sinks[0].detach()
    return observed


# --- where queries, keys and values come from


def _rotation_of(q: Side, k: Side) -> dict[str, Any] | None:
    """Describe the rotation; a common factor is the rotation's own, another is the scale's."""
    found = observe_rotation((q.before_rope, q.rotated), (k.before_rope, k.rotated))
    growth = found["temperature"] if found is not None else []
    # A factor that is the same for every position is no temperature: it belongs to the scale.
    is_growing = bool(growth) and max(growth) > 1.00001 * min(growth)
    if found is not None and (is_growing or (found["when"] and not growth)):
        q.factor = k.factor = 1.0
        return found
    pairs = [(side.before_rope, side.rotated / side.factor) for side in (q, k)]
    return observe_rotation(pairs[0], pairs[1])


@dataclass
class Side:
    """The origin of queries, keys or values.

    Args:
        source: The projection.
        columns: Of the projection's output, for each head and dimension.
        before_rope: [H, T, D], what is rotated.
        rotated: [H, T, D], what comes out of that.
        norm: The call of its norm, None without one.
        norm_kind: What ``observe_norm`` returns for it.
        over: "head" or "projection", what one norm is taken over.
        after_rope: Whether the norm follows the rotation.
        clip: Bound of the absolute value, None without one.
        factor: On the projection's numbers, part of the scale.
        is_clipped_late: Whether the bound is that of the norm's output.
    """

    source: Call
    columns: list[int]
    before_rope: Tensor
    rotated: Tensor
    norm: Call | None = None
    norm_kind: dict[str, Any] | None = None
    over: str = ""
    after_rope: bool = False
    clip: float | None = None
    factor: float = 1.0
    is_clipped_late: bool = False

    def norm_feature(self) -> dict[str, Any]:
        """Return the norm as a feature."""
        if self.norm_kind is None:
            return {"when": False}
        found = {"when": True, **self.norm_kind, "over": self.over, "after_rope": self.after_rope}
        if len(set(self.columns)) == self.before_rope.shape[-1]:
            # One head is the whole projection, which leaves open what several would share.
            del found["over"]
        return found


def norms_under(trace: Trace, call: Call) -> list[tuple[Call, dict[str, Any]]]:
    """Return the calls of norms inside a module, with what they are."""
    found: list[tuple[Call, dict[str, Any]]] = []
    for inner in trace.under(call.path):
        if not inner.inputs or linear_weight(inner.module) is not None:
            continue
        whole = _joined_norms(inner)
        kind = observe_norm(whole.module, whole.x)
        if kind is not None:
            found.append((whole, kind))
    lists = [f"{each.path}." for each, _ in found if isinstance(each.module, _HeadNorms)]
    return [(each, kind) for each, kind in found if not each.path.startswith(tuple(lists))]


def _joined_norms(call: Call) -> Call:
    """Return the call of a list of norms, one for each head, as that of one norm; or as it is."""
    lists = [each for each in call.module.children() if isinstance(each, nn.ModuleList)]
    norms = [*lists[0]] if len(lists) == 1 else []
    if not norms or call.x.ndim != 4 or call.x.shape[1] != len(norms):
        return call
    joined = _HeadNorms(norms)
    x = call.x.transpose(1, 2)
    if not is_close(joined(x).transpose(1, 2), call.y):
        return call
    return replace(call, module=joined, inputs={"x": x}, outputs=[call.y.transpose(1, 2)])


class _HeadNorms(nn.Module):
    """Norms of heads in one module, with the parameters of each in a row: [1, T, H, D]."""

    def __init__(self, norms: list[nn.Module]) -> None:
        super().__init__()
        object.__setattr__(self, "norms", norms)  # no modules inside: this is one norm
        self.eps = next((v for v in vars(norms[0]).values() if isinstance(v, float)), 0.0)
        for name, first in norms[0].named_parameters():
            rows = [dict(each.named_parameters()).get(name, first) for each in norms]
            self.register_parameter(name, nn.Parameter(torch.stack([r.detach() for r in rows])))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([norm(x[:, :, i]) for i, norm in enumerate(self.norms)], 2)


def find_side(
    role: str,
    values: Tensor,
    projections: list[Call],
    norms: list[tuple[Call, dict[str, Any]]],
    path: str,
) -> Side:
    """Trace queries, keys or values back to the projection they come from.

    The first token is not rotated, so there they are the projection's own numbers.

    Args:
        role: "q", "k" or "v".
        values: [H, T, D], as multiplied.
        projections: Linear maps of the module's input.
        norms: Norms inside the module with what they are.
        path: Of the module.

    Raises:
        UnknownStructureError: They are no projection's numbers, normed or clipped or not.
    """
    length = values.shape[1]
    groups = _repeats(values)
    # Searched once for a group: matching is quadratic in the numbers of a token.
    if groups > 1:
        side = find_side(role, values[::groups], projections, norms, path)
        size = values.shape[-1]
        heads = [side.columns[i : i + size] for i in range(0, len(side.columns), size)]
        side.columns = [c for head in heads for _ in range(groups) for c in head]
        side.before_rope = side.before_rope.repeat_interleave(groups, dim=0)
        side.rotated = side.rotated.repeat_interleave(groups, dim=0)
        return side
    sources = {str(i): c.y_rows[0] for i, c in enumerate(projections)}
    wanted = values[:, 0].flatten()
    scaled = match_one_source(wanted, sources)
    if scaled is not None:
        return _side(values, projections, scaled[1], factor=scaled[0])
    bounded = _clipped(wanted, sources)
    if bounded is not None:
        return _side(values, projections, bounded[1], clip=bounded[0])
    for inner, kind in norms:
        # Not at first hand: the way leads from the values through a norm to a projection.
        produced = _token_major(inner.y, length)
        if produced is None:
            continue
        row = {"y": produced[0].flatten()}
        matched = match_scaled(wanted, row) or match_partly_scaled(wanted, row)
        # The norm's output may be clamped, which leaves no number beyond the bound as it was.
        late = _clipped(wanted, row) if matched is None else None
        if matched is None and late is None:
            continue
        factor, matches = matched or (1.0, late[1])
        through = [i for _, i in matches]
        taken = _token_major(inner.x, length)
        assert taken is not None
        after_rope = is_close(_pick(produced, through, values), values)
        inputs = taken[0][torch.tensor(through)]
        limit = None
        scaled = match_scaled(inputs, sources) if after_rope else None
        columns = scaled[1] if scaled is not None else match_columns(inputs, sources)
        # Numbers at the bound of a clamp equal no projected ones.
        if columns is None:
            bounded = _clipped(inputs, sources)
            if bounded is None:
                continue
            limit, columns = bounded
        over = "projection" if kind["dim"] > values.shape[-1] else "head"
        side = _side(values, projections, columns, limit, factor)
        side.norm, side.norm_kind, side.over, side.after_rope = inner, kind, over, after_rope
        if after_rope:
            # The projection is rotated, and the norm's input is rotated already.
            side.rotated = _pick(taken, through, values)
        else:
            side.before_rope = _pick(produced, through, values)
        if late is not None:
            side.clip, side.is_clipped_late = late[0], True
            side.before_rope = side.before_rope.clamp(-side.clip, side.clip)
        return side
    raise UnknownStructureError(path, f"its {role} is not a projection of its input, normed or not")


def match_one_source(
    wanted: Tensor, sources: dict[str, Tensor]
) -> tuple[float, list[tuple[str, int]]] | None:
    """Match numbers, scaled or not, with those of one source if that goes.

    Among many numbers one may be next to another source's by chance.
    """
    matched = match_scaled(wanted, sources) or match_partly_scaled(wanted, sources)
    if matched is None or len({name for name, _ in matched[1]}) == 1:
        return matched
    alone = ({name: row} for name, row in sources.items())
    each = (match_scaled(wanted, row) or match_partly_scaled(wanted, row) for row in alone)
    return next(filter(None, each), matched)


def _repeats(values: Tensor) -> int:
    """Return how many consecutive heads are the same."""
    heads = len(values)
    # Bit for bit: repeated heads are copies, and others differ somewhere.
    for groups in range(heads, 1, -1):
        if heads % groups == 0:
            first = values[::groups].repeat_interleave(groups, dim=0)
            if bool((first == values).all()):
                return groups
    return 1


def _token_major(x: Tensor, length: int) -> Tensor | None:
    """Return [T, rest] of a tensor [1, T, ...] or [1, H, T, D]; None if it has no such axis."""
    if x.ndim >= 2 and x.shape[0] == 1:
        x = x[0]
    if x.shape[0] == length:
        return x.reshape(length, -1)
    if x.ndim == 3 and x.shape[1] == length:
        return x.transpose(0, 1).reshape(length, -1)
    return None


def _clipped(
    wanted: Tensor, sources: dict[str, Tensor]
) -> tuple[float, list[tuple[str, int]]] | None:
    """Match numbers that were clamped; among several at one bound, neighbours decide."""
    limit = float(wanted.abs().max())
    for name, row in sources.items():
        clamped = row.clamp(-limit, limit)
        # Clamped numbers are equal to each other, so a whole run of neighbours is compared.
        for start in range(len(row) - len(wanted) + 1):
            if is_close(clamped[start : start + len(wanted)], wanted, 1e-5):
                return rounded(limit), [(name, start + i) for i in range(len(wanted))]
    return None


def _pick(flat: Tensor, columns: list[int], like: Tensor) -> Tensor:
    """Return columns of [T, N] as [H, T, D]."""
    heads, _, size = like.shape
    return flat[:, torch.tensor(columns)].view(-1, heads, size).transpose(0, 1)


def _side(
    values: Tensor,
    projections: list[Call],
    matches: list[tuple[str, int]],
    clip: float | None = None,
    factor: float = 1.0,
) -> Side:
    owners = {name for name, _ in matches}
    if len(owners) != 1:
        raise UnknownStructureError("", "queries, keys or values come from several projections")
    source = projections[int(owners.pop())]
    columns = [i for _, i in matches]
    flat = source.y_rows
    if clip is not None:
        flat = flat.clamp(-clip, clip)
    before_rope = _pick(flat, columns, values)
    return Side(source, columns, before_rope, values, clip=clip, factor=factor)


# --- from probabilities times values to the module's output


def _output(
    trace: Trace,
    call: Call,
    products: Products,
    linears: list[Call],
    observed: Observed,
    config: Any,
) -> None:
    """Find the output projection, and what happens before it."""
    result = call.y_rows
    out, extra_bias = _last_map(call, linears, result)
    merged = products.output.transpose(0, 1).reshape(products.output.shape[1], -1)
    has_bias = keep_linear(observed.tensors, "wo", out.module)
    if extra_bias is not None and not has_bias:
        observed.tensors["wo.bias"], has_bias = extra_bias, True
    features = observed.features
    features |= {"o_bias": has_bias, "out_norm": {"when": False}, "gate": {"when": False}}
    features["value_scale"] = 1.0
    given = out.x_rows
    if is_close(given, merged):
        return
    if given.shape != merged.shape:
        what = f"its output projection gets {given.shape[-1]} features, of which its heads "
        raise UnknownStructureError(call.path, f"{what}give {merged.shape[-1]}")
    norm = norm_giving(trace.under(call.path), given)
    if norm is not None and is_close(norm[0].x_rows, merged):
        features["out_norm"] = norm[1]
        keep(observed.tensors, "out_norm", norm[0].module)
        return
    # It fits exactly or the result is gated.
    if (factor := ratio(given, merged)) is not None:
        features["value_scale"] = factor
        return
    sinks = _sinks_as_factor(call, products, given)
    if sinks is not None:
        features["sinks"] = {"when": True}
        observed.tensors["sinks"] = sinks
        return
    gate = observe_gate(call, products.output, given, linears)
    if gate is None:
        raise UnknownStructureError(
            call.path, "the input of its output projection is not its result, gated or not"
        )
    features["gate"], tensors = gate
    observed.tensors |= tensors


def _last_map(call: Call, linears: list[Call], result: Tensor) -> tuple[Call, Tensor | None]:
    """Return the linear map whose output is the module's, and a bias that is added to it."""
    # From the last on: an earlier map may have the same output where nothing follows it.
    for linear in reversed(linears):
        if is_close(linear.y_rows, result):
            return linear, None
    own = [p.detach() for p in call.module.parameters(recurse=False) if p.ndim == 1]
    for linear in reversed(linears):
        for bias in own:
            if bias.shape == result.shape[1:] and is_close(linear.y_rows + bias, result):
                return linear, bias
    raise UnknownStructureError(call.path, "its output is not that of an output projection")


def _sinks_as_factor(call: Call, products: Products, given: Tensor) -> Tensor | None:
    """Find sinks that scale the result by 1 - the share of the softmax they would take."""
    heads, length, _ = products.output.shape
    merged = products.output.transpose(0, 1)
    # [T, H, D], and one factor for each token and head in least squares.
    shaped = given.reshape(length, heads, -1)
    factor = ((shaped * merged).sum(-1) / merged.square().sum(-1)).double()
    if not is_close(merged * factor[..., None], shaped):
        return None
    scores = products.scores[..., :length].double()
    total = torch.logsumexp(torch.where(scores > MASKED, scores, -torch.inf), dim=-1).t()
    for parameter in call.module.parameters(recurse=False):
        row = parameter.detach().flatten()
        if row.shape == (heads,) and is_close(torch.sigmoid(total - row.double()), factor):
            return row
    return None

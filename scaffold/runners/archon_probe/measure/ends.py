"""Find what comes before the first layer and after the last."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import explain, is_close, rounded
from archon_probe.measure.attention import linear_bias, linear_weight
from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.mlp import activations
from archon_probe.measure.norm import observe_norm
from archon_probe.measure.observation import Observation
from archon_probe.measure.roles import Skeleton, UnknownStructureError
from archon_probe.measure.scores import config_numbers
from archon_probe.measure.tasks import call as run


def observe_embedding(
    model: Any, trace: Trace, skeleton: Skeleton, observation: Observation
) -> None:
    """Describe token embedding, its multiplier, norm and positions.

    Raises:
        UnknownStructureError: The first layer's input is none of what is known.
    """
    embedding = model.get_input_embeddings()
    embedded = _rows(trace.of(skeleton.embed)[0].y)
    length = embedded.shape[0]
    # Explained backwards from what the first layer gets: a model may do anything before it.
    target = _rows(trace.of(skeleton.layers[0])[0].x)
    _check_stream(trace.of(skeleton.layers[0])[0].x, trace.tokens.shape[1])
    plain = embedding.weight.detach()[trace.tokens[0]]
    observation.tensors["tok_embeddings.weight"] = embedding.weight.detach()
    observation.paths["tok_embeddings"] = skeleton.embed
    features: dict[str, Any] = {
        "multiplier": 1.0,
        "norm": {"when": False},
        "positions": {"when": False},
        "padding_idx": embedding.padding_idx,
        "vocab_size": embedding.weight.shape[0],
        "dim": target.shape[1],
    }
    observation.embedding = features
    before = [c for c in trace.calls if c.order < trace.of(skeleton.layers[0])[0].order]
    before = [c for c in before if not c.path.startswith(f"{skeleton.layers[0]}.")]
    target = _before_projection(before, target, observation)
    for call in before:
        kind = observe_norm(call.module, call.x) if call.inputs else None
        if kind is not None and is_close(_rows(call.y), target):
            features["norm"] = {"when": True, **kind}
            for n, p in call.module.named_parameters():
                observation.tensors[f"embedding_norm.{n}"] = p.detach()
            observation.paths["embedding_norm"] = call.path
            target = _rows(call.x)
            break
    known = {"tokens": plain}
    tables: dict[str, Call] = {}
    for call in before:
        # What holds the embedding returns a sum, and is no table of its own.
        is_around = call.path == skeleton.embed or skeleton.embed.startswith(f"{call.path}.")
        if is_around or not call.outputs:
            continue
        y = call.y.reshape(-1, call.y.shape[-1])
        # Dropout passes on what somebody else made.
        passes_on = call.inputs and is_close(
            y, call.x.reshape(y.shape[0], -1)[:, : y.shape[1]], 0.0
        )
        if y.shape == plain.shape and not is_close(y, plain) and not passes_on:
            known[call.path] = y
            tables[call.path] = call
    # Tokens alone first: a table next to them could take part by chance.
    terms = explain(target, {"tokens": plain})
    if terms is None:
        terms = explain(target, known)
    if terms is None:
        _fixed_positions(target, plain, features)
        return
    features["multiplier"] = dict(terms).get("tokens", 0.0)
    others = [t for t in terms if t[0] != "tokens"]
    mapped = next((n for n, _ in others if linear_weight(tables[n].module) is not None), None)
    if mapped is not None:
        wide = tables[mapped].x.shape[-1]
        what = f"a linear map of {wide} features where a token's embedding has {plain.shape[1]}"
        raise UnknownStructureError(mapped, what)
    kinds = [name for name, _ in others if _is_one_row(tables[name])]
    if len(kinds) == 1:
        _token_types(tables[kinds[0]], features, observation)
        others = [t for t in others if t[0] not in kinds or t[1] != 1.0]
    if not others:
        return
    if len(others) > 1 or others[0][1] != 1.0:
        raise UnknownStructureError("embedding", f"the sum {terms}")
    call = tables[others[0][0]]
    _positions(call, length, features, observation)
    if features["positions"]["kind"] == "learned" and _counts_text(model, trace, call):
        features["positions"] = {
            "when": True,
            "kind": "beside_padding",
            "rows": call.module.weight.shape[0],
        }


def _check_stream(x: Tensor, length: int) -> None:
    """Check that layers get one vector for each token of the text.

    Raises:
        UnknownStructureError: They get several, or tokens that the text does not have.
    """
    rows = x.numel() // x.shape[-1]
    if rows == length:
        return
    what = f"its layers get {rows} tokens where the text has {length}"
    if x.shape[-2] == length:
        what = f"its layers pass on {rows // length} vectors of each token, not one"
    raise UnknownStructureError("embedding", what)


def _before_projection(before: list[Call], target: Tensor, observation: Observation) -> Tensor:
    """Describe a linear map from narrower embeddings to the stream; return what it maps."""
    for call in before:
        if isinstance(call.module, nn.Linear) and is_close(_rows(call.y), target):
            bias = linear_bias(call.module) is not None
            observation.embedding["projection"] = {"when": True, "bias": bias}
            for name, parameter in call.module.named_parameters():
                observation.tensors[f"embedding_proj.{name}"] = parameter.detach()
            observation.paths["embedding_proj"] = call.path
            target = _rows(call.x)
            break
    observation.embedding["tokens_dim"] = target.shape[1]
    return target


def _counts_text(model: Any, trace: Trace, call: Call) -> bool:
    """Return whether positions count tokens that are no padding, from the row after its own.

    Raises:
        UnknownStructureError: Padding changes them in another way.
    """
    padding = getattr(call.module, "padding_idx", None)
    if padding is None:
        return False
    tokens = trace.tokens.clone()
    tokens[0, ::3] = padding
    rows: list[Tensor] = []
    handle = call.module.register_forward_hook(lambda _, args, out: rows.append(args[0]))
    try:
        run(model, tokens)
    finally:
        handle.remove()
    found = rows[0].flatten()
    is_text = (tokens[0] != padding).long()
    if torch.equal(found, is_text.cumsum(0) * is_text + padding):
        return True
    if bool((found.diff() == 1).all()):
        return False
    raise UnknownStructureError(call.path, "positions that depend on padding")


def _is_one_row(call: Call) -> bool:
    """Return whether a table gives every token its first row, as that of the types of tokens."""
    y, weight = _rows(call.y), getattr(call.module, "weight", None)
    return isinstance(weight, nn.Parameter) and is_close(y, weight[:1].expand_as(y), 0.0)


def _token_types(call: Call, features: dict[str, Any], observation: Observation) -> None:
    """Describe what is added for the type of a token, which is 0 where a caller gives none."""
    weight = call.module.weight
    features["token_types"] = {"when": True, "rows": len(weight)}
    observation.tensors["type_embeddings.weight"] = weight.detach()
    observation.paths["type_embeddings"] = call.path


def _positions(call: Call, length: int, features: dict[str, Any], observation: Observation) -> None:
    """Describe a table of positions, learned or fixed."""
    y = call.y.reshape(-1, call.y.shape[-1])
    weight = getattr(call.module, "weight", getattr(call.module, "weights", None))
    if not isinstance(weight, Tensor):
        raise UnknownStructureError(call.path, "positions that are not a table")
    # Some tables begin with rows that no position uses, as OPT's do.
    offset = next(
        (o for o in range(len(weight) - length + 1) if is_close(weight[o : o + length], y)), None
    )
    if offset is None:
        raise UnknownStructureError(call.path, "positions that are not consecutive rows of a table")
    if not isinstance(weight, nn.Parameter):
        form = _sinusoid_form(y, offset)
        if form is None:
            raise UnknownStructureError(call.path, "a fixed table that is not sinusoidal")
        features["positions"] = {"when": True, "kind": "sinusoidal", "offset": offset, **form}
        return
    features["positions"] = {
        "when": True,
        "kind": "learned",
        "offset": offset,
        "rows": len(weight),
    }
    observation.tensors["pos_embeddings.weight"] = weight.detach()
    observation.paths["pos_embeddings"] = call.path


def _sinusoid_form(table: Tensor, offset: int) -> dict[str, Any] | None:
    """Return the layout of sines and cosines in a table that begins at a position."""
    for layout in ("concatenated", "interleaved"):
        for reaches_base in (False, True):
            made = _sinusoids(offset + len(table), table.shape[1], layout, reaches_base)
            # Sines in fp32 of angles up to the number of positions.
            if is_close(made[offset:], table, 1e-4):
                return {"layout": layout, "reaches_base": reaches_base}
    return None


def _fixed_positions(target: Tensor, plain: Tensor, features: dict[str, Any]) -> None:
    """Accept sinusoids that a model adds without a module."""
    length, dim = plain.shape
    for layout in ("concatenated", "interleaved"):
        for reaches_base in (False, True):
            table = _sinusoids(length, dim, layout, reaches_base)
            terms = explain(target, {"tokens": plain, "positions": table})
            if terms is None or dict(terms).get("positions") != 1.0:
                continue
            features["multiplier"] = dict(terms).get("tokens", 0.0)
            form = {"layout": layout, "reaches_base": reaches_base}
            features["positions"] = {"when": True, "kind": "sinusoidal", "offset": 0, **form}
            return
    raise UnknownStructureError(
        "embedding", "the input of the first layer is not a sum of embeddings"
    )


def _sinusoids(length: int, dim: int, layout: str, reaches_base: bool) -> Tensor:
    """Return sines and cosines of position over wavelengths up to 10000, [length, dim].

    Args:
        reaches_base: The slowest rate is 1 / 10000 itself, and not one step before it.
    """
    steps = torch.arange(dim // 2, dtype=torch.float64)
    rates = 10000 ** (-steps / (dim // 2 - 1 if reaches_base else dim / 2))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    if layout == "concatenated":
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).float()


def observe_head(model: Any, trace: Trace, skeleton: Skeleton, observation: Observation) -> None:
    """Describe final norm, output projection, and what happens to its logits.

    Raises:
        UnknownStructureError: The logits are not capped or scaled outputs of the projection.
    """
    last = trace.of(skeleton.layers[-1])[0]
    head = trace.of(skeleton.head)[-1]
    given, final = _rows(head.x), _rows(last.y)
    features: dict[str, Any] = {"norm": {"when": False}, "input_multiplier": 1.0}
    observation.head = features
    scale = _ratio(given, final)
    if scale is None:
        for call in trace.calls:
            if call.order < last.order or not call.inputs or call.order > head.order:
                continue
            kind = observe_norm(call.module, call.x)
            if kind is None or not is_close(_rows(call.x), final):
                continue
            scale = _ratio(given, _rows(call.y))
            if scale is not None:
                features["norm"] = {"when": True, **kind}
                for n, p in call.module.named_parameters():
                    observation.tensors[f"norm.{n}"] = p.detach()
                observation.paths["norm"] = call.path
                break
    features["transform"] = {"when": False}
    if scale is None:
        scale = _transformed(trace, last, head, observation)
    weight, bias = linear_weight(head.module), linear_bias(head.module)
    assert weight is not None
    embedding = model.get_input_embeddings().weight
    # Equal values prove nothing: only shared memory stays equal in training.
    features["tied"] = head.module.weight.data_ptr() == embedding.data_ptr()
    features["bias"] = bias is not None
    observation.paths["output"] = skeleton.head
    observation.tensors["output.weight"] = weight
    if bias is not None:
        observation.tensors["output.bias"] = bias
    features |= _logits(_rows(head.y), trace.of("")[-1].outputs[0][0], model.config)
    features["multiplier"] *= scale


def _transformed(trace: Trace, last: Call, head: Call, observation: Observation) -> float:
    """Describe a linear map, an activation and a norm between the final norm and the projection.

    Raises:
        UnknownStructureError: It is something else.
    """
    after = [c for c in trace.calls if last.order < c.order < head.order and c.inputs]
    norms = [(c, k) for c in after if (k := observe_norm(c.module, c.x)) is not None]
    # The chain is last layer, norm, dense map, activation, norm, projection.
    final = next((n for n in norms if is_close(_rows(n[0].x), _rows(last.y))), None)
    closing = next((n for n in norms if is_close(_rows(n[0].y), _rows(head.x))), None)
    maps = [c for c in after if linear_weight(c.module) is not None]
    dense = next((c for c in maps if final and is_close(_rows(c.x), _rows(final[0].y))), None)
    if final is None or closing is None or dense is None:
        raise UnknownStructureError(head.path, "its input is not a norm of the last layer's output")
    features, config = observation.head, trace_config(trace)
    features["norm"] = {"when": True, **final[1]}
    bias, weight = linear_bias(dense.module), linear_weight(dense.module)
    assert weight is not None
    for name, function, _ in activations([], config):
        if is_close(function(_rows(dense.y)), _rows(closing[0].x)):
            transform = {"when": True, "activation": name, "bias": bias is not None}
            features["transform"] = {**transform, "norm": {"when": True, **closing[1]}}
            break
    else:
        raise UnknownStructureError(dense.path, "an unknown activation")
    observation.tensors["head_dense.weight"] = weight
    if bias is not None:
        observation.tensors["head_dense.bias"] = bias
    for name, call in (("norm", final[0]), ("head_norm", closing[0])):
        for n, p in call.module.named_parameters():
            observation.tensors[f"{name}.{n}"] = p.detach()
        observation.paths[name] = call.path
    observation.paths["head_dense"] = dense.path
    return 1.0


def trace_config(trace: Trace) -> Any:
    """Return the configuration of the model that was run."""
    return trace.of("")[-1].module.config


def _ratio(given: Tensor, source: Tensor) -> float | None:
    if given.shape != source.shape:
        return None
    factor = (given * source).sum() / source.square().sum()
    return rounded(float(factor)) if is_close(given, source * factor) else None


def _logits(produced: Tensor, logits: Tensor, config: Any) -> dict[str, Any]:
    factor = _ratio(logits, produced)
    if factor is not None:
        return {"multiplier": factor, "softcap": None}
    # Caps of the configuration, and those that models have as constants of their code.
    numbers = {*config_numbers(config), 15.0, 20.0, 30.0, 50.0}
    # The smallest cap that explains the logits.
    for cap in sorted(numbers):
        # No capped logit exceeds its cap, and atanh beyond it is NaN.
        if cap < float(logits.abs().max()):
            continue
        # The inverse of the cap; its argument stays inside of what rounding makes of 1.
        inner = cap * torch.atanh((logits.double() / cap).clamp(-1 + 1e-12, 1 - 1e-12))
        factor = _ratio(inner, produced.double())
        if factor is not None:
            return {"multiplier": factor, "softcap": cap}
    raise UnknownStructureError("output", "the logits are not scaled or capped outputs of it")


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])

"""Find what comes before the first layer and after the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import explain, is_close, ratio, uncapped
from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.mlp import activations
from archon_probe.measure.norm import norm_giving, observe_norm
from archon_probe.measure.observation import (
    Observation,
    keep,
    keep_linear,
    linear_weight,
)
from archon_probe.measure.roles import Skeleton, UnknownStructureError
from archon_probe.measure.scores import config_numbers
from archon_probe.measure.tasks import call as run
from archon_probe.measure.tasks import is_encoder


def observe_embedding(
    model: Any, trace: Trace, skeleton: Skeleton, observation: Observation
) -> None:
    """Describe token embedding, its multiplier, norm and positions.

    Raises:
        UnknownStructureError: The first layer's input is none of what is known.
    """
    embedding = model.get_input_embeddings()
    length = len(trace.of(skeleton.embed)[0].y_rows)
    # Explained backwards from what the first layer gets: a model may do anything before it.
    first = trace.of(skeleton.layers[0])[0]
    target = first.x_rows
    _check_stream(first.x, trace.tokens.shape[1])
    plain = embedding.weight.detach()[trace.tokens[0]]
    observation.tensors["tok_embeddings.weight"] = embedding.weight.detach()
    features: dict[str, Any] = {
        "multiplier": 1.0,
        "norm": {"when": False},
        "positions": {"when": False},
        "padding_idx": embedding.padding_idx,
        "vocab_size": embedding.weight.shape[0],
        "dim": target.shape[1],
    }
    observation.embedding = features
    before = [c for c in trace.calls if c.order < first.order]
    before = [c for c in before if not c.path.startswith(f"{first.path}.")]
    target = _before_projection(before, target, observation)
    if (norm := norm_giving(before, target)) is not None:
        call, features["norm"] = norm
        keep(observation.tensors, "embedding_norm", call.module)
        target = call.x_rows
    known = {"tokens": plain}
    tables: dict[str, Call] = {}
    for call in before:
        # What holds the embedding returns a sum, and is no table of its own.
        is_around = call.path == skeleton.embed or skeleton.embed.startswith(f"{call.path}.")
        if is_around or not call.outputs:
            continue
        y = call.y_rows
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
        # What is added for the type of a token, which is 0 where a caller gives none.
        table = tables[kinds[0]].module
        features["token_types"] = {"when": True, "rows": len(table.weight)}
        keep(observation.tensors, "type_embeddings", table)
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
        if isinstance(call.module, nn.Linear) and is_close(call.y_rows, target):
            bias = keep_linear(observation.tensors, "embedding_proj", call.module)
            observation.embedding["projection"] = {"when": True, "bias": bias}
            target = call.x_rows
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
    with call.module.register_forward_hook(lambda _, args, out: rows.append(args[0])):
        run(model, tokens)
    found = rows[0].flatten()
    is_text = (tokens[0] != padding).long()
    if torch.equal(found, is_text.cumsum(0) * is_text + padding):
        return True
    if bool((found.diff() == 1).all()):
        return False
    raise UnknownStructureError(call.path, "positions that depend on padding")


def _is_one_row(call: Call) -> bool:
    """Return whether a table gives every token its first row, as that of the types of tokens."""
    y, weight = call.y_rows, getattr(call.module, "weight", None)
    return isinstance(weight, nn.Parameter) and is_close(y, weight[:1].expand_as(y), 0.0)


def _positions(call: Call, length: int, features: dict[str, Any], observation: Observation) -> None:
    """Describe a table of positions, learned or fixed."""
    y = call.y_rows
    weight = getattr(call.module, "weight", getattr(call.module, "weights", None))
    if not isinstance(weight, Tensor):
        raise UnknownStructureError(call.path, "positions that are not a table")
    # Some tables begin with rows that no position uses, as OPT's do.
    offset = next(
        (o for o in range(len(weight) - length + 1) if is_close(weight[o : o + length], y)), None
    )
    if offset is None:
        raise UnknownStructureError(call.path, "positions that are not consecutive rows of a table")
    if isinstance(weight, nn.Parameter):
        found = {"kind": "learned", "offset": offset, "rows": len(weight)}
        features["positions"] = {"when": True, **found}
        observation.tensors["pos_embeddings.weight"] = weight.detach()
        return
    for form, table in _sinusoids(offset + length, y.shape[1]):
        # Sines in fp32 of angles up to the number of positions.
        if is_close(table[offset:], y, 1e-4):
            features["positions"] = {"when": True, "kind": "sinusoidal", "offset": offset, **form}
            return
    raise UnknownStructureError(call.path, "a fixed table that is not sinusoidal")


def _fixed_positions(target: Tensor, plain: Tensor, features: dict[str, Any]) -> None:
    """Accept sinusoids that a model adds without a module."""
    for form, table in _sinusoids(*plain.shape):
        terms = dict(explain(target, {"tokens": plain, "positions": table}) or [])
        if terms.get("positions") == 1.0:
            features["multiplier"] = terms.get("tokens", 0.0)
            features["positions"] = {"when": True, "kind": "sinusoidal", "offset": 0, **form}
            return
    raise UnknownStructureError(
        "embedding", "the input of the first layer is not a sum of embeddings"
    )


def _sinusoids(length: int, dim: int) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Yield tables [length, dim] of sines and cosines of position, each with its form.

    Wavelengths go up to 10000. Where the form ``reaches_base``, the slowest rate is 1 / 10000
    itself, and not one step before it.
    """
    steps = torch.arange(dim // 2, dtype=torch.float64)
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    for layout in ("concatenated", "interleaved"):
        for reaches_base in (False, True):
            rates = 10000 ** (-steps / (dim // 2 - 1 if reaches_base else dim / 2))
            waves = [(positions * rates).sin(), (positions * rates).cos()]
            is_whole = layout == "concatenated"
            table = torch.cat(waves, dim=1) if is_whole else torch.stack(waves, dim=2).flatten(1)
            yield {"layout": layout, "reaches_base": reaches_base}, table.float()


def observe_head(model: Any, trace: Trace, skeleton: Skeleton, observation: Observation) -> None:
    """Describe what follows the last layer: a norm, a dense block, and the projection.

    Of a decoder that is the projection to logits, with what happens to them; of an encoder that to
    a score, with what it takes of all tokens.

    Raises:
        UnknownStructureError: The head is made of something else.
    """
    last = trace.of(skeleton.layers[-1])[0]
    head = trace.of(skeleton.head)[-1]
    after = [c for c in trace.calls if last.order < c.order < head.order and c.inputs and c.outputs]
    norms = [(c, kind) for c in after if (kind := observe_norm(c.module, c.x)) is not None]
    maps = [c for c in after if linear_weight(c.module) is not None]
    features: dict[str, Any] = {"norm": {"when": False}, "transform": {"when": False}}
    observation.head = features
    states, given = last.y_rows, head.x_rows
    final, kind = next((n for n in norms if is_close(n[0].x_rows, states)), (None, None))
    scale = None if is_encoder(model.config) else ratio(given, states)
    if final is not None and kind is not None and scale is None:
        features["norm"] = {"when": True, **kind}
        keep(observation.tensors, "norm", final.module)
        states = final.y_rows
    if is_encoder(model.config):
        pooling = _pooling(given, states)
        if pooling is None:
            pools = ((c, _pooling(c.x_rows, states)) for c in maps)
            dense, pooling = next((each for each in pools if each[1] is not None), (None, None))
            if dense is None:
                what = "its input is no pooled state, mapped once or not"
                raise UnknownStructureError(head.path, what)
            _transform(model.config, norms, dense, given, observation)
        has_bias = keep_linear(observation.tensors, "score", head.module)
        features |= {"pooling": pooling, "tied": False, "bias": has_bias}
        return
    scale = ratio(given, states) if scale is None else scale
    if scale is None:
        # The chain is last layer, norm, dense map, activation, norm, projection.
        dense = next((c for c in maps if final and is_close(c.x_rows, states)), None)
        if dense is None or not any(is_close(c.y_rows, given) for c, _ in norms):
            what = "its input is not a norm of the last layer's output"
            raise UnknownStructureError(head.path, what)
        _transform(model.config, norms, dense, given, observation)
    # Equal values prove nothing: only shared memory stays equal in training.
    embedding = model.get_input_embeddings().weight
    features["tied"] = head.module.weight.data_ptr() == embedding.data_ptr()
    features["bias"] = keep_linear(observation.tensors, "output", head.module)
    features |= _logits(head.y_rows, trace.of("")[-1].outputs[0][0], model.config)
    features["multiplier"] *= 1.0 if scale is None else scale


def _transform(
    config: Any,
    norms: list[tuple[Call, dict[str, Any]]],
    dense: Call,
    given: Tensor,
    observation: Observation,
) -> None:
    """Describe what leads from a linear map to the projection: an activation, maybe a norm.

    Raises:
        UnknownStructureError: No known activation does.
    """
    closing = [n for n in norms if n[0].order > dense.order and is_close(n[0].y_rows, given)]
    norm: dict[str, Any] = {"when": False}
    for call, kind in closing[:1]:
        norm, given = {"when": True, **kind}, call.x_rows
    y = dense.y_rows
    fits = (name for name, function, _ in activations([], config) if is_close(function(y), given))
    activation = next(fits, None)
    if activation is None:
        raise UnknownStructureError(dense.path, "an unknown activation")
    has_bias = keep_linear(observation.tensors, "head_dense", dense.module)
    for call, _ in closing[:1]:
        keep(observation.tensors, "head_norm", call.module)
    transform = {"when": True, "activation": activation, "bias": has_bias, "norm": norm}
    observation.head["transform"] = transform


def _pooling(pooled: Tensor, states: Tensor) -> str | None:
    """Return what is taken of the states of all tokens: the first one, the mean, or all.

    All of them are scored where it is the scores that are pooled.
    """
    kinds = {"cls": states[:1], "mean": states.mean(0, keepdim=True), "late": states}
    return next((name for name, row in kinds.items() if is_close(pooled, row)), None)


def _logits(produced: Tensor, logits: Tensor, config: Any) -> dict[str, Any]:
    factor = ratio(logits, produced)
    if factor is not None:
        return {"multiplier": factor, "softcap": None}
    # Caps of the configuration, and those that models have as constants of their code.
    numbers = {*config_numbers(config), 15.0, 20.0, 30.0, 50.0}
    # The smallest cap that explains the logits.
    for cap in sorted(numbers):
        # No capped logit exceeds its cap, and atanh beyond it is NaN.
        if cap < float(logits.abs().max()):
            continue
        factor = ratio(uncapped(logits, cap), produced.double())
        if factor is not None:
            return {"multiplier": factor, "softcap": cap}
    raise UnknownStructureError("output", "the logits are not scaled or capped outputs of it")

"""Mistakes made on purpose in a model that is right: a proof that misses one proves nothing.

Each is a small change of a built Archon model, found by what its modules are and have.
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from archon_probe.measure.random_weights import random_model, save_and_load
from archon_probe.proof import prove
from archon_probe.proof.reference import (
    Batch,
    Reference,
    make_batch,
    reference,
)
from torch import nn
from transformers import PretrainedConfig

Change = Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A mistake.

    Attributes:
        name: Says what is wrong.
        apply: Makes it in a model, in place.
        is_exact: Whether it changes what is computed for certain, so that a proof must catch it.
        argue: Changes the arguments that the model is built of, instead of the model.
    """

    name: str
    apply: Change
    is_exact: bool = True
    argue: Callable[[Any], Any] | None = None


@dataclasses.dataclass(frozen=True)
class Caught:
    """Whether a proof saw a mistake.

    Attributes:
        by: What saw it: "forward", "backward" or the class of an error.
        error: How large the difference is, in the measure of the proof.
    """

    name: str
    is_exact: bool
    is_caught: bool
    by: str
    error: float


def check_mutations(spec: Any, config: PretrainedConfig) -> list[Caught]:
    """Makes each mistake that the model of a config can have, and proves it."""
    return check(spec, config, None)


def check(spec: Any, config: PretrainedConfig, mistakes: list[Mutation] | None) -> list[Caught]:
    """Makes mistakes in the model of a config, and proves each.

    Args:
        mistakes: Which; None for all that the model can have.

    Raises:
        ValueError: The model refuses the config.
    """
    args, refusal = prove.read_args(spec, config)
    if refusal is not None:
        raise ValueError(refusal)
    hf_model = random_model(config)
    with tempfile.TemporaryDirectory() as folder:
        saved = save_and_load(hf_model, Path(folder))
    batch = make_batch(config.vocab_size)
    truth = reference(hf_model, batch)
    built = prove.build(spec, args, config, saved)
    made = mutations(built.model) if mistakes is None else mistakes
    return [_caught(mutation, spec, built, batch, truth) for mutation in made]


def _spoiled(spec: Any, mutation: Mutation, built: Any) -> nn.Module:
    if mutation.argue is None:
        model = copy.deepcopy(built.model)
    else:
        model = spec.model_class(mutation.argue(built.args))
        model.init_buffers(torch.device("cpu"))
        model.load_state_dict(built.model.state_dict())
        model.eval()
    mutation.apply(model)
    return model


def _caught(mutation: Mutation, spec: Any, built: Any, batch: Batch, truth: Reference) -> Caught:
    try:
        wrong = dataclasses.replace(built, model=_spoiled(spec, mutation, built))
        run = prove.run_packed(wrong, batch)
    except Exception as error:
        # A mistake that makes the model fail shows itself.
        return Caught(mutation.name, mutation.is_exact, True, type(error).__name__, float("inf"))
    forward = prove.compare_logits(run, truth)
    if not forward.ok:
        return Caught(mutation.name, mutation.is_exact, True, "forward", forward.error)
    backward = prove.compare_gradients(run, truth)
    return Caught(mutation.name, mutation.is_exact, not backward.ok, "backward", backward.error)


def mutations(model: nn.Module) -> list[Mutation]:
    """Returns the mistakes that a model can have, by its parts."""
    found = [*_rotary(model), *_attention(model), *_norms(model), *_weights(model)]
    found += [*_packing(model), *_gradients(model), *_experts(model)]
    found += [*_positions(model), *_arguments(model)]
    return list({m.name: m for m in found}.values())


def _modules(model: nn.Module, kind: str) -> list[tuple[str, Any]]:
    return [(n, m) for n, m in model.named_modules() if type(m).__name__ == kind]


def _each(kind: str, change: Callable[[Any], None]) -> Change:
    def apply(model: nn.Module) -> None:
        for _, module in _modules(model, kind):
            change(module)

    return apply


def _setter(name: str, new: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        value = getattr(module, name)
        if value is not None:
            setattr(module, name, new(value))

    return change


def _rotary(model: nn.Module) -> Iterator[Mutation]:
    rotaries = _modules(model, "RotaryEmbedding")
    if not rotaries:
        return
    other = {"half": "interleaved", "interleaved": "half"}
    yield Mutation(
        "rope dropped", _each("RotaryEmbedding", _table(cos=torch.ones_like, sin=torch.zeros_like))
    )
    yield Mutation("rope turns the other way", _each("RotaryEmbedding", _table(sin=torch.neg)))
    yield Mutation("rope 1 % too long", _each("RotaryEmbedding", _table(cos=lambda t: 1.01 * t)))
    flip = _setter("pairing", other.__getitem__)
    yield Mutation("rope pairing flipped", _each("RotaryEmbedding", flip))
    yield Mutation("rope base x1.1", _each("RotaryEmbedding", _base))


def _table(**changes: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        forward = module.forward

        def wrong(*args: Any, **kwargs: Any) -> Any:
            table = forward(*args, **kwargs)
            new = {name: f(getattr(table, name)) for name, f in changes.items()}
            return dataclasses.replace(table, **new)

        module.forward = wrong

    return change


def _base(module: Any) -> None:
    module.args = dataclasses.replace(module.args, theta=module.args.theta * 1.1)
    for value in vars(module).values():
        if isinstance(value, dict) and value and not isinstance(next(iter(value)), str):
            value.clear()  # frequencies that were computed before


def _attention(model: nn.Module) -> Iterator[Mutation]:
    cores = [core for _, core in _modules(model, "AttentionCore")]
    yield Mutation(
        "attention scale x1.02", _each("AttentionCore", _setter("scale", lambda s: 1.02 * s))
    )
    yield Mutation("future tokens seen", _each("AttentionCore", _setter("causal", lambda _: False)))
    for name in ("window", "chunk"):
        if any(getattr(core, name, None) is not None for core in cores):
            for step in (-1, 1):
                change = _setter(name, lambda v, step=step: v + step)
                yield Mutation(f"{name} off by {step:+d}", _each("AttentionCore", change))
            yield Mutation(f"{name} ignored", _each("AttentionCore", _setter(name, lambda _: None)))
    if any(core.window is None and core.chunk is None for core in cores):
        yield Mutation("window where there is none", _each("AttentionCore", _window))
    if any(core.softcap is not None for core in cores):
        yield Mutation(
            "attention softcap ignored", _each("AttentionCore", _setter("softcap", lambda _: None))
        )
    yield from _dropped(model, ("sinks",), "sinks ignored", lambda t: torch.full_like(t, -1e9))


def _window(core: Any) -> None:
    if core.window is None:
        core.window = 12


def _dropped(
    model: nn.Module, names: tuple[str, ...], text: str, new: Callable[[Any], Any]
) -> Iterator[Mutation]:
    """Yields the mutation that replaces parameters of these last names, where there are any."""

    def apply(wrong: nn.Module) -> None:
        with torch.no_grad():
            for name, parameter in wrong.named_parameters():
                if name.split(".")[-1] in names:
                    parameter.copy_(new(parameter))

    if any(n.split(".")[-1] in names for n, _ in model.named_parameters()):
        yield Mutation(text, apply)


def _norms(model: nn.Module) -> Iterator[Mutation]:
    """Yields, for each role of a norm, its epsilon, its offset and its absence."""
    roles = {name.split(".")[-1] for name, module in model.named_modules() if _is_norm(module)}
    for role in sorted(roles):
        yield Mutation(f"{role}: eps x10", _of_role(role, _setter("eps", lambda e: 10 * e)))
        yield Mutation(f"{role}: off by 0.01", _of_role(role, _offset))
        yield Mutation(f"{role}: missing", _of_role(role, _missing))


def _is_norm(module: Any) -> bool:
    own = hasattr(module, "eps") and hasattr(module, "offset")
    return own or isinstance(module, nn.LayerNorm)


def _offset(module: Any) -> None:
    forward = module.forward
    module.forward = lambda x, *args, **kwargs: forward(x, *args, **kwargs) * 1.01


def _of_role(role: str, change: Callable[[Any], None]) -> Change:
    def apply(model: nn.Module) -> None:
        for name, module in model.named_modules():
            if name.split(".")[-1] == role and _is_norm(module):
                change(module)

    return apply


def _missing(module: Any) -> None:
    module.forward = lambda x, *args, **kwargs: x


def _weights(model: nn.Module) -> Iterator[Mutation]:
    roles: dict[str, None] = {}
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if parts[-1] == "bias":
            roles[parts[-2]] = None
        del parameter
    for role in roles:
        # The softmax does not see what all keys of a query have in common.
        is_seen = role != "wk" or bool(_modules(model, "RotaryEmbedding"))
        yield Mutation(f"{role}: no bias", _zeroed(f"{role}.bias"), is_seen)
    owners = [
        n for n, m in model.named_modules() if {"w1", "w3"} <= {c for c, _ in m.named_children()}
    ]
    if owners:
        yield Mutation("w1 and w3 swapped", _swapped)
    names = [n for n, m in model.named_modules() if hasattr(m, "act")]
    if names:
        yield Mutation("another activation", _other_activation)
    if getattr(getattr(model, "model_args", None), "enable_weight_tying", False):
        yield Mutation("output not tied", _untied)


def _zeroed(ending: str) -> Change:
    def apply(model: nn.Module) -> None:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(f".{ending}") or name == ending:
                    parameter.zero_()

    return apply


@torch.no_grad()
def _swapped(model: nn.Module) -> None:
    for module in model.modules():
        first, third = getattr(module, "w1", None), getattr(module, "w3", None)
        if isinstance(first, nn.Module) and isinstance(third, nn.Module):
            kept = first.weight.detach().clone()
            first.weight.copy_(third.weight)
            third.weight.copy_(kept)


def _other_activation(model: nn.Module) -> None:
    for module in model.modules():
        right = getattr(module, "act", None)
        if right is not None:
            module.act = lambda x, right=right: right(x) + 1e-3 * x


def _untied(model: Any) -> None:
    model.output.weight = nn.Parameter(model.output.weight.detach().clone())


def _packing(model: nn.Module) -> Iterator[Mutation]:
    del model
    yield Mutation("sequences see each other", _forward_with(_joined))
    yield Mutation("last token of a sequence moved to the next", _forward_with(_shifted))


def _forward_with(change: Callable[..., tuple[Any, ...]]) -> Change:
    def apply(model: Any) -> None:
        forward = model.forward
        model.forward = lambda *args, **kwargs: forward(*change(*args), **kwargs)

    return apply


def _joined(tokens: Any, positions: Any, cu_seqlens: Any, max_seqlen: int) -> tuple[Any, ...]:
    del max_seqlen
    total = tokens.shape[1]
    return tokens, positions, cu_seqlens[[0, -1]], total


def _shifted(tokens: Any, positions: Any, cu_seqlens: Any, max_seqlen: int) -> tuple[Any, ...]:
    moved = cu_seqlens.clone()
    moved[1] -= 1
    return tokens, positions, moved, max_seqlen + 1


def _gradients(model: nn.Module) -> Iterator[Mutation]:
    """Yields mistakes that no logit shows."""
    if hasattr(model, "tok_embeddings"):
        yield Mutation("padding token without gradient", _padded)
    for name in ("attention", "feed_forward", "moe"):
        if any(n.split(".")[-1] == name for n, _ in model.named_modules()):
            yield Mutation(f"{name} detached in a layer", _detached(name))


def _padded(model: Any) -> None:
    used = getattr(model.tok_embeddings, "padding_idx", None)
    model.tok_embeddings.padding_idx = 7 if used is None else None


def _detached(role: str) -> Change:
    def apply(model: nn.Module) -> None:
        found = [m for n, m in model.named_modules() if n.split(".")[-1] == role]
        forward = found[-1].forward
        found[-1].forward = lambda *a, **k: forward(*a, **k).detach()

    return apply


def _positions(model: nn.Module) -> Iterator[Mutation]:
    for kind in ("LearnedPositions", "SinusoidalPositions"):
        if _modules(model, kind):
            later = _setter("offset", lambda offset: offset - 1 if offset else 1)
            yield Mutation(f"{kind} off by one", _each(kind, later))
    if _modules(model, "AlibiSlopes"):
        yield Mutation("alibi x1.02", _each("AlibiSlopes", _setter("scale", lambda s: 1.02 * s)))


def _arguments(model: Any) -> Iterator[Mutation]:
    """Yields, for every number and switch that the model is built of, another value.

    Not all of them have to be caught: some are for initialisation, or for what is not built here.
    """
    args = getattr(model, "model_args", None)
    for field in dataclasses.fields(args) if dataclasses.is_dataclass(args) else ():
        value = getattr(args, field.name)
        if not isinstance(value, float | bool) or field.name == "is_critic":
            continue
        text, new = next(_other_values(value))

        def argue(old: Any, name: str = field.name, new: Any = new) -> Any:
            return dataclasses.replace(old, **{name: new})

        yield Mutation(f"argument {field.name} {text}", lambda _: None, False, argue)


def _experts(model: nn.Module) -> Iterator[Mutation]:
    """Yields, for every option of a mixture of experts, another value of it.

    Not every option is read after a model is built, so not all of them have to be caught.
    """
    owners = [m for m in model.modules() if type(getattr(m, "args", None)).__name__ == "MoEArgs"]
    if not owners:
        return
    for field in dataclasses.fields(owners[0].args):
        value = getattr(owners[0].args, field.name)
        for text, new in _other_values(value):
            sure = field.name in ("top_k", "route_norm", "route_scale", "score_func")
            yield Mutation(f"experts: {field.name} {text}", _option(field.name, new), sure)
    yield from _dropped(
        model, ("expert_bias",), "experts: selection bias ignored", torch.zeros_like
    )
    buffers = {n.split(".")[-1] for n, _ in model.named_buffers()}
    if "expert_bias" in buffers:
        yield Mutation("experts: selection bias ignored", _no_selection_bias)


def _other_values(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "inverted", not value
    elif isinstance(value, float):
        yield "x1.02", value * 1.02 if value else 0.02
    elif isinstance(value, int):
        yield "off by -1", value - 1
    elif value in ("softmax", "sigmoid"):
        yield "other", {"softmax": "sigmoid", "sigmoid": "softmax"}[value]


def _option(name: str, value: Any) -> Change:
    def apply(model: nn.Module) -> None:
        for module in model.modules():
            if type(getattr(module, "args", None)).__name__ == "MoEArgs":
                module.args = dataclasses.replace(module.args, **{name: value})

    return apply


def _no_selection_bias(model: nn.Module) -> None:
    for name, buffer in model.named_buffers():
        if name.split(".")[-1] == "expert_bias":
            buffer.zero_()

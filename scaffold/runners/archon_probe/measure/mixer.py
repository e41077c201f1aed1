"""Describe what mixes tokens and is no attention: a convolution, linear attention, a state space.

Such a module is not written anew. The Archon model runs transformers' own class on one sequence at
a time, so all that is measured is that this gives the same: the module is a causal function of its
first input alone, and its class is built from the configuration.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import is_close
from archon_probe.measure.hooks import Call
from archon_probe.measure.observation import Observed
from archon_probe.measure.roles import UnknownStructureError

_ARGUMENTS = ("config", "layer_idx")
_ROUNDING = 1e-5
"""Of the norm of what a module gives."""


def mixes_tokens(call: Call) -> bool:
    """Return whether the rows that a module gives depend on more than the same row it gets."""
    x = call.x
    if x.ndim != 3 or not call.outputs or call.y.shape != x.shape:
        return False
    plain, changed = _run(call.module, x), _run(call.module, _moved(x, 0))
    if plain is None or changed is None:
        return False
    # Experts get their tokens in other groups then, which rounds otherwise.
    return not is_close(changed[:, 1:], plain[:, 1:], _ROUNDING)


def observe_mixer(call: Call, config: Any) -> Observed:
    """Describe a module that mixes tokens.

    Raises:
        UnknownStructureError: It reads more than its first input, sees later tokens, or is built
            from more than the configuration and the number of the layer.
    """
    kind = type(call.module)
    plain, changed = _run(call.module, call.x), _run(call.module, _moved(call.x, -1))
    if plain is None or changed is None or not is_close(plain, call.y, _ROUNDING):
        raise UnknownStructureError(call.path, f"a {kind.__name__} that reads more than the stream")
    if not is_close(changed[:, :-1], plain[:, :-1], _ROUNDING):
        raise UnknownStructureError(call.path, f"a {kind.__name__} whose tokens see later ones")
    parameters = inspect.signature(kind).parameters
    needed = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty]
    by_layer = tuple(parameters)[:2] == _ARGUMENTS
    if tuple(parameters)[:1] != _ARGUMENTS[:1] or not set(needed) <= set(_ARGUMENTS):
        found = ", ".join(needed)
        raise UnknownStructureError(call.path, f"a {kind.__name__} that is built from {found}")
    # Each layer builds its own, so nothing may depend on what only this instance was given.
    built = kind(config, 0) if by_layer else kind(config)
    tensors = dict(call.module.named_parameters())
    shapes = {n: p.shape for n, p in tensors.items()}
    if {n: p.shape for n, p in built.named_parameters()} != shapes:
        raise UnknownStructureError(call.path, f"a {kind.__name__} that its class builds otherwise")
    features = {"class": f"{kind.__module__}:{kind.__name__}", "by_layer": by_layer}
    features["buffers"] = _given_buffers(call, built, config)
    features["unread"] = _unread(call.module)
    # Tables that a class computes may be in checkpoints too.
    saved = call.module.state_dict().keys()
    tensors |= {n: b for n, b in call.module.named_buffers() if n in saved}
    return Observed(features, {f"inner.{n}": p.detach() for n, p in tensors.items()})


def _given_buffers(call: Call, built: nn.Module, config: Any) -> list[list[str]]:
    """Return the buffers that the model gives a module, each with the function that computes it.

    Raises:
        UnknownStructureError: No function beside the class computes one from the configuration.
    """
    kind = type(call.module)
    own = dict(built.named_buffers())
    given = {n: b for n, b in call.module.named_buffers() if n not in own}
    functions = {
        name: function
        for name, function in inspect.getmembers(sys.modules[kind.__module__], inspect.isfunction)
        if given and tuple(inspect.signature(function).parameters) == _ARGUMENTS[:1]
    }
    found: list[list[str]] = []
    for name, buffer in given.items():
        fits = (n for n, function in functions.items() if _gives(function, config, buffer))
        if (function := next(fits, None)) is None:
            what = f"a {kind.__name__} whose {name} its model sets, by no function of transformers"
            raise UnknownStructureError(call.path, what)
        found.append([name, f"{kind.__module__}:{function}"])
    return found


def _gives(function: Any, config: Any, buffer: Tensor) -> bool:
    try:
        value = function(config)
    # A function for something else may ask the configuration for anything.
    except Exception:
        return False
    return isinstance(value, Tensor) and torch.equal(value, buffer)


def _unread(module: nn.Module) -> list[str]:
    """Return the arguments that a call must give beside the stream.

    They are None in an Archon model: what it gives then shows whether they are read.
    """
    _, *others = inspect.signature(module.forward).parameters.values()
    usual = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in others if p.default is inspect.Parameter.empty and p.kind in usual]


def _run(module: nn.Module, x: Tensor) -> Tensor | None:
    """Return what a module gives for the stream alone; None where it asks for more."""
    try:
        with torch.no_grad():
            out = module(x, **dict.fromkeys(_unread(module)))
    except (TypeError, AttributeError, ValueError, RuntimeError):
        return None
    first = out[0] if isinstance(out, (tuple, list)) else out
    return first if isinstance(first, Tensor) and first.shape == x.shape else None


def _moved(x: Tensor, token: int) -> Tensor:
    moved = x.clone()
    moved[:, token] += 1.0
    return moved

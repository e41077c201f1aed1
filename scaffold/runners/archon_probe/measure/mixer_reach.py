"""Find what mixes tokens without attention: convolutions, recurrent states, linear attention.

A part of a layer is called twice, the second time with another first token. Where later outputs
change, it mixes tokens; where no softmax over positions ran meanwhile, it is no attention.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from archon_probe.measure.tasks import call

LENGTH = 23
"""Tokens: more than a tiny model has experts, so that no softmax over these is taken for one."""

_IN_A_LAYER = re.compile(r"(.*\.\d+)\.[^.]+")
CHANGED = 1e-4
"""Of the standard deviation: far above rounding, which other tokens beside may change."""


class Mixer(NamedTuple):
    """A part of a layer, its class, and how many later tokens a change of the first one reaches."""

    name: str
    kind: str
    reach: int


class _Softmaxes(TorchDispatchMode):
    """Notes whether a softmax ran over at least as many numbers as there are tokens."""

    is_seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "softmax" in str(func) and args[0].shape[-1] >= LENGTH:
            self.is_seen = True
        return func(*args, **(kwargs or {}))


def describe_mixers(model: nn.Module, vocab_size: int) -> str:
    """Return what mixes tokens in a model without attention, and how far; "" for nothing."""
    kinds: dict[str, list[Mixer]] = {}
    for mixer in token_mixers(model, vocab_size):
        kinds.setdefault(mixer.kind, []).append(mixer)
    return "; ".join(
        f"{kind} ({', '.join(mixer.name for mixer in same[:3])}): a token reaches "
        f"{max(mixer.reach for mixer in same)} of {LENGTH - 1} later ones"
        for kind, same in sorted(kinds.items())
    )


@torch.no_grad()
def token_mixers(model: nn.Module, vocab_size: int) -> list[Mixer]:
    """Return the parts of layers that mix tokens without a softmax over them."""
    calls: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            calls.setdefault(name, (module, args, kwargs))

        return hook

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if _IN_A_LAYER.fullmatch(name):
                hook = module.register_forward_pre_hook(keep(name), with_kwargs=True)
                hooks.enter_context(hook)
        call(model, torch.arange(3, 3 + LENGTH)[None] % vocab_size)
    rows = [(name, type(call[0]).__name__, _reach(*call)) for name, call in calls.items()]
    return [Mixer(name, kind, reach) for name, kind, reach in rows if reach]


def _reach(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return how many later tokens a change of the first one reaches, 0 through attention too."""
    given = [each for each in (*args, *kwargs.values()) if _is_row(each)]
    if not given:
        return 0
    hidden = given[0]
    other = hidden.clone()
    other[:, 0] = other[:, 0].flip(-1) + 1.0

    def run(values: Tensor) -> Tensor | None:
        swap = [values if each is hidden else each for each in args]
        named = {key: values if each is hidden else each for key, each in kwargs.items()}
        out = module(*swap, **named)
        out = out[0] if isinstance(out, tuple | list) else out
        return out if _is_row(out) else None

    try:
        with _Softmaxes() as seen:
            before = run(hidden)
        after = run(other)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return 0  # it cannot be run by itself; whatever it is shows elsewhere
    if before is None or after is None or seen.is_seen:
        return 0
    moved = (after - before).abs().amax(-1)[0] > CHANGED * before.std()
    later = moved[1:].nonzero().flatten()
    return int(later[-1]) + 1 if len(later) else 0


def _is_row(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 3 and value.shape[:2] == (1, LENGTH)

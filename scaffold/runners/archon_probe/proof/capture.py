"""Capture what modules take and give in a run, and the gradients of that."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class Captured:
    """The first tensor of each kind by the name of the module, in the order in which they finish.

    Of a module that is called several times the first call counts.
    """

    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)


@contextmanager
def capturing(model: nn.Module, names: Iterable[str]) -> Iterator[Captured]:
    """Yield what named modules of a model take and give while the block runs."""
    found = Captured()

    def note(name: str, _: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        given, tensor = first_tensor([args, kwargs]), first_tensor(output)
        if given is not None:
            found.inputs.setdefault(name, given.detach().clone())
        if tensor is None:
            return
        found.outputs.setdefault(name, tensor.detach().clone())
        if tensor.requires_grad:
            tensor.register_hook(functools.partial(keep_gradient, name))

    # Whatever a hook of a tensor returns replaces the gradient, so this one returns nothing.
    def keep_gradient(name: str, gradient: Tensor) -> None:
        found.gradients.setdefault(name, gradient.detach().clone())

    with ExitStack() as hooks:
        for name in dict.fromkeys(names):
            hook = functools.partial(note, name)
            module = model.get_submodule(name)
            hooks.enter_context(module.register_forward_hook(hook, with_kwargs=True))
        yield found


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor in arguments or a result, however deep."""
    if isinstance(value, Tensor):
        return value
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, tuple | list | dict):
        return None
    return next((found for each in inner if (found := first_tensor(each)) is not None), None)

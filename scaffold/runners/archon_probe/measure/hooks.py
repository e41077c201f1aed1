"""Record what modules compute: the calls of modules inside them, and of some functions.

Shape letters: T tokens of the one sequence that is run, D features.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from archon_probe.measure.tasks import call

# Attention in eager mode is made of these; fused kernels would hide the scores.
ATTENTION = {"matmul", "bmm", "baddbmm", "einsum", "softmax"}
"""The functions that scores and attention outputs are made of."""


@dataclass
class Call:
    """One call of a module.

    Args:
        path: Of the module in the model, "" for the model itself.
        module: That was called.
        inputs: Tensors among its arguments, in order; keyword arguments follow under their names.
        outputs: Tensors among its results.
        depth: Of the call stack.
        order: Of its end among all calls.
    """

    path: str
    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: list[Tensor]
    depth: int
    order: int

    @property
    def x(self) -> Tensor:
        """The first input."""
        # By name where it is one: transformers passes some inputs by keyword and others not.
        for name in ("hidden_states", "x", "0"):
            if name in self.inputs:
                return self.inputs[name]
        return next(iter(self.inputs.values()))

    @property
    def y(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    @property
    def x_rows(self) -> Tensor:
        """The first input with one row of features for each token."""
        return self.x.reshape(-1, self.x.shape[-1])

    @property
    def y_rows(self) -> Tensor:
        """The first output in the same form."""
        return self.y.reshape(-1, self.y.shape[-1])


@dataclass
class Function:
    """One call of a recorded function inside a module.

    Args:
        name: Of the function, without its module and underscores around it.
        path: Of the innermost module that runs.
        inputs: Its tensors, in order.
        output: Its result, of several the first.
        k: Of a top-k.
    """

    name: str
    path: str
    inputs: list[Tensor]
    output: Tensor
    k: int = 0


@dataclass
class Trace:
    """One recorded run.

    Args:
        tokens: [1, T], what went in.
        calls: Of modules, in the order of their ends.
        functions: Those that are watched, in order.
    """

    tokens: Tensor
    calls: list[Call] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    def of(self, path: str) -> list[Call]:
        """Return the calls of one module."""
        return [c for c in self.calls if c.path == path]

    def under(self, path: str) -> list[Call]:
        """Return the calls of a module's descendants."""
        prefix = f"{path}." if path else ""
        return [c for c in self.calls if c.path.startswith(prefix) and c.path != path]

    def functions_under(self, path: str) -> list[Function]:
        """Return the functions that a module or its descendants called."""
        return [f for f in self.functions if f.path == path or f.path.startswith(f"{path}.")]


class Watch(TorchFunctionMode):
    """Watches functions of torch while it is entered, and modules by the hooks that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks = ExitStack()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self.hooks.close()


class Recorder(Watch):
    """Records, while it is entered, the calls of a model's modules and of some functions.

    Args:
        model: Whose modules are watched, itself under the path "".
        trace: Gets what is recorded.
        watched: Names of the functions; a copy of each tensor would fill the memory.
    """

    def __init__(self, model: nn.Module, trace: Trace, watched: Collection[str]) -> None:
        super().__init__()
        self._model, self._trace, self._watched = model, trace, watched
        self._pending: list[tuple[str, dict[str, Tensor]]] = []

    def __enter__(self) -> Recorder:
        for path, module in self._model.named_modules():
            pre = module.register_forward_pre_hook(self._begin(path), with_kwargs=True)
            self.hooks.enter_context(pre)
            self.hooks.enter_context(module.register_forward_hook(self._end))
        return super().__enter__()

    def _begin(self, path: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            named = {str(i): a for i, a in enumerate(args)} | kwargs
            # Copied before the module runs, which may change its inputs in place.
            copies = {k: _copy(v) for k, v in named.items() if isinstance(v, Tensor)}
            self._pending.append((path, copies))

        return hook

    def _end(self, module: nn.Module, _args: Any, out: Any) -> None:
        # Modules end in reverse, so the last one that began is this one.
        path, inputs = self._pending.pop()
        # Attention modules return their weights beside the output.
        flat = out if isinstance(out, (tuple, list)) else (out,)
        outputs = [_copy(v) for v in flat if isinstance(v, Tensor)]
        calls = self._trace.calls
        calls.append(Call(path, module, inputs, outputs, len(self._pending), len(calls)))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if name not in self._watched:
            return func(*args, **kwargs)
        # Copied before the call, which may change its inputs in place.
        inputs = [_copy(v) for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
        out = func(*args, **kwargs)
        here = self._pending[-1][0] if self._pending else ""
        k = kwargs.get("k", args[1] if name == "topk" and len(args) > 1 else 0)
        first = out if isinstance(out, Tensor) else out[0]
        self._trace.functions.append(Function(name, here, inputs, _copy(first), int(k)))
        return out


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()


@torch.no_grad()
def record(model: Any, tokens: Tensor) -> Trace:
    """Run a model on one sequence, with eager attention and without a cache.

    Args:
        model: A causal language model, in evaluation mode.
        tokens: [1, T].

    Returns:
        The run, and the logits as the output of the call at path "".
    """
    trace = Trace(tokens)
    with Recorder(model, trace, ATTENTION):
        out = call(model, tokens)
    # The model's own call ends last; its result is an object and no tensor.
    trace.calls[-1].outputs.insert(0, _copy(out.logits))
    return trace

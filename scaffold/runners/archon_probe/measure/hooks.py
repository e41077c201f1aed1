"""Record what a Hugging Face model computes: module calls, and the functions attention is made of.

Shape letters: T tokens of the one sequence that is run, D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from archon_probe.measure.tasks import call

# Attention in eager mode is made of these; fused kernels would hide the scores.
PRODUCTS = {"matmul", "bmm", "baddbmm", "__matmul__", "einsum"}
"""The functions that scores and attention outputs are products of."""


@dataclass
class Call:
    """One call of a module.

    Args:
        path: Of the module in the model, "" for the model itself.
        module: That was called.
        inputs: Tensors among its arguments, in order; keyword arguments follow under their names.
        outputs: Tensors among its results.
        depth: Of the call stack.
        order: Of its end among all calls' ends and functions.
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


@dataclass
class Function:
    """One call of a recorded function inside a module.

    Args:
        name: Of the function, without its module.
        path: Of the innermost module that runs.
        inputs: Its tensors, in order.
        output: Its result.
        order: As of calls.
    """

    name: str
    path: str
    inputs: list[Tensor]
    output: Tensor
    order: int


@dataclass
class Trace:
    """One recorded run.

    Args:
        tokens: [1, T], what went in.
        calls: Of modules, in the order of their ends.
        functions: Products and softmaxes, in order.
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


class _Recorder(TorchFunctionMode):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        self.stack: list[str] = []
        self.order = 0

    def tick(self) -> int:
        self.order += 1
        return self.order

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "") or str(resolve_name(func))
        # Everything else is called as it is: a copy of each tensor would fill the memory.
        if name not in PRODUCTS and name != "softmax":
            return func(*args, **kwargs)
        values = [*args, *kwargs.values()]
        # Copied before the call, which may change its inputs in place.
        inputs = [v.detach().clone() for v in values if isinstance(v, Tensor)]
        output = func(*args, **kwargs)
        here = self.stack[-1] if self.stack else ""
        self.trace.functions.append(
            Function(name, here, inputs, output.detach().clone(), self.tick())
        )
        return output


@contextmanager
def _hooks(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    handles: list[Any] = []
    pending: list[dict[str, Tensor]] = []

    def before(path: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            named = {str(i): a for i, a in enumerate(args)} | kwargs
            # Copied before the module runs, which may change its inputs in place.
            pending.append({k: _copy(v) for k, v in named.items() if isinstance(v, Tensor)})
            recorder.stack.append(path)

        return hook

    def after(path: str) -> Any:
        def hook(
            module: nn.Module, _args: tuple[Any, ...], _kwargs: dict[str, Any], out: Any
        ) -> None:
            recorder.stack.pop()
            # Attention modules return their weights beside the output.
            flat = out if isinstance(out, (tuple, list)) else (out,)
            outputs = [_copy(v) for v in flat if isinstance(v, Tensor)]
            recorder.trace.calls.append(
                Call(path, module, pending.pop(), outputs, len(recorder.stack), recorder.tick())
            )

        return hook

    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
        handles.append(module.register_forward_hook(after(path), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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
    recorder = _Recorder(trace)
    with _hooks(model, recorder), recorder:
        out = call(model, tokens)
    # The model's own call ends last; its result is an object and no tensor.
    root = trace.calls[-1]
    root.outputs.insert(0, out.logits.detach().clone())
    return trace

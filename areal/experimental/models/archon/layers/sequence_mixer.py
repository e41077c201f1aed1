"""Token mixers of transformers in a packed row: linear attention, convolutions, state spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing


class SequenceMixer(nn.Module):
    """Runs a module of transformers on each sequence of a packed row by itself.

    A recurrence would carry its state over from one sequence to the next. Padding inside of a
    batch would enter the state too, so sequences are not batched either.

    Args:
        module_class: Of transformers; a call gives [1, T, dim], or a tuple that begins with it.
        arguments: That it is built from; the configuration is the first.
        buffers: What a model of transformers gives the module after it is built: the function that
            computes each buffer from the configuration.
        unread: Arguments that a call must give and that the module does not read; they are None.
    """

    def __init__(
        self,
        module_class: Callable[..., nn.Module],
        *arguments: Any,
        buffers: Mapping[str, Callable[[Any], Tensor]] | None = None,
        unread: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._make = lambda: _made(module_class, arguments, buffers or {})
        self._unread = dict.fromkeys(unread)
        self.inner = self._make()
        saved = {n for n in self.inner.state_dict() if n not in dict(self.inner.named_parameters())}
        tables = {name: self.inner.get_buffer(name) for name in saved | set(buffers or ())}
        self._tables = tuple(n for n, table in tables.items() if table.is_floating_point())

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        """Mix the tokens of each sequence.

        Args:
            x: [1, T, dim].
            context: What attention in its place would get; the packing is the last.

        Raises:
            ConfigError: The call continues sequences that are cached, which has no state here.
        """
        packing: Packing = context[-1]
        if packing.plan is not None:
            raise ConfigError(
                f"{type(self.inner).__name__} keeps no state between calls, so that this model "
                "trains and cannot be rolled out by the embedded engine; use a server"
            )
        pieces = x.split([length for length in packing.lengths if length], dim=1)
        return torch.cat([self._first(self._run(piece)) for piece in pieces], dim=1)

    def _run(self, x: Tensor) -> Any:
        if not self._tables:
            return self.inner(x, **self._unread)
        # In transformers they are of the model's type, which then decides that of the rest.
        tables = {name: self.inner.get_buffer(name).to(x.dtype) for name in self._tables}
        return functional_call(self.inner, tables, (x,), self._unread)

    @staticmethod
    def _first(out: Any) -> Tensor:
        return out[0] if isinstance(out, tuple) else out

    def init_buffers(self, buffer_device: torch.device | str | None = None) -> None:
        """Compute the buffers of the module, which on ``meta`` have no values."""
        if not list(self.inner.buffers()):
            return
        computed = dict(self._make().named_buffers())
        for name, buffer in list(self.inner.named_buffers()):
            owner, _, last = name.rpartition(".")
            value = computed[name].to(buffer_device or buffer.device)
            self.inner.get_submodule(owner).register_buffer(
                last, value, persistent=name in self.inner.state_dict()
            )


def _made(
    module_class: Callable[..., nn.Module],
    arguments: tuple[Any, ...],
    buffers: Mapping[str, Callable[[Any], Tensor]],
) -> nn.Module:
    module = module_class(*arguments)
    for name, compute in buffers.items():
        module.register_buffer(name, compute(arguments[0]), persistent=False)
    return module


def refuse_split_mixers(model: nn.Module, parallel_dims: Any) -> None:
    """Refuse to split sequences, or the features of a token, of a model with such mixers.

    Raises:
        ConfigError: Tensor or context parallelism is asked for.
    """
    mixers = [each for each in model.modules() if isinstance(each, SequenceMixer)]
    if mixers and (parallel_dims.tp_enabled or parallel_dims.cp_enabled):
        name = type(mixers[0].inner).__name__
        raise ConfigError(
            f"{name} mixes whole sequences, so tensor and context parallelism are not available; "
            "use data, pipeline or expert parallelism"
        )
    args: Any = getattr(model, "model_args", None)
    # Such a model is written without a plan, also for configurations without a mixer.
    if parallel_dims.tp_enabled and getattr(args, "mixer_config", None) is not None:
        raise ConfigError(
            f"{type(model).__name__} is a hybrid, which has no plan for tensor parallelism; use "
            "data, context, pipeline or expert parallelism"
        )

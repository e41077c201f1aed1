"""Runs the stages of a model whose layers several processes share.

Shape letters: M micro-batches, T packed tokens of this process, N tokens whose logits are wanted, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from areal.engine.model.shared_row import SharedRow
from areal.experimental.models.archon.base import BaseArchonModel
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.pipeline_parallel import (
    build_pipeline_schedule,
    pipeline_llm,
    stack_rows,
)

ProcessLogits = Callable[[int, Tensor], Tensor | None]


class Pipeline:
    """This process's stages of a model.

    Args:
        model: The whole model, the same on all processes; it is not used any more afterwards.
        dims: The axes.
        options: Of the Archon engine, which has the schedule.
        parallelize_fn: The model's own.
        parallelize_options: For it.

    Attributes:
        parts: The modules of this process's stages.
        group: The processes that share the layers.
        last: The place in ``group`` of the process with the last stage.

    Raises:
        ConfigError: The layers do not fit.
    """

    def __init__(
        self,
        model: BaseArchonModel,
        dims: ArchonParallelDims,
        options: Any,
        parallelize_fn: Callable[..., Any],
        **parallelize_options: Any,
    ) -> None:
        device = torch.device(dims.device_type)
        stages, parts, has_first, has_last = pipeline_llm(
            model, device, dims, options, parallelize_fn, **parallelize_options
        )
        group = dims.get_group("pp")
        assert group is not None
        self.parts = parts
        self.group = group
        self._stages = stages
        self._schedule = options.pp_schedule
        self._has_first, self._has_last = has_first, has_last
        holders: list[Any] = [None] * group.size()
        dist.all_gather_object(holders, has_last, group=group)
        self.last = holders.index(True)
        self._is_running = False
        for stage in stages:
            stage.forward_one_chunk = self._noted(stage.forward_one_chunk)

    def _noted(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Note that a step has begun: PyTorch tries a stage and its loss first, to learn shapes."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._is_running = True
            return forward(*args, **kwargs)

        return run

    def count(self, num_micro_batches: int) -> int:
        """Return how many micro-batches a step of so many takes: what every schedule accepts."""
        stages = self._stages[0].num_stages
        return -(-num_micro_batches // stages) * stages

    def run(self, rows: Sequence[SharedRow], process: ProcessLogits, forward_only: bool) -> None:
        """Run micro-batches forward, and backward from the losses that ``process`` returns.

        Args:
            rows: M, of as many tokens each, see ``count``.
            process: Takes the number of a row and its logits [N, V]; only the process with the last
                stage calls it.
            forward_only: Makes no gradients; ``process`` may return None.
        """
        most = max(row.num_kept for row in rows)
        inputs = stack_rows([row.inputs() for row in rows])
        kept = torch.stack([row.kept(most) for row in rows])
        tokens = (inputs.pop("tokens"),) if self._has_first else ()
        inputs.pop("tokens", None)

        self._is_running = False

        def loss_of(logits: Tensor, number: Tensor) -> Tensor:
            if not self._is_running:
                return logits.sum()
            found = process(int(number), rows[int(number)].gather(logits))
            return logits.new_zeros(()) if found is None else found

        schedule = build_pipeline_schedule(self._stages, self._schedule, len(rows), loss_of)
        step = schedule.eval if forward_only else schedule.step
        target = torch.arange(len(rows)) if self._has_last else None
        with torch.set_grad_enabled(not forward_only):
            step(*tokens, target=target, return_outputs=False, logits_to_keep=kept, **inputs)

    def from_last(self, value: Any) -> Any:
        """Return what the process with the last stage passed."""
        box = [value]
        dist.broadcast_object_list(box, group=self.group, group_src=self.last)
        return box[0]

    def tensor_from_last(self, tensor: Tensor) -> Tensor:
        """Return the tensor of the process with the last stage; all pass one of its shape."""
        dist.broadcast(tensor, group=self.group, group_src=self.last)
        return tensor

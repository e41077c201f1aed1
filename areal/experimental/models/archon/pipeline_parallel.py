"""Pipeline parallelism: which layers each process has, and in which order microbatches run.

Sizes: S stages over all processes, p processes, n layers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    get_schedule_class,
)

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel.tie import copied_head, is_tied, tie_stages
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims

# Their processes hold a stage of the first half and its mirror image of the second.
_V_SCHEDULES = ("ZBVZeroBubble", "DualPipeV")


def generate_llm_fqn_per_model_part(
    num_stages: int,
    num_layers: int,
    first_stage_less_layers: int = 1,
    last_stage_less_layers: int = 1,
    is_critic: bool = False,
) -> list[list[str]]:
    """Return the names of the modules of each stage.

    Args:
        num_stages: S.
        num_layers: n.
        first_stage_less_layers: Layers that the embedding is worth.
        last_stage_less_layers: Layers that the final norm and the head are worth.
        is_critic: Whether the head is ``score``.

    Raises:
        ConfigError: A stage would have nothing to do.
    """
    head = ["norm", "score" if is_critic else "output"]
    names = [f"layers.{layer}" for layer in range(num_layers)]
    if num_stages == 1:
        return [["tok_embeddings", *names, *head]]
    share, more = divmod(num_layers + first_stage_less_layers + last_stage_less_layers, num_stages)
    counts = [share + (stage < more) for stage in range(num_stages)]
    counts[0] -= first_stage_less_layers
    counts[-1] -= last_stage_less_layers
    if num_stages < 1 or min(counts[0], counts[-1]) < 0 or not all(counts[1:-1]):
        raise ConfigError(
            f"{num_layers} layers over {num_stages} pipeline stages, the first with "
            f"{first_stage_less_layers} and the last with {last_stage_less_layers} fewer, leave a "
            "stage without work; use fewer stages or change the two numbers"
        )
    parts = []
    for count in counts:
        parts.append(names[:count])
        names = names[count:]
    parts[0].insert(0, "tok_embeddings")
    parts[-1].extend(head)
    return parts


def pipeline_module_split(
    whole_model: nn.Module,
    pp_mesh: DeviceMesh,
    pp_schedule: str,
    device: torch.device,
    module_names_per_stage: list[list[str]],
) -> tuple[list[PipelineStage], list[nn.Module]]:
    """Return this process's stages and their modules, which share the whole model's parameters.

    Args:
        whole_model: Must outlive nothing: the parts keep what they need.
        pp_mesh: The mesh of the pipeline.
        pp_schedule: Name of the schedule, which decides who has which stage.
        device: Where the stages run.
        module_names_per_stage: From ``generate_llm_fqn_per_model_part``.
    """
    total = len(module_names_per_stage)
    stages, parts = [], []
    for index in _own_stages(pp_mesh.get_local_rank(), pp_mesh.size(), total, pp_schedule):
        part = model_part(whole_model, module_names_per_stage[index])
        stages.append(PipelineStage(part, index, total, device, group=pp_mesh.get_group()))
        parts.append(part)
    return stages, parts


def model_part(model: nn.Module, names: Sequence[str]) -> nn.Module:
    """Return a model with only some of its modules; the others are None.

    What is declared before ``layers`` belongs to the embedding, and what is declared after to the
    head; modules without parameters, such as rotary tables, are everywhere. A head that is the
    embedding becomes a copy where the embedding is not kept.

    Args:
        model: Is not changed.
        names: "tok_embeddings", "layers.N", "norm", "output" or "score".
    """
    part = copy.copy(model)
    part._modules = dict(model._modules)
    kept = [name.removeprefix("layers.") for name in names if name.startswith("layers.")]
    part._modules["layers"] = nn.ModuleDict({name: model.layers[name] for name in kept})
    is_one = is_tied(model) and "tok_embeddings" not in names
    before_layers = True
    for name, module in model._modules.items():
        if name == "layers":
            before_layers = False
            continue
        has_parameters = module is not None and any(True for _ in module.parameters())
        anchors = ("tok_embeddings",) if before_layers else ("output", "score")
        if has_parameters and not any(anchor in names for anchor in anchors):
            part._modules[name] = None
    if is_one and "output" in names:
        part._modules["output"] = copied_head(model.output)
    return part


def pipeline_llm(
    model: nn.Module,
    device: torch.device,
    parallel_dims: ArchonParallelDims,
    archon_config: Any,
    parallelize_fn: Callable[..., nn.Module],
    **parallelize_kwargs: Any,
) -> tuple[list[PipelineStage], list[nn.Module], bool, bool]:
    """Cut a model into stages and split each along the other axes.

    Args:
        model: The whole model; has ``model_args``.
        device: Where it runs.
        parallel_dims: The axes.
        archon_config: Has ``pp_schedule``, ``pp_layers_per_stage``, ``pp_first_stage_less_layers``
            and ``pp_last_stage_less_layers``.
        parallelize_fn: The model's own.
        parallelize_kwargs: For it.

    Returns:
        This process's stages, their modules, and whether it has the first and the last stage.

    Raises:
        ConfigError: The layers do not fit.
    """
    is_one = is_tied(model)
    total = _num_stages(model.model_args.n_layers, parallel_dims.pp, archon_config)
    names = generate_llm_fqn_per_model_part(
        total,
        model.model_args.n_layers,
        archon_config.pp_first_stage_less_layers,
        archon_config.pp_last_stage_less_layers,
        is_critic=model.model_args.is_critic,
    )
    pp_mesh = parallel_dims.get_mesh("pp")
    stages, parts = pipeline_module_split(model, pp_mesh, archon_config.pp_schedule, device, names)
    for number, stage in enumerate(stages):
        parts[number] = parallelize_fn(parts[number], parallel_dims, **parallelize_kwargs)
        stage.submod = parts[number]
    if is_one:
        owners = {
            stage: rank
            for rank in range(pp_mesh.size())
            for stage in _own_stages(rank, pp_mesh.size(), total, archon_config.pp_schedule)
        }
        tie_stages(parts, owners[0], owners[total - 1])
    has_first = any(stage.is_first for stage in stages)
    return stages, parts, has_first, any(stage.is_last for stage in stages)


def build_pipeline_schedule(
    stages: list[PipelineStage],
    pp_schedule: str,
    n_microbatches: int,
    loss_fn: Callable[..., Tensor] | None = None,
) -> PipelineScheduleSingle | PipelineScheduleMulti:
    """Return what runs one step; make a new one when the number of tokens changes.

    Gradients of the microbatches are summed; the loss function sees to the mean.

    Args:
        stages: Of this process.
        pp_schedule: Name in ``torch.distributed.pipelining``.
        n_microbatches: Packed rows of a step.
        loss_fn: (output, target) -> loss; None runs forward only.
    """
    schedule = _schedule_class(pp_schedule)
    if issubclass(schedule, PipelineScheduleMulti):
        return schedule(stages, n_microbatches, loss_fn=loss_fn, scale_grads=False)
    if len(stages) != 1:
        raise ConfigError(f"schedule {pp_schedule} takes one stage per process, got {len(stages)}")
    return schedule(stages[0], n_microbatches, loss_fn=loss_fn, scale_grads=False)


def stack_rows(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Return packed rows as the inputs of a pipeline step, which cuts them up along dimension 0.

    Args:
        rows: Each has ``tokens`` [1, T], ``positions`` [1, T], ``cu_seqlens`` [B + 1] and
            ``max_seqlen``; B may differ, T may not.

    Returns:
        The same names: [M, T], [M, T], [M, max B + 1], [M]. Rows with fewer sequences end in empty
        ones.

    Raises:
        ConfigError: The rows have different numbers of tokens.
    """
    widths = {row["tokens"].shape[-1] for row in rows}
    if len(widths) != 1:
        raise ConfigError(
            f"pipeline stages exchange tensors of one size, and the rows have {sorted(widths)} "
            "tokens; pad them"
        )
    most = max(row["cu_seqlens"].numel() for row in rows)
    ends = [row["cu_seqlens"].reshape(-1) for row in rows]
    return {
        "tokens": torch.cat([row["tokens"] for row in rows]),
        "positions": torch.cat([row["positions"] for row in rows]),
        "cu_seqlens": torch.stack(
            [torch.cat([end, end[-1:].expand(most - end.numel())]) for end in ends]
        ),
        "max_seqlen": torch.tensor([int(row["max_seqlen"]) for row in rows]),
    }


def _schedule_class(name: str) -> type:
    try:
        return get_schedule_class(name)
    except ValueError as error:
        raise ConfigError(f"pp_schedule: {error}") from None


def _num_stages(num_layers: int, pp: int, config: Any) -> int:
    """Return S: what the schedule needs, or what the layers per stage make."""
    single = issubclass(_schedule_class(config.pp_schedule), PipelineScheduleSingle)
    if config.pp_layers_per_stage is None:
        return pp if single else 2 * pp
    worth = num_layers + config.pp_first_stage_less_layers + config.pp_last_stage_less_layers
    total = -(-worth // config.pp_layers_per_stage)
    per_process, left = divmod(total, pp)
    if left or (single and per_process != 1) or (not single and per_process < 2):
        wanted = "one stage" if single else "two or more stages"
        raise ConfigError(
            f"pp_layers_per_stage={config.pp_layers_per_stage} makes {total} stages over pp={pp}, "
            f"and {config.pp_schedule} needs {wanted} on each process"
        )
    return total


def _own_stages(rank: int, size: int, total: int, pp_schedule: str) -> tuple[int, ...]:
    if pp_schedule in _V_SCHEDULES:
        if total != 2 * size:
            raise ConfigError(f"{pp_schedule} has two stages per process, not {total} over {size}")
        return rank, total - 1 - rank
    return tuple(range(rank, total, size))

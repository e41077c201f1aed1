"""Applies a tensor-parallel plan to a model."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from areal.experimental.models.archon.parallel.styles import (
    AllTokens,
    OwnTokens,
    PerHead,
    Replicated,
    ScoreHead,
    SharedHeads,
    SharedPerHead,
    SharedProjectionNorm,
    VocabEmbedding,
    VocabHead,
)
from areal.experimental.models.archon.parallel.tie import is_tied, retie


def apply_tp(
    model: nn.Module,
    tp_mesh: DeviceMesh,
    block_plan: dict[str, ParallelStyle],
    *,
    loss_parallel: bool = True,
) -> None:
    """Split a model over tensor parallelism, with sequence parallelism between its modules.

    Args:
        model: Has ``layers``, and some of ``tok_embeddings``, ``pos_embeddings``, ``norm``,
            ``output`` and ``score``.
        tp_mesh: The mesh of tensor parallelism.
        block_plan: Style of each module of a block that is split; a name that a block does not
            have is passed over. Experts are split by ``apply_moe_ep_tp``, and all others are left
            for ``replicate_rest``.
        loss_parallel: Whether logits stay split by the vocabulary.
    """
    tied = is_tied(model)
    plan = _share_heads(block_plan, getattr(model.model_args, "n_kv_heads", None), tp_mesh.size())
    for block in model.layers.values():
        present = {name: style for name, style in plan.items() if _has(block, name)}
        parallelize_module(block, tp_mesh, present)
    parallelize_module(model, tp_mesh, _model_plan(model, loss_parallel))
    if tied:
        retie(model)


def replicate_rest(model: nn.Module, tp_mesh: DeviceMesh) -> None:
    """Replicate every parameter that no plan has distributed, with gradients that are summed.

    Left as it is, a parameter's gradient would silently lack the parts of the other processes.
    """
    for module in model.modules():
        Replicated()._apply(module, tp_mesh)


def _share_heads(
    plan: dict[str, ParallelStyle], n_kv_heads: int | None, tp_size: int
) -> dict[str, ParallelStyle]:
    """Return the plan for a model whose processes may have to share key-value heads."""
    if n_kv_heads is None or n_kv_heads % tp_size == 0:
        return plan
    shared = dict(plan)
    for name in plan:
        last = name.rpartition(".")[2]
        if last in ("k_norm", "v_norm"):
            is_by_head = isinstance(plan[name], PerHead)
            shared[name] = (SharedPerHead if is_by_head else SharedProjectionNorm)(n_kv_heads)
        if last in ("wk", "wv"):
            shared[name] = SharedHeads(n_kv_heads)
    return shared


def _model_plan(model: nn.Module, loss_parallel: bool) -> dict[str, ParallelStyle]:
    """Return the styles of the modules outside of the blocks, which have fixed names."""
    plan: dict[str, ParallelStyle] = {
        "tok_embeddings": VocabEmbedding(),
        "pos_embeddings": OwnTokens(),
        "norm": AllTokens(),
        "output": VocabHead(loss_parallel=loss_parallel),
        "score": ScoreHead(),
    }
    plan = {name: style for name, style in plan.items() if _has(model, name)}
    ends_here = "output" in plan or "score" in plan
    if ends_here and "norm" not in plan:
        plan[f"layers.{list(model.layers)[-1]}"] = AllTokens()
    return plan


def _has(module: nn.Module, name: str) -> bool:
    for part in name.split("."):
        module = getattr(module, part, None)
        if module is None:
            return False
    return True

"""Checks of a model's sizes against the axes of parallelism, before anything is split."""

from __future__ import annotations

from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


def is_moe_model_config(hf_config: Any) -> bool:
    """Return whether a Hugging Face config names experts, under any of the usual fields."""
    names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return any((getattr(hf_config, name, None) or 0) > 1 for name in names)


def validate_tp_constraints(model_args: Any, tp_size: int) -> None:
    """Check that every matrix divides over tensor parallelism.

    Raises:
        ConfigError: A size does not divide; the message names both.
    """
    _check_divides(model_args.n_heads, "n_heads", tp_size, "tp")
    n_kv_heads = getattr(model_args, "n_kv_heads", None)
    # Latent attention makes keys and values for every query head.
    is_latent = bool(getattr(model_args, "kv_lora_rank", None))
    if n_kv_heads and not is_latent and n_kv_heads % tp_size and tp_size % n_kv_heads:
        raise ConfigError(
            f"n_kv_heads={n_kv_heads} and tp={tp_size}: one of them must divide the other, so that "
            "key-value heads can be shared out, or shared"
        )
    for name in ("hidden_dim", "hidden_dims"):
        for width in _as_tuple(getattr(model_args, name, None)):
            _check_divides(width, name, tp_size, "tp")


def validate_cp_constraints(model_args: Any, cp_size: int, tp_size: int = 1) -> None:
    """Check that the heads of each tensor-parallel process divide over context parallelism.

    Key-value heads may be fewer than processes: they are then repeated.

    Raises:
        ConfigError: A size does not divide; the message names both.
    """
    _check_divides(model_args.n_heads, "n_heads", tp_size * cp_size, "tp * cp")
    n_kv_heads = getattr(model_args, "n_kv_heads", None) or model_args.n_heads
    local = max(n_kv_heads // tp_size, 1)
    if local % cp_size and cp_size % local:
        raise ConfigError(
            f"n_kv_heads / tp = {local} and cp={cp_size}: one of them must divide the other, so "
            "that key-value heads can be shared out or repeated"
        )


def validate_ep_constraints(
    model_args: Any, ep_size: int, tp_size: int = 1, etp_size: int = 1
) -> None:
    """Check that there are experts and that they divide over expert parallelism.

    Raises:
        ConfigError: The model has none, or a size does not divide; the message names both.
    """
    moe_args = getattr(model_args, "moe_args", None)
    if moe_args is None:
        raise ConfigError(f"ep={ep_size}, but the model has no experts")
    _check_divides(moe_args.num_experts, "num_experts", ep_size, "ep")
    if etp_size > 1:
        _check_divides(getattr(model_args, "moe_inter_dim", None), "moe_inter_dim", tp_size, "etp")


def validate_parallelism(model_args: Any, parallel_dims: ArchonParallelDims) -> None:
    """Check all sizes of a model against all axes that are split.

    Raises:
        ConfigError: A size does not divide; the message names both.
    """
    dims = parallel_dims
    if dims.tp_enabled:
        validate_tp_constraints(model_args, dims.tp)
    if dims.cp_enabled:
        validate_cp_constraints(model_args, dims.cp, dims.tp)
    if dims.ep_enabled:
        validate_ep_constraints(model_args, dims.ep, dims.tp, dims.etp)
    elif dims.tp_enabled and getattr(model_args, "moe_args", None) is not None:
        inner = getattr(model_args, "moe_inter_dim", None)
        _check_divides(inner, "moe_inter_dim", dims.tp, "tp")


def _check_divides(size: int | None, name: str, parts: int, axis: str) -> None:
    if size is not None and size % parts:
        raise ConfigError(f"{name}={size} does not divide over {axis}={parts}")


def _as_tuple(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(v for v in value if v) if isinstance(value, tuple | list) else (value,)

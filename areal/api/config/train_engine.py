"""The engine that trains a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.config.backends import allocation_of
from areal.api.config.batch import MicroBatchSpec
from areal.api.config.check import above, absent, at_least, fail, one_of
from areal.api.config.cluster import SchedulingSpec, SchedulingStrategy
from areal.api.config.defaults import ours
from areal.api.config.optimizer import OptimizerConfig
from areal.api.constants import MISSING

_DTYPES = ("auto", "bfloat16", "float16", "float32")


@dataclass
class FSDPEngineConfig:
    """Sets the FSDP2 engine for Hugging Face models; ``wrap_policy`` must stay null."""

    wrap_policy: Any = None
    offload_params: bool = False
    memory_efficient_load: bool = False
    per_layer_optim_step: bool = False
    optim_step_prefetch_layers: int = 1
    shard_vision_across_sp: bool = False

    def __post_init__(self) -> None:
        absent(self, "wrap_policy", "decoder layers are found by themselves and wrapped one by one")


@dataclass
class ArchonEngineConfig:
    """Sets the Archon engine; ``fp8_config`` must stay null."""

    attn_type: str = "varlen"
    offload_params: bool = False
    enable_compile: bool = False
    ac_mode: str = "selective"
    selective_ac_option: str = "op"
    ac_memory_budget: float = 0.5
    ac_preserve_rng_state: bool = False
    ac_debug: bool = False
    pp_schedule: str = "Interleaved1F1B"
    pp_layers_per_stage: int | None = None
    pp_first_stage_less_layers: int = 1
    pp_last_stage_less_layers: int = 1
    reshard_after_forward_policy: str = "default"
    fp8_config: Any = None
    use_deterministic_algorithms: bool = False
    moe_router_dtype: str | None = "fp32"

    def __post_init__(self) -> None:
        one_of(self, "attn_type", ("varlen", "sdpa", "tree"))
        one_of(self, "ac_mode", ("none", "full", "selective", "memory_budget"))
        one_of(self, "reshard_after_forward_policy", ("default", "always", "never"))
        at_least(self, 1, "pp_layers_per_stage")
        at_least(self, 0, "pp_first_stage_less_layers", "pp_last_stage_less_layers")
        if not 0 <= self.ac_memory_budget <= 1:
            fail(self, "ac_memory_budget", "lie in [0, 1]", self.ac_memory_budget)
        if self.moe_router_dtype is not None:
            one_of(self, "moe_router_dtype", ("fp32",))
        absent(self, "fp8_config", "this package does not train in 8-bit floating point")


def _rpc_worker() -> tuple[SchedulingSpec, ...]:
    return (SchedulingSpec(cmd="python -m areal.infra.rpc.rpc_server"),)


@dataclass
class TrainEngineConfig:
    """Describes a model under training, its engine and its optimiser.

    ``path`` is a local folder or a hub id. ``temperature`` divides the logits before log-softmax
    and must be that of generation. ``optimizer`` null makes a model that is only evaluated.
    ``mb_spec`` bounds the memory of a step. "auto" for ``attn_impl`` and ``dtype`` chooses by
    device. Time limits are in seconds.
    """

    experiment_name: str = MISSING
    trial_name: str = MISSING
    path: str = ""
    attn_impl: str = ours("actor.attn_impl")
    use_kernels: bool = False
    init_from_scratch: bool = False
    is_critic: bool = False
    temperature: float = 1.0
    logprobs_chunk_size: int = 1024
    mb_spec: MicroBatchSpec = field(default_factory=MicroBatchSpec)
    pad_to_maximum: bool = False
    disable_dropout: bool = False
    gradient_checkpointing: bool = False
    dtype: str = ours("actor.dtype")
    grad_reduce_dtype: str = "float32"
    optimizer_dtype: str = "float32"
    optimizer: OptimizerConfig | None = None
    weight_update_mode: str = "xccl"
    enable_delta_weight_update: bool = False
    weight_update_delta_method: str = "adamw"
    weight_update_anchor_interval: int = 0
    fsdp: FSDPEngineConfig = field(default_factory=FSDPEngineConfig)
    archon: ArchonEngineConfig = field(default_factory=ArchonEngineConfig)
    megatron: Any = None
    offload: bool = False
    use_lora: bool = False
    lora_rank: int = 32
    lora_alpha: int = 16
    target_modules: list[str] = field(default_factory=list)
    peft_type: str = "lora"
    enable_tree_training: bool = False
    scheduling_spec: tuple[SchedulingSpec, ...] = field(default_factory=_rpc_worker)
    backend: str = ours("actor.backend")
    _version: str = "v1"
    admin_api_key: str = "areal-admin-key"
    log_level: str = "warning"
    request_timeout: float = 3600.0
    setup_timeout: float = 3600.0
    workers_ready_timeout: float = 30.0
    scheduling_strategy: SchedulingStrategy = field(default_factory=SchedulingStrategy)

    def __post_init__(self) -> None:
        for name in ("dtype", "grad_reduce_dtype", "optimizer_dtype"):
            one_of(self, name, _DTYPES if name == "dtype" else _DTYPES[1:])
        one_of(self, "weight_update_mode", ("disk", "http", "xccl", "awex"))
        above(self, 0, "temperature", "request_timeout", "setup_timeout", "workers_ready_timeout")
        at_least(self, 1, "logprobs_chunk_size", "lora_rank", "lora_alpha")
        at_least(self, 0, "weight_update_anchor_interval")
        absent(self, "megatron", "this package has no Megatron engine; use archon or fsdp")
        one_of(self, "_version", ("v1",))
        if self.optimizer is not None:
            self.optimizer.check_warmup()
        if not allocation_of(self).trains:
            fail(self, "backend", "name a train engine (fsdp or archon)", self.backend)


@dataclass
class DPOEngineConfig(TrainEngineConfig):
    """Adds the preference loss: its temperature ``beta`` and its form, "sigmoid" or "ipo"."""

    beta: float = 0.1
    loss_type: str = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "beta")
        one_of(self, "loss_type", ("sigmoid", "ipo"))

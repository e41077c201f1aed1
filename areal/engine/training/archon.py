"""The train engine for Archon models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import ModelSpecConfig, TrainEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec
from areal.engine.loading.archon import (
    load_archon_model,
    make_archon_model,
    prepare_archon_model,
)
from areal.engine.model.archon import ArchonCausalLM
from areal.engine.training.engine import PackedTrainEngine, model_device

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Of PyTorch's schedules those whose backward is one piece.
PP_SCHEDULES = ("1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS")


class ArchonTrainEngine(PackedTrainEngine):
    """Trains an Archon model."""

    lm: ArchonCausalLM

    @classmethod
    def make_model(
        cls,
        config: TrainEngineConfig,
        spec: ModelSpecConfig,
        tokenizer: PreTrainedTokenizerBase,
        dtype: torch.dtype,
        device: torch.device,
    ) -> ArchonCausalLM:
        check_archon_options(config)
        where, is_whole = model_device(config, device)
        lm = make_archon_model(spec, tokenizer, dtype, where, config.archon, config.is_critic)
        return prepare_archon_model(lm) if is_whole else lm

    @classmethod
    def load_model(
        cls,
        config: TrainEngineConfig,
        dtype: torch.dtype,
        device: torch.device,
        fresh_seed: int | None = None,
    ) -> ArchonCausalLM:
        check_archon_options(config)
        where, is_whole = model_device(config, device)
        lm = load_archon_model(
            config.path, dtype, where, config.archon, fresh_seed, config.is_critic
        )
        return prepare_archon_model(lm) if is_whole else lm

    def _check_backend(self) -> None:
        check_archon_options(self.config)
        if not isinstance(self.lm, ArchonCausalLM):
            raise ConfigError(
                f"actor.backend {self.config.backend!r} trains Archon models; "
                f"{type(self.module).__name__} is Hugging Face's, which fsdp:d1 trains"
            )

    def initialize(self, addr: Any = None, ft_spec: FinetuneSpec | None = None, **_: Any) -> None:
        if self.lm.dropouts and not self.config.disable_dropout and self.config.optimizer:
            found = ", ".join(f"{name} {value:g}" for name, value in self.lm.dropouts.items())
            raise ConfigError(
                f"the model's configuration asks for dropout ({found}), which Archon models do "
                "not have; set actor.disable_dropout=true to train without it"
            )
        if self.config.archon.use_deterministic_algorithms:
            torch.use_deterministic_algorithms(True)
        super().initialize(addr, ft_spec)

    @property
    def world_mesh(self) -> DeviceMesh:
        """The mesh of all processes."""
        return self._require_place().dims.world_mesh

    @property
    def pipeline_parallel_rank(self) -> int:
        """This process's place among those that share the layers."""
        group = None if self._place is None else self._place.dims.get_group("pp")
        return 0 if group is None else group.rank()

    def is_pipeline_parallel_head(self) -> bool:
        """Return True in the process that speaks for the stages of its pipeline rank."""
        if self._place is None:
            return True
        groups = [self._place.dims.get_group(name) for name in ("dp", "cp", "tp")]
        return all(group is None or group.rank() == 0 for group in groups)

    @property
    def _offloads_params(self) -> bool:
        return self.config.archon.offload_params


def check_archon_options(config: TrainEngineConfig) -> None:
    """Refuse settings of the archon backend that would have no effect, or are not there.

    Raises:
        ConfigError: It names the key and what to set.
    """
    allocation = ModelAllocation.from_str(config.backend)
    if allocation.backend != "archon":
        raise ConfigError(f"actor.backend {config.backend!r} is not an archon backend")
    split, options = allocation.parallel, config.archon
    problems = [
        (
            split.pp_size > 1 and options.pp_schedule not in PP_SCHEDULES,
            f"archon.pp_schedule={options.pp_schedule!r} is not available: it cannot run forward "
            f"alone, as evaluation does; use {' or '.join(PP_SCHEDULES)}",
        ),
        (
            config.enable_tree_training or options.attn_type == "tree",
            "enable_tree_training and archon.attn_type=tree: there is no tree attention here; "
            "use archon.attn_type=varlen",
        ),
        (
            options.offload_params and split.world_size == 1,
            "archon.offload_params moves the shards of several processes to the CPU; with one "
            "process set it to false",
        ),
    ]
    for is_set, message in problems:
        if is_set:
            raise ConfigError(f"actor.{message}")

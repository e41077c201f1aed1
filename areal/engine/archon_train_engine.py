"""The train engine for Archon models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from areal.api.cli_args import ModelSpecConfig, TrainEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec
from areal.engine.archon_lm import ArchonCausalLM, load_archon_model, make_archon_model
from areal.engine.train_engine import PackedTrainEngine, check_single_process
from areal.experimental.models.archon.compile import apply_compile

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
        return make_archon_model(spec, tokenizer, dtype, device, config.archon)

    @classmethod
    def load_model(
        cls,
        config: TrainEngineConfig,
        dtype: torch.dtype,
        device: torch.device,
        fresh_seed: int | None = None,
    ) -> ArchonCausalLM:
        check_archon_options(config)
        return load_archon_model(config.path, dtype, device, config.archon, fresh_seed)

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
        if self.config.archon.enable_compile:
            apply_compile(self.module)


def check_archon_options(config: TrainEngineConfig) -> None:
    """Refuses settings of the archon backend that would have no effect, or are not there.

    Raises:
        ConfigError: It names the key and what to set.
    """
    check_single_process(config.backend, "archon")
    options = config.archon
    problems = [
        (
            config.enable_tree_training or options.attn_type == "tree",
            "enable_tree_training and archon.attn_type=tree: there is no tree attention here; "
            "use archon.attn_type=varlen",
        ),
        (
            options.offload_params,
            "archon.offload_params moves the shards of several processes to the CPU; with one "
            "process set it to false",
        ),
    ]
    for is_set, message in problems:
        if is_set:
            raise ConfigError(f"actor.{message}")

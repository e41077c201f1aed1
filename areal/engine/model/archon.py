"""Archon models as the engines run them: called on packed batches, shared out, saved.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary, B sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from areal.api.cli_args import ArchonEngineConfig
from areal.api.errors import ConfigError
from areal.engine.model.attention import AttentionPlan
from areal.engine.model.causal_lm import (
    UNLIMITED,
    CausalLM,
    HeadInputs,
    PackedInputs,
    ProcessLogits,
    T,
)
from areal.engine.model.checkpoint import copied
from areal.engine.model.pipeline import Pipeline
from areal.engine.model.shared_row import SharedRow
from areal.engine.processes import is_first
from areal.experimental.models.archon import ModelSpec
from areal.experimental.models.archon.activation_checkpoint import (
    ActivationCheckpointConfig,
    apply_ac,
)
from areal.experimental.models.archon.base import BaseArchonModel
from areal.experimental.models.archon.compile import apply_compile
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.parallel import sum_tied_gradients
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.state_dict import (
    hub_tensors,
    load_checkpoint,
    save_checkpoint,
)
from areal.experimental.models.archon.state_dict.adapter import unwrapped
from areal.experimental.models.archon.state_dict.shards import write_shards

# Rope kinds whose frequencies change with the length of the sequence, beyond the length that the
# model was pretrained on. Cached keys keep those of the length at which they were computed.
_LENGTH_DEPENDENT = ("dynamic", "longrope")


class ArchonCausalLM(CausalLM):
    """An Archon model with what its files need.

    Args:
        module: The model.
        hf_config: The Hugging Face configuration that it was made from.
        spec: What the package knows of its model_type.
        options: Of the engine.
        try_plans: Refuses, by a ConfigError, a model that plans cannot steer.

    Attributes:
        source: Folder of the checkpoint it came from, whose generation settings are kept.
    """

    source: str | None = None
    recomputed: ActivationCheckpointConfig | None = None  # what the backward computes again

    def __init__(
        self,
        module: BaseArchonModel,
        hf_config: Any,
        spec: ModelSpec,
        options: ArchonEngineConfig,
        try_plans: Callable[[ArchonCausalLM], None],
    ) -> None:
        super().__init__(module)
        self._try_plans = try_plans
        self._pipeline: Pipeline | None = None
        self.args: Any = module.model_args
        self.is_causal = module.is_causal
        self.hf_config = hf_config
        self.spec = spec
        self.options = options
        self.adapter = spec.state_dict_adapter_class(hf_config, is_critic=self.args.is_critic)
        self.num_layers = self.args.n_layers
        self.vocab_size = self.args.vocab_size
        self.num_embeddings = len(module.tok_embeddings.weight)
        self.max_length = _max_length(hf_config.get_text_config(), self.args)

    def logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None = None,
        keep_N: Tensor | None = None,
    ) -> Tensor:
        if self.dims is not None:
            return self._shared_logits(tokens_T, positions_T, lengths, keep_N, self.dims)
        out = self._forward(tokens_T, positions_T, lengths, plan, keep_N)
        return out if keep_N is not None else out[0]

    def packed_head_inputs(self, batch: PackedInputs) -> HeadInputs | None:
        module: Any = self.module
        is_decoder = isinstance(module, BaseDecoder) and not self.args.is_critic
        # Where processes share the head, its parameters are only whole while the model runs.
        if self.dims is not None or not is_decoder:
            return None
        row = (batch.tokens_T, batch.positions_T, batch.lengths, None, batch.keep_N)
        hidden_ND = self._forward(*row, without_head=True)
        return HeadInputs(hidden_ND, module.logits, tuple(module.output.parameters()))

    def _forward(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None,
        keep_N: Tensor | None,
        **options: Any,
    ) -> Tensor:
        ends_B1 = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
        return self.module(
            tokens_T[None],
            positions_T[None],
            ends_B1.to(tokens_T.device),
            max(lengths),
            logits_to_keep=keep_N,
            attention_plan=plan,
            **options,
        )

    def wrap(
        self, dims: ArchonParallelDims | None, reduce_dtype: torch.dtype, cpu_offload: bool
    ) -> None:
        options = self.options
        if dims is None:
            apply_ac(self.module, self.recomputed, model_compile_enabled=options.enable_compile)
            if options.enable_compile:
                apply_compile(self.module)
            return
        how: dict[str, Any] = {
            "param_dtype": self.dtype,
            "reduce_dtype": reduce_dtype,
            "loss_parallel": False,
            "cpu_offload": cpu_offload,
            "reshard_after_forward_policy": options.reshard_after_forward_policy,
            "ac_config": self.recomputed,
            "enable_compile": options.enable_compile,
        }
        if dims.pp_enabled:
            self._pipeline = Pipeline(self.module, dims, options, self.spec.parallelize_fn, **how)
            # The layers of other stages are let go.
            self.module = nn.ModuleList(self._pipeline.parts)
        else:
            self.spec.parallelize_fn(self.module, dims, **how)
        self.dims = dims

    def _shared_logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        keep_N: Tensor | None,
        dims: ArchonParallelDims,
    ) -> Tensor:
        """Return the logits [N, V] of a packed row on every process that shares it."""
        row = SharedRow(
            tokens_T, positions_T, lengths, keep_N, dims.seq_len_divisor, dims.get_group("cp")
        )
        return row.gather(
            self.module(*row.inputs().values(), logits_to_keep=row.kept(row.num_kept))
        )

    def run(
        self,
        batches: Sequence[PackedInputs],
        process: ProcessLogits,
        forward_only: bool,
        chunk_size: int | None = None,
    ) -> None:
        if self._pipeline is None or self.dims is None:
            super().run(batches, process, forward_only, chunk_size)
            return
        dims = self.dims
        longest = max(len(batch.tokens_T) for batch in batches)
        # Stages exchange tensors of one size.
        total = -(-longest // dims.seq_len_divisor) * dims.seq_len_divisor
        group = dims.get_group("cp")
        rows = [
            SharedRow(b.tokens_T, b.positions_T, b.lengths, b.keep_N, total, group) for b in batches
        ]
        self._pipeline.run(rows, process, forward_only)

    def count(self, num_micro_batches: int) -> int:
        pipeline = self._pipeline
        return num_micro_batches if pipeline is None else pipeline.count(num_micro_batches)

    def finish_gradients(self) -> None:
        if self._pipeline is not None:
            sum_tied_gradients(self._pipeline.parts, self._pipeline.group)

    def from_last_layers(self, value: T) -> T:
        return value if self._pipeline is None else self._pipeline.from_last(value)

    def require_plans(self) -> None:
        if self.dims is not None:
            raise ConfigError("a model that several processes share does not generate here")
        if self.options.enable_compile:
            raise ConfigError(
                "actor.archon.enable_compile is for training alone: each step of the embedded "
                "engine has other shapes, and compiling for them takes longer than it saves; set "
                "it to false"
            )
        self._try_plans(self)

    def enable_checkpointing(self) -> None:
        """Note the value of ``ac_mode`` for ``wrap``."""
        options = self.options
        self.recomputed = ActivationCheckpointConfig(
            mode=options.ac_mode,
            selective_ac_option=options.selective_ac_option,
            memory_budget=options.ac_memory_budget,
            preserve_rng_state=options.ac_preserve_rng_state,
            debug=options.ac_debug,
        )

    def turn_off_dropout(self) -> None:
        """Do nothing: Archon models have no dropout."""

    @property
    def dropouts(self) -> dict[str, float]:
        """What the configuration asks for and no Archon model does."""
        fields = vars(self.hf_config.get_text_config()).items()
        return {
            name: value
            for name, value in fields
            if ("dropout" in name or "pdrop" in name) and isinstance(value, float) and value
        }

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name, parameter in super().named_parameters():
            # Recomputed and compiled blocks put their wrappers into the names.
            own = unwrapped(name if self._pipeline is None else name.partition(".")[2])
            holders = self.adapter.plan.holders.get(own, [])
            # As Hugging Face's model calls it, where it has the same one.
            is_same = len(holders) == 1 and all(piece.is_whole for piece in holders[0].pieces)
            yield holders[0].name if is_same else own, parameter

    def full_parameters(self, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
        return hub_tensors(self._parts, self.adapter, dtype, self._stage_group)

    @property
    def _parts(self) -> list[nn.Module]:
        """What this process has of the model."""
        return [self.module] if self._pipeline is None else self._pipeline.parts

    @property
    def _stage_group(self) -> dist.ProcessGroup | None:
        """The processes that have other layers, None where this one has all."""
        return None if self._pipeline is None else self._pipeline.group

    def write(self, folder: Path, tokenizer: Any = None) -> None:
        save_checkpoint(self._parts, folder, self.adapter, pp_group=self._stage_group)
        if is_first():
            self._write_beside(folder, tokenizer)

    def _write_beside(self, folder: Path, tokenizer: Any) -> None:
        task = None
        if self.args.is_critic:
            task = "token" if self.is_causal else "sequence"
        write_config(self.hf_config, self.dtype, folder, self.source, task)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)

    def stage(self) -> Callable[[Path, Any], None]:
        tensors = copied(self.full_parameters())

        def write(folder: Path, tokenizer: Any = None) -> None:
            write_shards(folder, tensors)
            self._write_beside(folder, tokenizer)

        return write

    def read(self, folder: str | Path) -> None:
        for part in self._parts:
            load_checkpoint(part, folder, self.adapter)


def _max_length(config: Any, args: Any) -> int:
    """Return how long a sequence may become by generation."""
    limits = [getattr(config, "max_position_embeddings", None) or UNLIMITED]
    for value in vars(args).values():
        if isinstance(value, RopeArgs) and value.kind in _LENGTH_DEPENDENT:
            original = value.scaling.get("original_max_position_embeddings")
            limits.append(original or value.max_position_embeddings)
    return min(limits)


def write_config(
    hf_config: Any,
    dtype: torch.dtype,
    folder: Path,
    source: str | None,
    scores: Literal["token", "sequence"] | None = None,
) -> None:
    """Write ``config.json``, and ``generation_config.json`` where the source has one.

    Args:
        hf_config: What is written.
        dtype: Of the parameters.
        folder: Where.
        source: Folder that the model came from, or None.
        scores: What a critic gives a score; None for a language model.
    """
    from transformers import GenerationConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    )

    if scores is not None:
        known = MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES
        if scores == "sequence":
            known = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
        # Of some types there is none in transformers, and then this package alone reads the folder.
        name = known.get(hf_config.model_type)
        hf_config.architectures = None if name is None else [name]
    elif not hf_config.architectures:
        hf_config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[hf_config.model_type]]
    hf_config.dtype = dtype
    hf_config.save_pretrained(folder)
    if (
        source is not None
        and scores is None
        and (Path(source) / "generation_config.json").is_file()
    ):
        GenerationConfig.from_pretrained(source).save_pretrained(folder)

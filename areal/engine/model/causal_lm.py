"""What the engines ask of a language model, whoever wrote it.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from areal.api.errors import ConfigError
from areal.engine.model.attention import (
    AttentionPlan,
    PackedPlan,
    UlyssesPlan,
    require_planned_attention,
)
from areal.engine.model.checkpoint import (
    copied,
    hub_tensors,
    load_hf_weights,
    whole_tensors,
    write_hf_model,
)
from areal.engine.model.fsdp import shard_hf_model
from areal.engine.model.shared_row import SharedRow
from areal.engine.model.tensor_plan import split_by_plan
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims

if TYPE_CHECKING:
    from areal.engine.model.image_text import Sight

UNLIMITED = 1 << 30

T = TypeVar("T")


@dataclass(frozen=True)
class HeadInputs:
    """What a head makes logits [N, V] of, in the place of these.

    Args:
        hidden_ND: Normed hidden states.
        head: Gives the logits of some of them.
        parameters: The head's.
    """

    hidden_ND: Tensor
    head: Callable[[Tensor], Tensor]
    parameters: tuple[nn.Parameter, ...]

    def sum(self) -> Tensor:
        """Return a number that depends on the model, for a loss of nothing."""
        return self.hidden_ND.sum()


# Takes the number of a micro-batch and its logits [N, V].
ProcessLogits = Callable[[int, Any], Tensor | None]


@dataclass(frozen=True)
class PackedInputs:
    """A micro-batch as a model takes it.

    Args:
        tokens_T: Ids, int64.
        positions_T: Of each token in its own sequence.
        lengths: Tokens of each sequence, in packed order.
        keep_N: Indices of the tokens whose logits are wanted, ascending where no token is shared.
        sights: What each sequence looks at; () where none has images.
        places: Where each token of the sequences is in the batch, which has those that sequences
            share once; None where they follow one another.
        distances_UC: Makes trees of them; see ``PackedPlan``.
    """

    tokens_T: Tensor
    positions_T: Tensor
    lengths: list[int]
    keep_N: Tensor
    sights: Sequence[Sight | None] = ()
    places: Tensor | None = None
    distances_UC: Tensor | None = None


class CausalLM(ABC):
    """Runs, saves and loads a module; the embedded engine and the train engines share one.

    Args:
        module: The model's parameters are this module's, and no copy is made of them.

    Attributes:
        num_layers: Layers that attend, as plans count them.
        vocab_size: Width of the logits.
        num_embeddings: Tokens that a prompt may hold.
        max_length: Tokens of a sequence, at most.
        dims: How several processes share the model; None before ``split``, and for one process.
        takes_images: Whether it is an ``ImageTextLM``.
        is_causal: Whether what a token gets depends on earlier tokens alone.
        shares_tokens: Whether sequences of a packed batch may have tokens in common.
    """

    num_layers: int
    vocab_size: int
    num_embeddings: int
    max_length: int
    dims: ArchonParallelDims | None = None
    takes_images: ClassVar[bool] = False
    is_causal: bool = True

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    @property
    def shares_tokens(self) -> bool:
        return False

    @property
    def prefills_in_pieces(self) -> bool:
        """Whether what it makes of a token is the same where later ones are not known yet."""
        return True

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the parameters."""
        return next(self.module.parameters()).dtype

    @abstractmethod
    def logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None = None,
        keep_N: Tensor | None = None,
    ) -> Tensor:
        """Return the logits [N, V] of some tokens of a packed batch.

        Args:
            tokens_T: Ids, int64.
            positions_T: Of each token in its own sequence.
            lengths: Tokens of each sequence, in packed order.
            plan: How tokens attend; None attends causally inside each sequence.
            keep_N: Indices into the batch; None keeps all.
        """

    def packed_logits(self, batch: PackedInputs, plan: AttentionPlan | None = None) -> Tensor:
        """Return the logits [N, V] of what a packed batch keeps."""
        return self.logits(batch.tokens_T, batch.positions_T, batch.lengths, plan, batch.keep_N)

    def packed_head_inputs(self, batch: PackedInputs) -> HeadInputs | None:
        """Return what the head takes of what a packed batch keeps; None where it is not apart."""
        return None

    @abstractmethod
    def require_plans(self) -> None:
        """Refuse a model that plans cannot steer; the embedded engine needs one that they can.

        Raises:
            ConfigError: It would generate with another policy than the one that is trained.
        """

    def run(
        self,
        batches: Sequence[PackedInputs],
        process: ProcessLogits,
        forward_only: bool,
        chunk_size: int | None = None,
    ) -> None:
        """Run micro-batches forward, and backward from the losses that ``process`` returns.

        Args:
            batches: The micro-batches.
            process: Takes the number of a micro-batch and its logits [N, V]; processes without the
                last layers do not call it.
            forward_only: Makes no gradients; ``process`` may return None.
            chunk_size: Tokens whose logits may be in memory at once: of more, ``process`` gets
                ``HeadInputs`` where the head is apart. None for logits always.
        """
        for number, batch in enumerate(batches):
            with torch.set_grad_enabled(not forward_only):
                is_long = chunk_size is not None and len(batch.keep_N) > chunk_size
                inputs = self.packed_head_inputs(batch) if is_long else None
                loss = process(number, self.packed_logits(batch) if inputs is None else inputs)
            if not forward_only and loss is not None:
                loss.backward()

    def count(self, num_micro_batches: int) -> int:
        """Return how many micro-batches ``run`` takes where so many are there."""
        return num_micro_batches

    def finish_gradients(self) -> None:  # noqa: B027  (most models have nothing to do)
        """Complete the gradients of a step, which are clipped next."""

    def from_last_layers(self, value: T) -> T:
        """Return what was passed by a process that has the last layers, and so the logits."""
        return value

    @abstractmethod
    def enable_checkpointing(self) -> None:
        """Let the backward pass compute activations again instead of keeping them."""

    @abstractmethod
    def wrap(
        self, dims: ArchonParallelDims | None, reduce_dtype: torch.dtype, cpu_offload: bool
    ) -> None:
        """Make the model ready for training, and share it among processes.

        Args:
            dims: In how many parts; None keeps it whole. Each process has all of it before.
            reduce_dtype: In which gradients are summed over processes.
            cpu_offload: Whether shards and gradients stay in host memory.

        Raises:
            ConfigError: A size of the model does not divide.
        """

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield this process's parameters by the names that they have in every split.

        They are those on the Hub where a parameter is one tensor there.
        """
        for module in self.module.modules():
            if isinstance(module, FSDPModule):
                module.reshard()  # After a forward alone some are still gathered.
        return self.module.named_parameters()

    @abstractmethod
    def full_parameters(self, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor of the model under its name on the Hub; all processes iterate.

        What several processes share is gathered layer by layer, and nothing is kept, so memory
        beside the model is that of one layer.

        Args:
            dtype: Of floating-point tensors; None keeps what they have.
        """

    @abstractmethod
    def write(self, folder: Path, tokenizer: Any = None) -> None:
        """Write weights, configuration and tokenizer so that transformers reads the folder."""

    @abstractmethod
    def stage(self) -> Callable[[Path, Any], None]:
        """Copy what ``write`` writes to host memory; all processes call it.

        Returns:
            ``write`` for the copy. The first process calls it, in any thread, at any later time.
        """

    def write_merged(self, folder: Path, tokenizer: Any = None) -> None:
        """Write the whole model as ``write`` does, with an adapter merged into its weights."""
        self.write(folder, tokenizer)

    @abstractmethod
    def read(self, folder: str | Path) -> None:
        """Copy the weights of a checkpoint folder into the module in place, all or nothing.

        Raises:
            ConfigError: There is no checkpoint, it is damaged, or it is another model's.
        """

    def turn_off_dropout(self) -> None:
        """Set every dropout probability to 0, in training mode too.

        Leaving the model in evaluation mode instead would also turn off activation checkpointing.
        """
        for module in self.module.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            for name, value in vars(module).items():
                if isinstance(value, float) and ("dropout" in name or "pdrop" in name):
                    setattr(module, name, 0.0)


class HFCausalLM(CausalLM):
    """A Hugging Face model whose attention follows plans.

    Args:
        module: A model that ``areal.engine.loading.huggingface`` made, loaded or prepared.

    Raises:
        ConfigError: It is another one; its attention would ignore where sequences begin.
    """

    def __init__(self, module: nn.Module) -> None:
        require_planned_attention(module)
        super().__init__(module)
        model: Any = module
        config = model.config.get_text_config()
        self.num_layers = config.num_hidden_layers
        self.vocab_size = config.vocab_size
        self.num_embeddings = len(model.get_input_embeddings().weight)
        self.max_length = getattr(config, "max_position_embeddings", None) or UNLIMITED
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    @property
    def shares_tokens(self) -> bool:
        return self.dims is None and not self.takes_images

    @property
    def prefills_in_pieces(self) -> bool:
        return _length_dependent_rope(self.module) is None

    def packed_logits(self, batch: PackedInputs, plan: AttentionPlan | None = None) -> Tensor:
        if plan is None and self.shares_tokens:
            plan = PackedPlan(
                batch.lengths, batch.tokens_T.device, batch.places, batch.distances_UC
            )
        return super().packed_logits(batch, plan)

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
        return self._own_logits(tokens_T, positions_T, lengths, plan, keep_N)

    def _own_logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None = None,
        keep_N: Tensor | None = None,
        images: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        kwargs: dict[str, Any] = dict(images or {})
        is_kept = keep_N is not None and self._takes_logits_to_keep
        if is_kept:
            kwargs["logits_to_keep"] = keep_N
        out = self.module(
            input_ids=tokens_T[None],
            position_ids=positions_T.unsqueeze(-2),  # [1, T], or [A, 1, T] of several axes
            use_cache=False,
            attention_plan=PackedPlan(lengths, tokens_T.device) if plan is None else plan,
            **kwargs,
        )
        logits = out.logits[0]
        return logits[keep_N] if keep_N is not None and not is_kept else logits

    def _shared_logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        keep_N: Tensor | None,
        dims: ArchonParallelDims,
    ) -> Tensor:
        """Return the logits [N, V] of a packed row on every process that shares it."""
        group = dims.get_group("cp")
        row = SharedRow(tokens_T, positions_T, lengths, keep_N, dims.cp, group)
        plan: AttentionPlan = PackedPlan(row.lengths, tokens_T.device)
        if group is not None:
            plan = UlyssesPlan(plan, group)
        keep = row.kept(row.num_kept)
        return row.gather(
            self._own_logits(row.tokens[0], row.positions[0], row.lengths, plan, keep)
        )

    def wrap(
        self, dims: ArchonParallelDims | None, reduce_dtype: torch.dtype, cpu_offload: bool
    ) -> None:
        if dims is None:
            return
        model: Any = self.module
        dtype = self.dtype
        if dims.cp_enabled:
            _check_context(model, dims)
        if dims.tp_enabled:
            split_by_plan(model, dims.get_mesh("tp"))
        shard_hf_model(model, dims, dtype, reduce_dtype, cpu_offload)
        self.dims = dims

    def require_plans(self) -> None:
        """Refuse a model that several processes share; ``prepare_model`` has tried the plans."""
        if self.dims is not None:
            raise ConfigError("a model that several processes share does not generate here")

    def full_parameters(self, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
        return hub_tensors(self.module, dtype)

    def enable_checkpointing(self) -> None:
        # Renamed in transformers 5.23; the keyword of its arguments too.
        model: Any = self.module
        enable = getattr(model, "activation_checkpointing_enable", None)
        enable = enable or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})

    def write(self, folder: Path, tokenizer: Any = None) -> None:
        write_hf_model(self.module, folder, tokenizer)

    def stage(self) -> Callable[[Path, Any], None]:
        tensors = copied(whole_tensors(self.module))
        return lambda folder, tokenizer: write_hf_model(self.module, folder, tokenizer, tensors)

    def read(self, folder: str | Path) -> None:
        load_hf_weights(self.module, folder)


# Rope kinds whose angles change with the longest position of a call, of which a process that has a
# slice of the tokens may see less than the others.
_LENGTH_DEPENDENT = ("dynamic", "longrope")


def _check_context(model: Any, dims: ArchonParallelDims) -> None:
    """Refuse a model whose heads do not divide, or that looks beyond a token outside attention.

    Raises:
        ConfigError: It names the size or the feature.
    """
    config = model.config.get_text_config()
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    heads, processes = config.num_attention_heads, dims.cp * dims.tp
    if heads % processes:
        raise ConfigError(f"num_attention_heads={heads} does not divide over t * c = {processes}")
    local = kv_heads // dims.tp
    if local % dims.cp and dims.cp % local:
        raise ConfigError(
            f"num_key_value_heads={kv_heads} over t{dims.tp} is {local}, and c{dims.cp} neither "
            "divides it nor is a multiple of it"
        )
    if kind := _length_dependent_rope(model):
        raise ConfigError(
            f"{type(model).__name__} has rope of type {kind!r}, whose angles depend on all "
            "positions of a row, and c spreads them over processes; use c1"
        )


def _length_dependent_rope(model: Any) -> str | None:
    """Return the kind of rope whose angles change with the longest position of a call, if any."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = {str(v.get("rope_type")) for v in (rope, *rope.values()) if isinstance(v, dict)}
    return next(iter(kinds & set(_LENGTH_DEPENDENT)), None)

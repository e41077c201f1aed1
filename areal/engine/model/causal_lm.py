"""What the engines ask of a language model, whoever wrote it.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from areal.engine.model.attention import AttentionPlan, PackedPlan, require_planned_attention
from areal.engine.model.checkpoint import load_hf_weights, write_hf_model

UNLIMITED = 1 << 30


class CausalLM(ABC):
    """Runs, saves and loads a module; the embedded engine and the train engines share one.

    Args:
        module: The model's parameters are this module's, and no copy is made of them.

    Attributes:
        num_layers: Layers that attend, as plans count them.
        vocab_size: Width of the logits.
        num_embeddings: Tokens that a prompt may hold.
        max_length: Tokens of a sequence, at most.
    """

    num_layers: int
    vocab_size: int
    num_embeddings: int
    max_length: int

    def __init__(self, module: nn.Module) -> None:
        self.module = module

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
            plan: Says how tokens attend; None attends causally inside each sequence.
            keep_N: Indices into the batch; None keeps all.
        """

    @abstractmethod
    def require_plans(self) -> None:
        """Refuse a model that plans cannot steer; the embedded engine needs one that they can.

        Raises:
            ConfigError: It would generate with another policy than the one that is trained.
        """

    @abstractmethod
    def enable_checkpointing(self) -> None:
        """Let the backward pass compute activations again instead of keeping them."""

    @abstractmethod
    def write(self, folder: Path, tokenizer: Any = None) -> None:
        """Write weights, configuration and tokenizer so that transformers reads the folder."""

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

    def logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None = None,
        keep_N: Tensor | None = None,
    ) -> Tensor:
        kwargs: dict[str, Any] = {}
        if keep_N is not None and self._takes_logits_to_keep:
            kwargs["logits_to_keep"] = keep_N
        out = self.module(
            input_ids=tokens_T[None],
            position_ids=positions_T[None],
            use_cache=False,
            attention_plan=PackedPlan(lengths, tokens_T.device) if plan is None else plan,
            **kwargs,
        )
        logits = out.logits[0]
        return logits[keep_N] if keep_N is not None and not kwargs else logits

    def require_plans(self) -> None:
        """Do nothing: ``prepare_model`` has tried them."""

    def enable_checkpointing(self) -> None:
        # Renamed in transformers 5.23; the keyword of its arguments too.
        model: Any = self.module
        enable = getattr(model, "activation_checkpointing_enable", None)
        enable = enable or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})

    def write(self, folder: Path, tokenizer: Any = None) -> None:
        write_hf_model(self.module, folder, tokenizer)

    def read(self, folder: str | Path) -> None:
        load_hf_weights(self.module, folder)

"""Base classes of Archon models, their arguments and their state-dict adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names
from areal.experimental.models.archon.attention import ATTENTION_BACKENDS

# Standard deviation of a fresh linear layer or embedding.
# Source: `initializer_range` of most decoder configs in transformers.
INITIALIZER_RANGE = 0.02


@dataclass
class BaseModelArgs(ABC):
    """What a model is built from.

    Attributes:
        attn_type: Attention backend, see ``archon.attention``.
    """

    attn_type: str = "varlen"

    def __post_init__(self) -> None:
        if self.attn_type not in ATTENTION_BACKENDS:
            known = nearest_names(self.attn_type, ATTENTION_BACKENDS)
            raise ConfigError(f"unknown attn_type {self.attn_type!r}{known}")
        heads, kv_heads = (getattr(self, name, None) for name in ("n_heads", "n_kv_heads"))
        if isinstance(heads, int) and isinstance(kv_heads, int) and heads % max(kv_heads, 1):
            raise ConfigError(f"{heads} query heads do not share {kv_heads} key-value heads evenly")

    @classmethod
    @abstractmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> BaseModelArgs:
        """Read the arguments from a Hugging Face config.

        Raises:
            ConfigError: The config asks for something that the model does not implement.
        """

    @staticmethod
    def _get_rope_theta(hf_config: Any, default: float = 10000.0) -> float:
        """Return the rotary base, from ``rope_parameters`` or the older attribute."""
        parameters = getattr(hf_config, "rope_parameters", None) or {}
        theta = parameters.get("rope_theta", getattr(hf_config, "rope_theta", None))
        return default if theta is None else float(theta)


class BaseArchonModel(nn.Module, ABC):
    """A decoder that takes one packed row of tokens."""

    @abstractmethod
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        tree_attn_meta: Any = None,
    ) -> Tensor:
        """Return logits [1, T, vocab], or a critic's scores [1, T, num_labels].

        Args:
            tokens: [1, T] token ids; [1, T, dim] hidden states on later pipeline stages.
            positions: [1, T] position of each token inside its sequence.
            cu_seqlens: [B + 1] where each sequence starts, then T.
            max_seqlen: Tokens of the longest sequence.
        """

    def tie_weights(self) -> None:
        """Make the output layer use the embedding's weight, where the model ties them.

        Run it before wrapping the model for FSDP and again after: wrapping makes new parameters.
        """
        args = getattr(self, "model_args", None)
        embeddings = getattr(self, "tok_embeddings", None)
        output = getattr(self, "output", None)
        if (
            getattr(args, "enable_weight_tying", False)
            and embeddings is not None
            and output is not None
        ):
            output.weight = embeddings.weight

    def init_weights(self) -> None:
        """Give every parameter a fresh value, as for training from nothing."""
        fresh: set[int] = set()
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIALIZER_RANGE)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)
            elif module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()
            else:
                continue
            fresh.update(id(parameter) for parameter in module.parameters(recurse=False))
        for parameter in self.parameters():
            if id(parameter) in fresh:
                continue
            # What a module holds beside layers: matrices like a linear's, and one number per head.
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=INITIALIZER_RANGE)
            else:
                nn.init.zeros_(parameter)

    def init_buffers(self, buffer_device: torch.device | str | None = None) -> None:
        """Compute buffers that are not in checkpoints; needed after building on ``meta``."""
        for module in self.modules():
            if module is not self and hasattr(module, "init_buffers"):
                module.init_buffers(buffer_device)


def keep_tokens(hidden: Tensor, logits_to_keep: Tensor | None) -> Tensor:
    """Return the hidden states that need logits: [1, T, dim], or [N, dim] at N positions.

    Args:
        hidden: [1, T, dim].
        logits_to_keep: [N], or [1, N] as pipeline stages get it.
    """
    if logits_to_keep is None:
        return hidden
    return hidden[0].index_select(0, logits_to_keep.reshape(-1))


class BaseStateDictAdapter(ABC):
    """Maps a model's state dict to the names on the Hub and back.

    Args:
        model_config: The model's arguments.
        hf_assets_path: Folder of a Hugging Face checkpoint, for its index of shards.
    """

    def __init__(self, model_config: Any, hf_assets_path: str | None = None) -> None:
        self.model_config = model_config
        self.hf_assets_path = hf_assets_path

    @abstractmethod
    def from_hf(self, hf_state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict of the Archon model."""

    @abstractmethod
    def to_hf(self, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict under the names on the Hub."""

    @abstractmethod
    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        """Return what one tensor of the Archon model is on the Hub: none, one or several."""

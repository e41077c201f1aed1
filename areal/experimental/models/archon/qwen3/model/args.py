"""Arguments of Qwen3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.rope import RopeArgs


@dataclass
class Qwen3ModelArgs(BaseModelArgs):
    """Holds what a Qwen3 model is built from.

    Attributes:
        windows: Keys that a query of each layer sees, itself included; None for all.
    """

    dim: int = 4096
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: int = 32
    head_dim: int = 128
    hidden_dim: int = 22016
    vocab_size: int = 151936
    norm_eps: float = 1e-6
    max_seq_len: int = 32768
    attention_bias: bool = False
    hidden_act: str = "silu"
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=128))
    windows: list[int | None] = field(default_factory=lambda: [None] * 32)
    enable_weight_tying: bool = False
    eos_id: int | list[int] | None = None
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Qwen3ModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that this model does not implement.
        """
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": hf_config.num_hidden_layers,
            "n_heads": hf_config.num_attention_heads,
            "n_kv_heads": hf_config.num_key_value_heads,
            "head_dim": hf_config.head_dim,
            "hidden_dim": hf_config.intermediate_size,
            "vocab_size": hf_config.vocab_size,
            "norm_eps": hf_config.rms_norm_eps,
            "max_seq_len": hf_config.max_position_embeddings,
            "attention_bias": hf_config.attention_bias,
            "hidden_act": hf_config.hidden_act,
            "rope": RopeArgs.from_hf(hf_config, dim=hf_config.head_dim),
            "windows": [
                hf_config.sliding_window if kind == "sliding_attention" else None
                for kind in hf_config.layer_types
            ],
            "enable_weight_tying": hf_config.tie_word_embeddings,
            "eos_id": hf_config.eos_token_id,
        }
        return cls(**{**values, "is_critic": is_critic, **kwargs})

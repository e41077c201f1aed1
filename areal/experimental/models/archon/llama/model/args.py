"""Arguments of Llama."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class LlamaModelArgs(BaseModelArgs):
    """Holds what Llama is built from.

    Attributes:
        dim: Width of the residual stream.
        n_layers: Number of blocks.
        n_heads: Heads of queries.
        n_kv_heads: Heads of keys and values.
        head_dim: Dimensions of a head.
        hidden_dim: Width of a feed-forward.
        vocab_size: Tokens that there are.
        norm_eps: What norms add before they divide.
        max_seq_len: Context that the config states.
        enable_weight_tying: Whether the output layer is the embedding.
        eos_id: Token or tokens that end a text.
        pad_token_id: Token whose embedding does not learn.
        attention_bias: Whether the projections of attention have biases.
        hidden_act: Activation of the feed-forward, as transformers calls it.
        mlp_bias: Whether the feed-forward has biases.
        rope: Rotary positions.
        is_critic: Whether ``score`` stands in the place of ``output``.
        num_labels: Scores that a critic gives each token.
    """

    dim: int = 4096
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: int = 32
    head_dim: int = 128
    hidden_dim: int = 11008
    vocab_size: int = 32000
    norm_eps: float = 1e-06
    max_seq_len: int = 2048
    enable_weight_tying: bool = False
    eos_id: int | list[int] | None = 2
    pad_token_id: int | None = None
    attention_bias: bool = False
    hidden_act: str = "silu"
    mlp_bias: bool = False
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=128))
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> LlamaModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that is not implemented here.
        """
        head_dim = hf_config.head_dim
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": hf_config.num_hidden_layers,
            "n_heads": hf_config.num_attention_heads,
            "n_kv_heads": hf_config.num_key_value_heads,
            "head_dim": head_dim,
            "hidden_dim": hf_config.intermediate_size,
            "vocab_size": hf_config.vocab_size,
            "norm_eps": hf_config.rms_norm_eps,
            "max_seq_len": getattr(hf_config, "max_position_embeddings", 2048),
            "enable_weight_tying": hf_config.tie_word_embeddings,
            "eos_id": hf_config.eos_token_id,
            "pad_token_id": hf_config.pad_token_id,
            "attention_bias": hf_config.attention_bias,
            "hidden_act": hf_config.hidden_act,
            "mlp_bias": hf_config.mlp_bias,
            "rope": RopeArgs.from_hf(hf_config, dim=head_dim),
        }
        return cls(**{**values, "is_critic": is_critic, **kwargs})

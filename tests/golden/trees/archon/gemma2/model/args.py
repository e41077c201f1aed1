"""Arguments of Gemma2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class Gemma2ModelArgs(BaseModelArgs):
    """What Gemma2 is built from, in the words of its configuration."""

    dim: int = 64  # Dimension of the hidden representations.
    n_layers: int = 4  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 4  # Number of attention heads for each attention layer.
    n_kv_heads: int = 2  # Number of key_value heads for each attention layer.
    head_dim: int = 16  # The attention head dimension.
    hidden_dim: int = 128  # Dimension of the MLP representations.
    vocab_size: int = 512  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 256  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = True  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = None  # Token id used for end-of-stream in the vocabulary.
    # The non-linear activation function in the decoder.
    hidden_activation: str = "gelu_pytorch_tanh"
    query_pre_attn_scalar: float = 16  # Scaling factor used on the attention scores.
    # Tanh soft-capping value of the attention scores; None for none.
    attn_logit_softcapping: float | None = 50.0
    # Tanh soft-capping value of the logits; None for none.
    final_logit_softcapping: float | None = 30.0
    embedding_multiplier: float = 8.0  # What embeddings are multiplied by.
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (4096, None, 4096, None)
    # Configuration parameters for the RoPE embeddings.
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16))
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Gemma2ModelArgs:
        cls.require_decoder(hf_config)
        _refuse_what_is_missing(hf_config)
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
            "enable_weight_tying": hf_config.tie_word_embeddings,
            "eos_id": hf_config.eos_token_id,
            "hidden_activation": hf_config.hidden_activation,
            "query_pre_attn_scalar": hf_config.query_pre_attn_scalar,
            "attn_logit_softcapping": hf_config.attn_logit_softcapping,
            "final_logit_softcapping": hf_config.final_logit_softcapping,
            "embedding_multiplier": hf_config.hidden_size**0.5,
            "windows": tuple(
                hf_config.sliding_window if kind == "sliding_attention" else None
                for kind in hf_config.layer_types
            ),
            "rope": RopeArgs.from_hf(hf_config),
        }
        return cls.from_values(values, is_critic, **kwargs)


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what Gemma2 does not implement here.

    Raises:
        ConfigError: The config asks for what the model lacks.
    """
    if hf_config.attention_bias:
        raise ConfigError(f"gemma2: attention_bias {hf_config.attention_bias} is not implemented")

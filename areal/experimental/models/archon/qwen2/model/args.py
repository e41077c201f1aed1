"""Arguments of Qwen2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class Qwen2ModelArgs(BaseModelArgs):
    """What Qwen2 is built from, in the words of its configuration."""

    dim: int = 4096  # Dimension of the hidden representations.
    n_layers: int = 32  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 32  # Number of attention heads for each attention layer.
    n_kv_heads: int = 32  # Number of key_value heads for each attention layer.
    head_dim: int = 128  # The attention head dimension.
    hidden_dim: int = 22016  # Dimension of the MLP representations.
    vocab_size: int = 151936  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 32768  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = False  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = None  # Token id used for end-of-stream in the vocabulary.
    pad_token_id: int | None = None  # Token id used for padding in the vocabulary.
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (None,) * 32
    hidden_act: str = "silu"  # The non-linear activation function in the decoder.
    # Configuration parameters for the RoPE embeddings.
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=128))
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Qwen2ModelArgs:
        cls.require_decoder(hf_config)
        head_dim = (
            getattr(hf_config, "head_dim", None)
            or hf_config.hidden_size // hf_config.num_attention_heads
        )
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
            "windows": tuple(
                None if kind == "full_attention" else hf_config.sliding_window
                for kind in hf_config.layer_types
            ),
            "hidden_act": hf_config.hidden_act,
            "rope": RopeArgs.from_hf(hf_config, dim=head_dim),
        }
        return cls.from_values(values, is_critic, **kwargs)

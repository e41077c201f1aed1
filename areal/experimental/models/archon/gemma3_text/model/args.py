"""Arguments of Gemma3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class Gemma3ModelArgs(BaseModelArgs):
    """What Gemma3 is built from, in the words of its configuration."""

    dim: int = 2304  # Dimension of the hidden representations.
    n_layers: int = 26  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 8  # Number of attention heads for each attention layer.
    n_kv_heads: int = 4  # Number of key_value heads for each attention layer.
    head_dim: int = 256  # The attention head dimension.
    hidden_dim: int = 9216  # Dimension of the MLP representations.
    vocab_size: int = 262208  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 131072  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = True  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = 1  # Token id used for end-of-stream in the vocabulary.
    pad_token_id: int | None = 0  # Token id used for padding in the vocabulary.
    attention_bias: bool = False  # Whether to use a bias in the attention projection layers.
    attention_scale: float = 0.0625  # Scaling factor used on the attention scores.
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (4096, 4096, 4096, 4096, 4096, None) * 4 + (4096, 4096)
    # The non-linear activation function in the decoder.
    hidden_activation: str = "gelu_pytorch_tanh"
    # By layer: layer type, each with RoPE parameters of its own.
    layer_types: tuple[str, ...] = (("sliding_attention",) * 5 + ("full_attention",)) * 4 + (
        "sliding_attention",
        "sliding_attention",
    )
    # Tanh soft-capping value of the logits; None for none.
    final_logit_softcapping: float | None = None
    # Configuration parameters for the RoPE embeddings of layers of type sliding_attention.
    rope_sliding_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=256))
    # Configuration parameters for the RoPE embeddings of layers of type full_attention.
    rope_full_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=256))
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Gemma3ModelArgs:
        cls.require_decoder(hf_config)
        _refuse_what_is_missing(hf_config)
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
            "attention_scale": hf_config.query_pre_attn_scalar**-0.5,
            "windows": tuple(
                hf_config.sliding_window if kind == "sliding_attention" else None
                for kind in hf_config.layer_types
            ),
            "hidden_activation": hf_config.hidden_activation,
            "layer_types": tuple(hf_config.layer_types),
            "final_logit_softcapping": hf_config.final_logit_softcapping,
            "rope_sliding_attention": RopeArgs.from_hf(
                hf_config, layer_type="sliding_attention", dim=head_dim
            ),
            "rope_full_attention": RopeArgs.from_hf(
                hf_config, layer_type="full_attention", dim=head_dim
            ),
        }
        return cls.from_values(values, is_critic, **kwargs)


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what Gemma3 does not implement here.

    Raises:
        ConfigError: The config asks for what the model lacks.
    """
    if hf_config.use_bidirectional_attention is True:
        raise ConfigError(
            f"gemma3_text: use_bidirectional_attention={hf_config.use_bidirectional_attention!r} "
            "is not reproduced (attention: tokens see neither all before, a window nor a chunk)"
        )

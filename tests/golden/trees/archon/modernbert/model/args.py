"""Arguments of ModernBert."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class ModernBertModelArgs(BaseModelArgs):
    """What ModernBert is built from, in the words of its configuration."""

    dim: int = 64  # Dimension of the hidden representations.
    n_layers: int = 4  # Number of hidden layers in the Transformer encoder.
    n_heads: int = 4  # Number of attention heads for each attention layer.
    n_kv_heads: int = 2  # Number of key_value heads for each attention layer.
    head_dim: int = 16  # The attention head dimension.
    hidden_dim: int = 128  # Dimension of the MLP representations.
    vocab_size: int = 512  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 256  # The maximum sequence length that the model might ever be used with.
    norm_bias: bool = False  # Bias of norms.
    pad_token_id: int | None = None  # Token id used for padding in the vocabulary.
    # By layer: whether blocks add their branches in this order.
    is_first: tuple[bool, ...] = (True, False, False, False)
    # By layer: whether a block has this norm.
    has_attention_norm: tuple[bool, ...] = (False, True, True, True)
    attention_bias: bool = False  # Whether to use a bias in the attention projection layers.
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (None, 65, 65, None)
    hidden_activation: str = "gelu"  # The non-linear activation function in the encoder.
    mlp_bias: bool = False  # Whether to use a bias in the MLP layers.
    # By layer: layer type, each with RoPE parameters of its own.
    layer_types: tuple[str, ...] = (
        "full_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
    )
    # What is scored: the first state (cls), the mean (mean), or each (late).
    classifier_pooling: str = "cls"
    classifier_activation: str = "gelu"  # The non-linear activation function before the score.
    classifier_bias: bool = False  # Whether to use a bias in the layer before the score.
    # Configuration parameters for the RoPE embeddings of layers of type full_attention.
    rope_full_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16))
    # Configuration parameters for the RoPE embeddings of layers of type sliding_attention.
    rope_sliding_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16))
    is_critic: bool = True  # Always: an encoder has no logits.
    num_labels: int = 1  # Number of scores that a sequence gets.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> ModernBertModelArgs:
        cls.require_encoder(hf_config, is_critic)
        n_layers = hf_config.num_hidden_layers
        head_dim = hf_config.hidden_size // hf_config.num_attention_heads
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": n_layers,
            "n_heads": hf_config.num_attention_heads,
            "n_kv_heads": hf_config.num_attention_heads,
            "head_dim": head_dim,
            "hidden_dim": hf_config.intermediate_size,
            "vocab_size": hf_config.vocab_size,
            "norm_eps": hf_config.norm_eps,
            "max_seq_len": hf_config.max_position_embeddings,
            "norm_bias": hf_config.norm_bias,
            "pad_token_id": hf_config.pad_token_id,
            "is_first": tuple(i == 0 for i in range(n_layers)),
            "has_attention_norm": tuple(i != 0 for i in range(n_layers)),
            "attention_bias": hf_config.attention_bias,
            "windows": tuple(
                hf_config.local_attention // 2 + 1 if kind != "full_attention" else None
                for kind in hf_config.layer_types
            ),
            "hidden_activation": hf_config.hidden_activation,
            "mlp_bias": hf_config.mlp_bias,
            "layer_types": tuple(hf_config.layer_types),
            "classifier_pooling": hf_config.classifier_pooling,
            "classifier_activation": hf_config.classifier_activation,
            "classifier_bias": hf_config.classifier_bias,
            "rope_full_attention": RopeArgs.from_hf(
                hf_config, layer_type="full_attention", dim=head_dim
            ),
            "rope_sliding_attention": RopeArgs.from_hf(
                hf_config, layer_type="sliding_attention", dim=head_dim
            ),
        }
        return cls.from_values(values, is_critic, **kwargs)

"""Arguments of Qwen3Moe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs


@dataclass
class Qwen3MoeModelArgs(BaseModelArgs):
    """What Qwen3Moe is built from, in the words of its configuration."""

    dim: int = 2048  # Dimension of the hidden representations.
    n_layers: int = 24  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 32  # Number of attention heads for each attention layer.
    n_kv_heads: int = 4  # Number of key_value heads for each attention layer.
    head_dim: int = 64  # The attention head dimension.
    hidden_dim: int = 6144  # Dimension of the MLP representations.
    vocab_size: int = 151936  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 32768  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = False  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = None  # Token id used for end-of-stream in the vocabulary.
    pad_token_id: int | None = None  # Token id used for padding in the vocabulary.
    has_moe: tuple[bool, ...] = (True,) * 24  # By layer: whether a block has experts.
    # By layer: whether a block has a feed-forward.
    has_feed_forward: tuple[bool, ...] = (False,) * 24
    attention_bias: bool = False  # Whether to use a bias in the attention projection layers.
    windows: int | None = None  # Sliding window attention window size; None for no window.
    hidden_act: str = "silu"  # The non-linear activation function in the decoder.
    moe_inter_dim: int = 768  # Intermediate size of the routed expert MLPs.
    # Configuration parameters for the RoPE embeddings.
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=64))
    # Experts, and how a token chooses among them.
    moe_args: MoEArgs = field(
        default_factory=lambda: MoEArgs(num_experts=128, top_k=8, score_func="softmax")
    )
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Qwen3MoeModelArgs:
        cls.require_decoder(hf_config)
        n_layers = hf_config.num_hidden_layers
        head_dim = (
            getattr(hf_config, "head_dim", None)
            or hf_config.hidden_size // hf_config.num_attention_heads
        )
        hidden_act = hf_config.hidden_act
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": n_layers,
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
            "has_moe": tuple(
                i not in hf_config.mlp_only_layers and (i + 1) % hf_config.decoder_sparse_step == 0
                for i in range(n_layers)
            ),
            "has_feed_forward": tuple(
                i in hf_config.mlp_only_layers or (i + 1) % hf_config.decoder_sparse_step != 0
                for i in range(n_layers)
            ),
            "attention_bias": hf_config.attention_bias,
            "windows": hf_config.sliding_window,
            "hidden_act": hidden_act,
            "moe_inter_dim": hf_config.moe_intermediate_size,
            "rope": RopeArgs.from_hf(hf_config, dim=head_dim),
            "moe_args": MoEArgs(
                num_experts=hf_config.num_local_experts,
                top_k=hf_config.num_experts_per_tok,
                score_func="softmax",
                route_norm=hf_config.norm_topk_prob,
                activation=hidden_act,
            ),
        }
        return cls.from_values(values, is_critic, **kwargs)

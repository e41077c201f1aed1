"""Arguments of GptOss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs


@dataclass
class GptOssModelArgs(BaseModelArgs):
    """What GptOss is built from, in the words of its configuration."""

    dim: int = 2880  # Dimension of the hidden representations.
    n_layers: int = 36  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 64  # Number of attention heads for each attention layer.
    n_kv_heads: int = 8  # Number of key_value heads for each attention layer.
    head_dim: int = 64  # The attention head dimension.
    hidden_dim: int = 2880  # Dimension of the MLP representations.
    vocab_size: int = 201088  # Vocabulary size of the model.
    norm_eps: float = 1e-05  # The epsilon used by the normalization layers.
    max_seq_len: int = 131072  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = False  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = None  # Token id used for end-of-stream in the vocabulary.
    pad_token_id: int | None = None  # Token id used for padding in the vocabulary.
    attention_bias: bool = True  # Whether to use a bias in the attention projection layers.
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (128, None) * 18
    # Configuration parameters for the RoPE embeddings.
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=64))
    # Experts, and how a token chooses among them.
    moe_args: MoEArgs = field(
        default_factory=lambda: MoEArgs(
            num_experts=128,
            top_k=4,
            score_func="softmax",
            score_after_topk=True,
            router_bias=True,
            expert_bias_terms=True,
            gate_alpha=1.702,
            gate_limit=7.0,
            up_limit=7.0,
            up_offset=1.0,
        )
    )
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> GptOssModelArgs:
        cls.require_decoder(hf_config)
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": hf_config.num_hidden_layers,
            "n_heads": hf_config.num_attention_heads,
            "n_kv_heads": hf_config.num_key_value_heads,
            "head_dim": hf_config.head_dim,
            "hidden_dim": hf_config.intermediate_size,
            "vocab_size": hf_config.vocab_size,
            "norm_eps": hf_config.rms_norm_eps,
            "max_seq_len": getattr(hf_config, "max_position_embeddings", 2048),
            "enable_weight_tying": hf_config.tie_word_embeddings,
            "eos_id": hf_config.eos_token_id,
            "pad_token_id": hf_config.pad_token_id,
            "attention_bias": hf_config.attention_bias,
            "windows": tuple(
                hf_config.sliding_window if kind == "sliding_attention" else None
                for kind in hf_config.layer_types
            ),
            "rope": RopeArgs.from_hf(hf_config),
            "moe_args": MoEArgs(
                num_experts=hf_config.num_local_experts,
                top_k=hf_config.num_experts_per_tok,
                score_func="softmax",
                score_after_topk=True,
                router_bias=True,
                expert_bias_terms=True,
                gate_alpha=hf_config.swiglu_alpha,
                gate_limit=hf_config.swiglu_limit,
                up_limit=hf_config.swiglu_limit,
                up_offset=1.0,
            ),
        }
        return cls.from_values(values, is_critic, **kwargs)

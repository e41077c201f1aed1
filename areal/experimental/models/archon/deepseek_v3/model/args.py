"""Arguments of DeepseekV3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs


@dataclass
class DeepseekV3ModelArgs(BaseModelArgs):
    """What DeepseekV3 is built from, in the words of its configuration."""

    dim: int = 7168  # Dimension of the hidden representations.
    n_layers: int = 61  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 128  # Number of attention heads for each attention layer.
    n_kv_heads: int = 128  # Number of key_value heads for each attention layer.
    head_dim: int = 192  # The attention head dimension.
    hidden_dim: int = 18432  # Dimension of the MLP representations.
    vocab_size: int = 129280  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 4096  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = False  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = 1  # Token id used for end-of-stream in the vocabulary.
    pad_token_id: int | None = None  # Token id used for padding in the vocabulary.
    # By layer: whether a block has a feed-forward.
    has_feed_forward: tuple[bool, ...] = (True,) * 3 + (False,) * 58
    # By layer: whether a block has experts.
    has_moe: tuple[bool, ...] = (False,) * 3 + (True,) * 58
    kv_lora_rank: int = 512  # Rank of the LoRA matrices for key and value projections.
    qk_nope_head_dim: int = 128  # Dimension of the query/key heads that do not rotate.
    qk_rope_head_dim: int = 64  # Dimension of the query/key heads that rotate.
    v_head_dim: int = 128  # Dimension of the value heads.
    # Rank of the LoRA matrices for query projections; None for none.
    q_lora_rank: int | None = 1536
    attention_bias: bool = False  # Whether to use a bias in the attention projection layers.
    has_attention_q_norm: bool = True  # Whether queries and keys are normed.
    hidden_act: str = "silu"  # The non-linear activation function in the decoder.
    moe_inter_dim: int = 2048  # Intermediate size of the routed expert MLPs.
    rope_interleave: bool = True  # Whether rotary position embeddings rotate interleaved pairs.
    # Configuration parameters for the RoPE embeddings.
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=192))
    # Experts, and how a token chooses among them.
    moe_args: MoEArgs = field(
        default_factory=lambda: MoEArgs(
            num_experts=256,
            top_k=8,
            router_dtype="float32",
            use_expert_bias=True,
            num_expert_groups=8,
            num_limited_groups=4,
            route_norm=True,
            route_norm_eps=1e-20,
            route_scale=2.5,
            weights_in_fp32=True,
            num_shared_experts=1,
            shared_expert_intermediate_size=2048,
        )
    )
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> DeepseekV3ModelArgs:
        cls.require_decoder(hf_config)
        n_layers = hf_config.num_hidden_layers
        qk_rope_head_dim = hf_config.qk_rope_head_dim
        hidden_act = hf_config.hidden_act
        values: dict[str, Any] = {
            "dim": hf_config.hidden_size,
            "n_layers": n_layers,
            "n_heads": hf_config.num_attention_heads,
            "n_kv_heads": hf_config.num_attention_heads,
            "head_dim": hf_config.head_dim + hf_config.qk_nope_head_dim,
            "hidden_dim": hf_config.intermediate_size,
            "vocab_size": hf_config.vocab_size,
            "norm_eps": hf_config.rms_norm_eps,
            "max_seq_len": getattr(hf_config, "max_position_embeddings", 2048),
            "enable_weight_tying": hf_config.tie_word_embeddings,
            "eos_id": hf_config.eos_token_id,
            "pad_token_id": hf_config.pad_token_id,
            "has_feed_forward": tuple(i < hf_config.first_k_dense_replace for i in range(n_layers)),
            "has_moe": tuple(i >= hf_config.first_k_dense_replace for i in range(n_layers)),
            "kv_lora_rank": hf_config.kv_lora_rank,
            "qk_nope_head_dim": hf_config.qk_nope_head_dim,
            "qk_rope_head_dim": qk_rope_head_dim,
            "v_head_dim": hf_config.v_head_dim,
            "q_lora_rank": hf_config.q_lora_rank,
            "attention_bias": hf_config.attention_bias,
            "has_attention_q_norm": hf_config.q_lora_rank is not None,
            "hidden_act": hidden_act,
            "moe_inter_dim": hf_config.moe_intermediate_size,
            "rope_interleave": hf_config.rope_interleave,
            "rope": RopeArgs.from_hf(hf_config, dim=qk_rope_head_dim),
            "moe_args": MoEArgs(
                num_experts=hf_config.n_routed_experts,
                top_k=hf_config.num_experts_per_tok,
                router_dtype="float32",
                use_expert_bias=True,
                num_expert_groups=hf_config.n_group,
                num_limited_groups=hf_config.topk_group,
                route_norm=hf_config.norm_topk_prob,
                route_norm_eps=1e-20,
                route_scale=hf_config.routed_scaling_factor,
                weights_in_fp32=True,
                activation=hidden_act,
                num_shared_experts=int(
                    bool(hf_config.moe_intermediate_size * hf_config.n_shared_experts)
                ),
                shared_expert_intermediate_size=hf_config.moe_intermediate_size
                * hf_config.n_shared_experts,
            ),
        }
        return cls.from_values(values, is_critic, **kwargs)

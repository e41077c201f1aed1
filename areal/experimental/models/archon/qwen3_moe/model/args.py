"""Arguments of Qwen3Moe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs


@dataclass
class Qwen3MoeModelArgs(BaseModelArgs):
    """Holds what Qwen3Moe is built from.

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
        has_moe: By layer: whether a block has experts.
        has_feed_forward: By layer: whether a block has a feed-forward.
        attention_bias: Whether the projections of attention have biases.
        windows: Keys that a query sees, itself included; None for all.
        moe_inter_dim: Width of an expert.
        rope: Rotary positions.
        moe_args: Experts, and how a token chooses among them.
        is_critic: Whether ``score`` stands in the place of ``output``.
        num_labels: Scores that a critic gives each token.
    """

    dim: int = 2048
    n_layers: int = 24
    n_heads: int = 32
    n_kv_heads: int = 4
    head_dim: int = 64
    hidden_dim: int = 6144
    vocab_size: int = 151936
    norm_eps: float = 1e-06
    max_seq_len: int = 32768
    enable_weight_tying: bool = False
    eos_id: int | list[int] | None = None
    pad_token_id: int | None = None
    has_moe: tuple[bool, ...] = (True,) * 24
    has_feed_forward: tuple[bool, ...] = (False,) * 24
    attention_bias: bool = False
    windows: int | None = None
    moe_inter_dim: int = 768
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=64))
    moe_args: MoEArgs = field(default_factory=lambda: MoEArgs(num_experts=128, top_k=8))
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Qwen3MoeModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that is not implemented here.
        """
        n_layers = hf_config.num_hidden_layers
        head_dim = hf_config.hidden_size // hf_config.num_attention_heads
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
            "moe_inter_dim": hf_config.moe_intermediate_size,
            "rope": RopeArgs.from_hf(hf_config, dim=head_dim),
            "moe_args": MoEArgs(
                num_experts=hf_config.num_local_experts,
                top_k=hf_config.num_experts_per_tok,
                route_norm=hf_config.norm_topk_prob,
                activation=hf_config.hidden_act,
            ),
        }
        return cls(**{**values, "is_critic": is_critic, **kwargs})

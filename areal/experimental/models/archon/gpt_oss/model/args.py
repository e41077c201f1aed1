"""Arguments of GptOss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs


@dataclass
class GptOssModelArgs(BaseModelArgs):
    """Holds what GptOss is built from.

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
        windows: By layer: keys that a query sees, itself included; None for all.
        rope: Rotary positions.
        moe_args: Experts, and how a token chooses among them.
        is_critic: Whether ``score`` stands in the place of ``output``.
        num_labels: Scores that a critic gives each token.
    """

    dim: int = 2880
    n_layers: int = 36
    n_heads: int = 64
    n_kv_heads: int = 8
    head_dim: int = 64
    hidden_dim: int = 2880
    vocab_size: int = 201088
    norm_eps: float = 1e-05
    max_seq_len: int = 131072
    enable_weight_tying: bool = False
    eos_id: int | list[int] | None = None
    pad_token_id: int | None = None
    attention_bias: bool = True
    windows: tuple[int | None, ...] = (128, None) * 18
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=64))
    moe_args: MoEArgs = field(
        default_factory=lambda: MoEArgs(
            num_experts=128,
            top_k=4,
            score_after_topk=True,
            router_bias=True,
            expert_bias_terms=True,
            gate_alpha=1.702,
            gate_limit=7.0,
            up_limit=7.0,
            up_offset=1.0,
        )
    )
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> GptOssModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that is not implemented here.
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
                score_after_topk=True,
                router_bias=True,
                expert_bias_terms=True,
                gate_alpha=hf_config.swiglu_alpha,
                gate_limit=hf_config.swiglu_limit,
                up_limit=hf_config.swiglu_limit,
                up_offset=1.0,
            ),
        }
        return cls(**{**values, "is_critic": is_critic, **kwargs})

"""Arguments of Gemma2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class Gemma2ModelArgs(BaseModelArgs):
    """Holds what Gemma2 is built from.

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
        hidden_activation: Activation of the feed-forward, as transformers calls it.
        query_pre_attn_scalar: What scores are multiplied by.
        attn_logit_softcapping: Bound of the scores; None for none.
        final_logit_softcapping: Bound of the logits; None for none.
        embedding_multiplier: What embeddings are multiplied by.
        windows: By layer: keys that a query sees, itself included; None for all.
        rope: Rotary positions.
        is_critic: Whether ``score`` stands in the place of ``output``.
        num_labels: Scores that a critic gives each token.
    """

    dim: int = 64
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    hidden_dim: int = 128
    vocab_size: int = 512
    norm_eps: float = 1e-06
    max_seq_len: int = 256
    enable_weight_tying: bool = True
    eos_id: int | list[int] | None = None
    hidden_activation: str = "gelu_pytorch_tanh"
    query_pre_attn_scalar: float = 16
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0
    embedding_multiplier: float = 8.0
    windows: tuple[int | None, ...] = (4096, None, 4096, None)
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16))
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Gemma2ModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that is not implemented here.
        """
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
        return cls(**{**values, "is_critic": is_critic, **kwargs})


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what Gemma2 does not implement here.

    Raises:
        ConfigError: It says what the config asks for.
    """
    if hf_config.attention_bias:
        raise ConfigError(f"gemma2: attention_bias {hf_config.attention_bias} is not implemented")

"""Arguments of Gemma3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class Gemma3ModelArgs(BaseModelArgs):
    """Holds what Gemma3 is built from.

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
        attention_scale: What scores are multiplied by.
        windows: By layer: keys that a query sees, itself included; None for all.
        hidden_activation: Activation of the feed-forward, as transformers calls it.
        layer_types: By layer: kind of layer, each with rotary positions of its own.
        final_logit_softcapping: Bound of the logits; None for none.
        rope_sliding_attention: Rotary positions of layers of type sliding_attention.
        rope_full_attention: Rotary positions of layers of type full_attention.
        is_critic: Whether ``score`` stands in the place of ``output``.
        num_labels: Scores that a critic gives each token.
    """

    dim: int = 2304
    n_layers: int = 26
    n_heads: int = 8
    n_kv_heads: int = 4
    head_dim: int = 256
    hidden_dim: int = 9216
    vocab_size: int = 262208
    norm_eps: float = 1e-06
    max_seq_len: int = 131072
    enable_weight_tying: bool = True
    eos_id: int | list[int] | None = 1
    pad_token_id: int | None = 0
    attention_bias: bool = False
    attention_scale: float = 0.0625
    windows: tuple[int | None, ...] = (4096, 4096, 4096, 4096, 4096, None) * 4 + (4096, 4096)
    hidden_activation: str = "gelu_pytorch_tanh"
    layer_types: tuple[str, ...] = (("sliding_attention",) * 5 + ("full_attention",)) * 4 + (
        "sliding_attention",
        "sliding_attention",
    )
    final_logit_softcapping: float | None = None
    rope_sliding_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=256))
    rope_full_attention: RopeArgs = field(default_factory=lambda: RopeArgs(dim=256))
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> Gemma3ModelArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            kwargs: Fields to set by hand, such as ``attn_type``.

        Raises:
            ConfigError: The config asks for something that is not implemented here.
        """
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
        return cls(**{**values, "is_critic": is_critic, **kwargs})


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what Gemma3 does not implement here.

    Raises:
        ConfigError: It says what the config asks for.
    """
    if hf_config.use_bidirectional_attention is True:
        raise ConfigError(
            f"gemma3_text: use_bidirectional_attention={hf_config.use_bidirectional_attention!r} "
            "is not reproduced (attention: tokens see neither all before, a window nor a chunk)"
        )

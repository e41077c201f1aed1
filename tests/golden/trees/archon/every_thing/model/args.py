"""Arguments of EveryThing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class EveryThingModelArgs(BaseModelArgs):
    """What EveryThing is built from, in the words of its configuration."""

    dim: int = 64  # Dimension of the hidden representations.
    n_layers: int = 4  # Number of hidden layers in the Transformer decoder.
    n_heads: int = 4  # Number of attention heads for each attention layer.
    n_kv_heads: int = 2  # Number of key_value heads for each attention layer.
    head_dim: int = 16  # The attention head dimension.
    hidden_dim: int = 128  # Dimension of the MLP representations.
    vocab_size: int = 512  # Vocabulary size of the model.
    norm_eps: float = 1e-06  # The epsilon used by the normalization layers.
    max_seq_len: int = 256  # The maximum sequence length that the model might ever be used with.
    enable_weight_tying: bool = False  # Whether to tie the output layer to the word embeddings.
    eos_id: int | list[int] | None = None  # Token id used for end-of-stream in the vocabulary.
    residual_multiplier: float = 0.25  # What a branch is multiplied by before it is added.
    v_head_dim: int = 12  # Dimension of the value heads.
    clip_qkv: float | None = 3.0  # Bound of queries, keys and values; None for none.
    use_qk_norm: bool = True  # Whether queries and keys are normed.
    use_sinks: bool = True  # Whether heads can attend to nothing.
    use_gate: bool = True  # Whether a gate scales the output of attention.
    use_swapped: bool = False  # Whether blocks add their branches in this order.
    attn_scale: float = 0.1  # How much queries grow for each e-fold of positions.
    value_scale: float = 2.0  # What values are multiplied by.
    logits_scaling: float = 4.0  # What logits are multiplied by.
    hidden_act: str = "relu2"  # The non-linear activation function in the decoder.
    # By layer: whether to use rotary position embeddings.
    has_rope: tuple[bool, ...] = (True, False, True, False)
    # By layer: layer type, each with RoPE parameters of its own.
    layer_types: tuple[str, ...] = ("near", "far", "near", "far")
    # By layer: sliding window attention window size; None for no window.
    windows: tuple[int | None, ...] = (3, None, 3, None)
    # By layer: what a branch is multiplied by before it is added.
    scales: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125)
    # Configuration parameters for the RoPE embeddings of layers of type near.
    rope_near: RopeArgs = field(default_factory=lambda: RopeArgs(dim=8))
    # Configuration parameters for the RoPE embeddings of layers of type far.
    rope_far: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16, theta=1000000.0))
    is_critic: bool = False  # Whether `score` replaces `output`.
    num_labels: int = 1  # Number of scores that a critic gives each token.

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> EveryThingModelArgs:
        cls.require_decoder(hf_config)
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
            "residual_multiplier": getattr(hf_config, "residual_multiplier", None),
            "v_head_dim": getattr(hf_config, "v_head_dim", None),
            "clip_qkv": getattr(hf_config, "clip_qkv", None),
            "use_qk_norm": getattr(hf_config, "use_qk_norm", None),
            "use_sinks": getattr(hf_config, "use_sinks", None),
            "use_gate": getattr(hf_config, "use_gate", None),
            "use_swapped": getattr(hf_config, "use_swapped", None),
            "attn_scale": getattr(hf_config, "attn_scale", None),
            "value_scale": getattr(hf_config, "value_scale", None),
            "logits_scaling": getattr(hf_config, "logits_scaling", None),
            "hidden_act": getattr(hf_config, "hidden_act", None),
            "has_rope": getattr(hf_config, "has_rope", None),
            "layer_types": getattr(hf_config, "layer_types", None),
            "windows": getattr(hf_config, "windows", None),
            "scales": getattr(hf_config, "scales", None),
            "rope_near": RopeArgs.from_hf(hf_config, layer_type="near"),
            "rope_far": RopeArgs.from_hf(hf_config, layer_type="far"),
        }
        return cls.from_values(values, is_critic, **kwargs)


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what EveryThing does not implement here.

    Raises:
        ConfigError: The config asks for what the model lacks.
    """
    n_layers = hf_config.num_hidden_layers
    if hf_config.hidden_act not in ("relu2", "silu") or n_layers % 2:
        raise ConfigError(
            f"every-thing: an activation '{hf_config.hidden_act!r}' that is not among those which "
            f"were measured, or an odd number of layers: {hf_config.num_hidden_layers}"
        )
    if hf_config.vocab_size < 2:
        raise ConfigError("every-thing: no words")

"""Arguments of EveryThing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.layers.rope import RopeArgs


@dataclass
class EveryThingModelArgs(BaseModelArgs):
    """Holds what EveryThing is built from.

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
        residual_multiplier: What a branch is multiplied by before it is added.
        v_head_dim: Dimensions of a head's values.
        clip_qkv: Bound of queries, keys and values; None for none.
        use_qk_norm: Whether queries and keys are normed.
        use_sinks: Whether heads can attend to nothing.
        use_gate: Whether a gate scales the output of attention.
        use_swapped: Whether blocks add their branches in this order.
        attn_scale: How much queries grow for each e-fold of positions.
        value_scale: What values are multiplied by.
        logits_scaling: What logits are divided by.
        hidden_act: Activation of the feed-forward, as transformers calls it.
        has_rope: By layer: whether queries and keys rotate.
        layer_types: By layer: kind of layer, each with rotary positions of its own.
        windows: By layer: keys that a query sees, itself included; None for all.
        scales: By layer: what a branch is multiplied by before it is added.
        rope_near: Rotary positions of layers of type near.
        rope_far: Rotary positions of layers of type far.
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
    enable_weight_tying: bool = False
    eos_id: int | list[int] | None = None
    residual_multiplier: float = 0.25
    v_head_dim: int = 12
    clip_qkv: float | None = 3.0
    use_qk_norm: bool = True
    use_sinks: bool = True
    use_gate: bool = True
    use_swapped: bool = False
    attn_scale: float = 0.1
    value_scale: float = 2.0
    logits_scaling: float = 4.0
    hidden_act: str = "relu2"
    has_rope: tuple[bool, ...] = (True, False, True, False)
    layer_types: tuple[str, ...] = ("near", "far", "near", "far")
    windows: tuple[int | None, ...] = (3, None, 3, None)
    scales: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125)
    rope_near: RopeArgs = field(default_factory=lambda: RopeArgs(dim=8))
    rope_far: RopeArgs = field(default_factory=lambda: RopeArgs(dim=16, theta=1000000.0))
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> EveryThingModelArgs:
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
        return cls(**{**values, "is_critic": is_critic, **kwargs})


def _refuse_what_is_missing(hf_config: Any) -> None:
    """Refuses a config that asks for what EveryThing does not implement here.

    Raises:
        ConfigError: It says what the config asks for.
    """
    n_layers = hf_config.num_hidden_layers
    if hf_config.hidden_act not in ("relu2", "silu") or n_layers % 2:
        raise ConfigError(
            f"every-thing: an activation '{hf_config.hidden_act!r}' that is not among those which "
            f"were measured, or an odd number of layers: {hf_config.num_hidden_layers}"
        )
    if hf_config.vocab_size < 2:
        raise ConfigError("every-thing: no words")

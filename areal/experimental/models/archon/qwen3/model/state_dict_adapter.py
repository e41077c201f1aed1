"""Weights of Qwen3 under the names on the Hub."""

from __future__ import annotations

from torch import Tensor

from areal.experimental.models.archon.base import BaseStateDictAdapter

# Prefix in the Archon model to prefix on the Hub; "{}" stands for the layer.
_NAMES = {
    "tok_embeddings": "model.embed_tokens",
    "layers.{}.attention.wq": "model.layers.{}.self_attn.q_proj",
    "layers.{}.attention.wk": "model.layers.{}.self_attn.k_proj",
    "layers.{}.attention.wv": "model.layers.{}.self_attn.v_proj",
    "layers.{}.attention.wo": "model.layers.{}.self_attn.o_proj",
    "layers.{}.attention.q_norm": "model.layers.{}.self_attn.q_norm",
    "layers.{}.attention.k_norm": "model.layers.{}.self_attn.k_norm",
    "layers.{}.attention_norm": "model.layers.{}.input_layernorm",
    "layers.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "layers.{}.feed_forward.w1": "model.layers.{}.mlp.gate_proj",
    "layers.{}.feed_forward.w2": "model.layers.{}.mlp.down_proj",
    "layers.{}.feed_forward.w3": "model.layers.{}.mlp.up_proj",
    "norm": "model.norm",
    "output": "lm_head",
}


class Qwen3StateDictAdapter(BaseStateDictAdapter):
    """Renames tensors; none changes its shape."""

    def from_hf(self, hf_state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        back = {theirs: ours for ours, theirs in _NAMES.items()}
        found = {_rename(name, back): tensor for name, tensor in hf_state_dict.items()}
        if self.model_config.enable_weight_tying:
            found["output.weight"] = found["tok_embeddings.weight"]
        return found

    def to_hf(self, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        return dict(
            pair
            for name, tensor in state_dict.items()
            for pair in self.convert_single_to_hf(name, tensor)
        )

    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        if name == "output.weight" and self.model_config.enable_weight_tying:
            return []
        return [(_rename(name, _NAMES), tensor)]


def _rename(name: str, names: dict[str, str]) -> str:
    layer = next((part for part in name.split(".") if part.isdigit()), "")
    module, _, leaf = name.rpartition(".")
    pattern = ".".join("{}" if part.isdigit() else part for part in module.split("."))
    return f"{names[pattern].format(layer)}.{leaf}"

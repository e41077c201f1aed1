"""Weights of Qwen2 under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.qwen2.model.args import Qwen2ModelArgs
from areal.experimental.models.archon.qwen2.model.model import Qwen2Model
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter, Tied


class Qwen2StateDictAdapter(RuleAdapter):
    """Maps the weights of Qwen2 by rules: a name on the Hub, then what it holds."""

    model_class = Qwen2Model
    model_args_class = Qwen2ModelArgs
    RULES = (
        Rename("model.embed_tokens.weight", "tok_embeddings.weight"),
        Rename("model.layers.{}.input_layernorm.weight", "layers.{}.attention_norm.weight"),
        Rename("model.layers.{}.self_attn.q_proj.weight", "layers.{}.attention.wq.weight"),
        Rename("model.layers.{}.self_attn.q_proj.bias", "layers.{}.attention.wq.bias"),
        Rename("model.layers.{}.self_attn.k_proj.weight", "layers.{}.attention.wk.weight"),
        Rename("model.layers.{}.self_attn.k_proj.bias", "layers.{}.attention.wk.bias"),
        Rename("model.layers.{}.self_attn.v_proj.weight", "layers.{}.attention.wv.weight"),
        Rename("model.layers.{}.self_attn.v_proj.bias", "layers.{}.attention.wv.bias"),
        Rename("model.layers.{}.self_attn.o_proj.weight", "layers.{}.attention.wo.weight"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.gate_proj.weight", "layers.{}.feed_forward.w1.weight"),
        Rename("model.layers.{}.mlp.up_proj.weight", "layers.{}.feed_forward.w3.weight"),
        Rename("model.layers.{}.mlp.down_proj.weight", "layers.{}.feed_forward.w2.weight"),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

"""Weights of Llama under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.llama.model.args import LlamaModelArgs
from areal.experimental.models.archon.llama.model.model import LlamaModel
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter, Tied


class LlamaStateDictAdapter(RuleAdapter):
    """Maps the weights of Llama by rules: a name on the Hub, then what it holds."""

    model_class = LlamaModel
    model_args_class = LlamaModelArgs
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
        Rename("model.layers.{}.self_attn.o_proj.bias", "layers.{}.attention.wo.bias"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.gate_proj.weight", "layers.{}.feed_forward.w1.weight"),
        Rename("model.layers.{}.mlp.gate_proj.bias", "layers.{}.feed_forward.w1.bias"),
        Rename("model.layers.{}.mlp.up_proj.weight", "layers.{}.feed_forward.w3.weight"),
        Rename("model.layers.{}.mlp.up_proj.bias", "layers.{}.feed_forward.w3.bias"),
        Rename("model.layers.{}.mlp.down_proj.weight", "layers.{}.feed_forward.w2.weight"),
        Rename("model.layers.{}.mlp.down_proj.bias", "layers.{}.feed_forward.w2.bias"),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

"""Weights of Qwen3Moe under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.qwen3_moe.model.args import Qwen3MoeModelArgs
from areal.experimental.models.archon.qwen3_moe.model.model import Qwen3MoeModel
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter, Stacked, Tied


class Qwen3MoeStateDictAdapter(RuleAdapter):
    """Maps the weights of Qwen3Moe by rules: a name on the Hub, then what it holds."""

    model_class = Qwen3MoeModel
    model_args_class = Qwen3MoeModelArgs
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
        Rename("model.layers.{}.self_attn.q_norm.weight", "layers.{}.attention.q_norm.weight"),
        Rename("model.layers.{}.self_attn.k_norm.weight", "layers.{}.attention.k_norm.weight"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.gate.weight", "layers.{}.moe.router.gate.weight"),
        Stacked("model.layers.{}.mlp.experts.{e}.gate_proj.weight", "layers.{}.moe.experts.w1"),
        Stacked("model.layers.{}.mlp.experts.{e}.down_proj.weight", "layers.{}.moe.experts.w2"),
        Stacked("model.layers.{}.mlp.experts.{e}.up_proj.weight", "layers.{}.moe.experts.w3"),
        Rename("model.layers.{}.mlp.gate_proj.weight", "layers.{}.feed_forward.w1.weight"),
        Rename("model.layers.{}.mlp.up_proj.weight", "layers.{}.feed_forward.w3.weight"),
        Rename("model.layers.{}.mlp.down_proj.weight", "layers.{}.feed_forward.w2.weight"),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

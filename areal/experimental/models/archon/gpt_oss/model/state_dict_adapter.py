"""Weights of GptOss under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.gpt_oss.model.args import GptOssModelArgs
from areal.experimental.models.archon.gpt_oss.model.model import GptOssModel
from areal.experimental.models.archon.state_dict import Fused, Rename, RuleAdapter, Tied, Transposed


class GptOssStateDictAdapter(RuleAdapter):
    """Maps the weights of GptOss by rules: a name on the Hub, then what it holds."""

    model_class = GptOssModel
    model_args_class = GptOssModelArgs
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
        Rename("model.layers.{}.self_attn.sinks", "layers.{}.attention.sinks"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.router.weight", "layers.{}.moe.router.gate.weight"),
        Rename("model.layers.{}.mlp.router.bias", "layers.{}.moe.router.gate.bias"),
        Fused(
            "model.layers.{}.mlp.experts.gate_up_proj",
            ("layers.{}.moe.experts.w1", "layers.{}.moe.experts.w3"),
            groups="rows",
            axis=1,
            transposed=True,
        ),
        Transposed("model.layers.{}.mlp.experts.down_proj", "layers.{}.moe.experts.w2"),
        Fused(
            "model.layers.{}.mlp.experts.gate_up_proj_bias",
            ("layers.{}.moe.experts.b1", "layers.{}.moe.experts.b3"),
            groups="rows",
            axis=1,
        ),
        Rename("model.layers.{}.mlp.experts.down_proj_bias", "layers.{}.moe.experts.b2"),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

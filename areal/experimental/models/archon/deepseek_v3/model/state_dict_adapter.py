"""Weights of DeepseekV3 under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.deepseek_v3.model.args import DeepseekV3ModelArgs
from areal.experimental.models.archon.deepseek_v3.model.model import DeepseekV3Model
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter, Stacked, Tied


class DeepseekV3StateDictAdapter(RuleAdapter):
    """Maps the weights of DeepseekV3 by rules: a name on the Hub, then what it holds."""

    model_class = DeepseekV3Model
    model_args_class = DeepseekV3ModelArgs
    RULES = (
        Rename("model.embed_tokens.weight", "tok_embeddings.weight"),
        Rename("model.layers.{}.input_layernorm.weight", "layers.{}.attention_norm.weight"),
        Rename("model.layers.{}.self_attn.q_proj.weight", "layers.{}.attention.wq.weight"),
        Rename("model.layers.{}.self_attn.q_a_proj.weight", "layers.{}.attention.wq_a.weight"),
        Rename("model.layers.{}.self_attn.q_a_proj.bias", "layers.{}.attention.wq_a.bias"),
        Rename(
            "model.layers.{}.self_attn.q_a_layernorm.weight", "layers.{}.attention.q_norm.weight"
        ),
        Rename("model.layers.{}.self_attn.q_b_proj.weight", "layers.{}.attention.wq_b.weight"),
        Rename(
            "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight",
            "layers.{}.attention.wkv_a.weight",
        ),
        Rename(
            "model.layers.{}.self_attn.kv_a_proj_with_mqa.bias", "layers.{}.attention.wkv_a.bias"
        ),
        Rename(
            "model.layers.{}.self_attn.kv_a_layernorm.weight", "layers.{}.attention.kv_norm.weight"
        ),
        Rename("model.layers.{}.self_attn.kv_b_proj.weight", "layers.{}.attention.wkv_b.weight"),
        Rename("model.layers.{}.self_attn.o_proj.weight", "layers.{}.attention.wo.weight"),
        Rename("model.layers.{}.self_attn.o_proj.bias", "layers.{}.attention.wo.bias"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.gate_proj.weight", "layers.{}.feed_forward.w1.weight"),
        Rename("model.layers.{}.mlp.up_proj.weight", "layers.{}.feed_forward.w3.weight"),
        Rename("model.layers.{}.mlp.down_proj.weight", "layers.{}.feed_forward.w2.weight"),
        Rename("model.layers.{}.mlp.gate.weight", "layers.{}.moe.router.gate.weight"),
        Rename("model.layers.{}.mlp.gate.e_score_correction_bias", "layers.{}.moe.expert_bias"),
        Stacked("model.layers.{}.mlp.experts.{e}.gate_proj.weight", "layers.{}.moe.experts.w1"),
        Stacked("model.layers.{}.mlp.experts.{e}.down_proj.weight", "layers.{}.moe.experts.w2"),
        Stacked("model.layers.{}.mlp.experts.{e}.up_proj.weight", "layers.{}.moe.experts.w3"),
        Rename(
            "model.layers.{}.mlp.shared_experts.gate_proj.weight",
            "layers.{}.moe.shared_experts.w1.weight",
        ),
        Rename(
            "model.layers.{}.mlp.shared_experts.up_proj.weight",
            "layers.{}.moe.shared_experts.w3.weight",
        ),
        Rename(
            "model.layers.{}.mlp.shared_experts.down_proj.weight",
            "layers.{}.moe.shared_experts.w2.weight",
        ),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

"""Weights of Mixtral under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.mixtral.model.args import MixtralModelArgs
from areal.experimental.models.archon.mixtral.model.model import MixtralModel
from areal.experimental.models.archon.state_dict import Rename, RuleAdapter, Stacked, Tied


class MixtralStateDictAdapter(RuleAdapter):
    """Maps the weights of Mixtral by rules: a name on the Hub, then what it holds."""

    model_class = MixtralModel
    model_args_class = MixtralModelArgs
    RULES = (
        Rename("model.embed_tokens.weight", "tok_embeddings.weight"),
        Rename("model.layers.{}.input_layernorm.weight", "layers.{}.attention_norm.weight"),
        Rename("model.layers.{}.self_attn.q_proj.weight", "layers.{}.attention.wq.weight"),
        Rename("model.layers.{}.self_attn.k_proj.weight", "layers.{}.attention.wk.weight"),
        Rename("model.layers.{}.self_attn.v_proj.weight", "layers.{}.attention.wv.weight"),
        Rename("model.layers.{}.self_attn.o_proj.weight", "layers.{}.attention.wo.weight"),
        Rename("model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.block_sparse_moe.gate.weight", "layers.{}.moe.router.gate.weight"),
        Stacked(
            "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", "layers.{}.moe.experts.w1"
        ),
        Stacked(
            "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", "layers.{}.moe.experts.w2"
        ),
        Stacked(
            "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", "layers.{}.moe.experts.w3"
        ),
        Rename("model.norm.weight", "norm.weight"),
        Tied("lm_head.weight", "model.embed_tokens.weight"),
        Rename("lm_head.weight", "output.weight"),
    )

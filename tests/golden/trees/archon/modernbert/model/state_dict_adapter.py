"""Weights of ModernBert under the names on the Hub."""

from __future__ import annotations

from areal.experimental.models.archon.modernbert.model.args import ModernBertModelArgs
from areal.experimental.models.archon.modernbert.model.model import ModernBertModel
from areal.experimental.models.archon.state_dict import Fused, Ignored, Rename, RuleAdapter


class ModernBertStateDictAdapter(RuleAdapter):
    """Maps the weights of ModernBert by rules: a name on the Hub, then what it holds."""

    model_class = ModernBertModel
    model_args_class = ModernBertModelArgs
    RULES = (
        Rename("model.embeddings.tok_embeddings.weight", "tok_embeddings.weight"),
        Rename("model.embeddings.norm.weight", "embedding_norm.weight"),
        Rename("model.layers.{}.attn_norm.weight", "layers.{}.attention_norm.weight"),
        Fused(
            "model.layers.{}.attn.Wqkv.weight",
            (
                "layers.{}.attention.wq.weight",
                "layers.{}.attention.wk.weight",
                "layers.{}.attention.wv.weight",
            ),
        ),
        Rename("model.layers.{}.attn.Wo.weight", "layers.{}.attention.wo.weight"),
        Rename("model.layers.{}.mlp_norm.weight", "layers.{}.ffn_norm.weight"),
        Rename("model.layers.{}.mlp.Wo.weight", "layers.{}.feed_forward.w2.weight"),
        Fused(
            "model.layers.{}.mlp.Wi.weight",
            ("layers.{}.feed_forward.w1.weight", "layers.{}.feed_forward.w3.weight"),
        ),
        Rename("model.final_norm.weight", "norm.weight"),
        Rename("head.dense.weight", "head_dense.weight"),
        Rename("head.norm.weight", "head_norm.weight"),
        Rename("classifier.weight", "score.weight"),
        Rename("classifier.bias", "score.bias"),
        Ignored("decoder.bias"),
        Ignored("decoder.weight"),
    )

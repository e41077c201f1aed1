"""Layers of transformers, each with the options and the names that make Archon's the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.moe import MoE, MoEArgs

DIM, HIDDEN, EXPERTS = 16, 24, 8
Read = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Layer:
    """Is one kind of layer.

    Args:
        block: Its class in transformers, below ``models``.
        config: Its config's class, beside the block's unless it says where.
        fields: Of the config.
        args: Of ``MoEArgs``, apart from the number of experts.
        names: Archon's names of the tensors that are not the experts', with transformers'.
        experts: Reads w1, w3, w2 and the biases off transformers' tensors.
    """

    block: str
    config: str
    fields: Mapping[str, Any]
    args: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    experts: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = lambda t: side_by_side(t)

    def build(self) -> nn.Module:
        """Returns transformers' layer with random weights that all matter."""
        module, _, name = self.block.rpartition(".")
        modeling = importlib.import_module(f"transformers.models.{module}")
        configuration = modeling.__name__.replace("modeling", "configuration")
        config = getattr(importlib.import_module(configuration), self.config)(
            hidden_size=DIM, num_attention_heads=4, **self.fields
        )
        config._experts_implementation = "eager"
        layer = getattr(modeling, name)(config).eval()
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for tensor in [*layer.parameters(), *layer.buffers()]:
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise * (0.25 if tensor.ndim > 1 else 0.1))
        return layer

    def archon(self, layer: nn.Module, read: Mapping[str, Tensor] | None = None) -> MoE:
        """Returns Archon's layer with the same weights, or with other tensors of their names."""
        args = MoEArgs(**{"num_experts": EXPERTS, **self.args})
        moe = MoE(args, DIM, HIDDEN).eval()
        moe.init_buffers("cpu")
        moe.load_state_dict(self.read(tensors_of(layer) if read is None else read))
        return moe

    def read(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns transformers' tensors under Archon's names."""
        found = {mine: tensors[theirs].reshape(-1) for mine, theirs in self.names.items()}
        for mine, theirs in self.names.items():
            if tensors[theirs].ndim == 2 and "bias" not in mine:
                found[mine] = tensors[theirs]
        return found | {f"experts.{n}": t for n, t in self.experts(tensors).items()}


def tensors_of(layer: nn.Module) -> dict[str, Tensor]:
    """Returns parameters and buffers by name."""
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers())}


def side_by_side(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads [E, 2H, D] and [E, D, H], the gate first."""
    both, down = tensors["experts.gate_up_proj"], tensors["experts.down_proj"]
    count, width = down.shape[0], down.shape[2]
    return {"w1": both[:count, :width], "w3": both[:count, width:], "w2": down}


def transposed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads [E, D, 2H] and [E, H, D]."""
    names = ("experts.gate_up_proj", "experts.down_proj")
    return side_by_side({n: tensors[n].transpose(1, 2) for n in names})


def interleaved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads [E, D, 2H] whose gates and ups alternate, with biases."""
    both = tensors["experts.gate_up_proj"].transpose(1, 2)
    bias = tensors["experts.gate_up_proj_bias"]
    return {
        "w1": both[:, 0::2],
        "w3": both[:, 1::2],
        "w2": tensors["experts.down_proj"].transpose(1, 2),
        "b1": bias[:, 0::2],
        "b3": bias[:, 1::2],
        "b2": tensors["experts.down_proj_bias"],
    }


def shared(name: str, *, bias: bool = False) -> dict[str, str]:
    """Names a shared expert's tensors."""
    parts = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
    kinds = ("weight", "bias") if bias else ("weight",)
    return {f"shared_experts.{m}.{k}": f"{name}.{t}.{k}" for m, t in parts.items() for k in kinds}


def ungated(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads [E, H, D] and [E, D, H]."""
    return {"w1": tensors["experts.up_proj"], "w2": tensors["experts.down_proj"]}


GATE = {"router.gate.weight": "gate.weight"}
ROUTER = {"router.gate.weight": "router.weight"}
CORRECTED = {**GATE, "expert_bias": "gate.e_score_correction_bias"}
SIZES = {"num_experts": EXPERTS, "moe_intermediate_size": HIDDEN, "num_experts_per_tok": 3}
LOCAL = {"num_local_experts": EXPERTS, "intermediate_size": HIDDEN, "num_experts_per_tok": 2}
DEEPSEEK = {"n_routed_experts": EXPERTS, "moe_intermediate_size": HIDDEN, "num_experts_per_tok": 3}
ONE_SHARED = {"num_shared_experts": 1, "shared_expert_intermediate_size": HIDDEN}
GROUPS = {"num_expert_groups": 4, "num_limited_groups": 2}

LAYERS: dict[str, Layer] = {
    "softmax of all": Layer(
        "qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
        "Qwen3MoeConfig",
        {**SIZES, "norm_topk_prob": False, "hidden_act": "gelu"},
        {"top_k": 3, "score_func": "softmax", "activation": "gelu"},
        GATE,
    ),
    "softmax of all, normed": Layer(
        "mixtral.modeling_mixtral.MixtralSparseMoeBlock",
        "MixtralConfig",
        LOCAL,
        {"top_k": 2, "score_func": "softmax", "route_norm": True},
        GATE,
    ),
    "softmax of all, biased choice, least norm": Layer(
        "ernie4_5_moe.modeling_ernie4_5_moe.Ernie4_5_MoeSparseMoeBlock",
        "Ernie4_5_MoeConfig",
        {
            "moe_num_experts": EXPERTS,
            "moe_intermediate_size": HIDDEN,
            "moe_k": 3,
            "moe_num_shared_experts": 2,
            "moe_norm_min": 0.4,
        },
        {
            "top_k": 3,
            "score_func": "softmax",
            "use_expert_bias": True,
            "route_norm": True,
            "route_norm_min": 0.4,
            "router_dtype": "float32",
            "num_shared_experts": 2,
        },
        {
            **GATE,
            "expert_bias": "gate.moe_statics.e_score_correction_bias",
            **shared("shared_experts"),
        },
    ),
    "softmax of all, best groups": Layer(
        "deepseek_v2.modeling_deepseek_v2.DeepseekV2Moe",
        "DeepseekV2Config",
        {
            **DEEPSEEK,
            "n_shared_experts": 1,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 1.5,
        },
        {
            "top_k": 3,
            "score_func": "softmax",
            **GROUPS,
            "group_score_func": "max",
            "route_scale": 1.5,
            "num_shared_experts": 1,
        },
        {**GATE, **shared("shared_experts")},
    ),
    "softmax of all, zero experts": Layer(
        "longcat_flash.modeling_longcat_flash.LongcatFlashMoE",
        "LongcatFlashConfig",
        {
            "n_routed_experts": EXPERTS,
            "zero_expert_num": 3,
            "moe_topk": 4,
            "expert_ffn_hidden_size": HIDDEN,
            "routed_scaling_factor": 6.0,
        },
        {
            "top_k": 4,
            "score_func": "softmax",
            "num_zero_experts": 3,
            "use_expert_bias": True,
            "route_scale": 6.0,
        },
        {
            "router.gate.weight": "router.classifier.weight",
            "expert_bias": "router.e_score_correction_bias",
        },
    ),
    "softmax of the chosen, limits and biases": Layer(
        "gpt_oss.modeling_gpt_oss.GptOssMLP",
        "GptOssConfig",
        {**LOCAL, "swiglu_limit": 0.5, "swiglu_alpha": 1.9},
        {
            "top_k": 2,
            "score_func": "softmax",
            "score_after_topk": True,
            "router_bias": True,
            "expert_bias_terms": True,
            "gate_alpha": 1.9,
            "gate_limit": 0.5,
            "up_limit": 0.5,
            "up_offset": 1.0,
        },
        {**ROUTER, "router.gate.bias": "router.bias"},
        interleaved,
    ),
    "sigmoid of the chosen, mean with shared": Layer(
        "cohere2_moe.modeling_cohere2_moe.Cohere2MoeSparseMoeBlock",
        "Cohere2MoeConfig",
        {
            "num_experts": EXPERTS,
            "intermediate_size": HIDDEN,
            "num_experts_per_tok": 2,
            "expert_selection_fn": "sigmoid",
            "norm_topk_prob": True,
            "num_shared_experts": 2,
            "shared_expert_combination_strategy": "average",
        },
        {
            "top_k": 2,
            "score_func": "sigmoid",
            "score_after_topk": True,
            "route_norm": True,
            "num_shared_experts": 2,
            "output_scale": 0.5,
        },
        {**GATE, **shared("shared_experts")},
    ),
    "sigmoid of the chosen, biased logits": Layer(
        "kolibri1.modeling_kolibri1.Kolibri1SparseMoeBlock",
        "Kolibri1Config",
        {**SIZES, "norm_topk_prob": True, "shared_expert_intermediate_size": HIDDEN},
        {
            "top_k": 3,
            "score_func": "sigmoid",
            "score_after_topk": True,
            "use_expert_bias": True,
            "route_norm": True,
            **ONE_SHARED,
        },
        {**CORRECTED, **shared("shared_experts")},
    ),
    "sigmoid, scores go in": Layer(
        "llama4.modeling_llama4.Llama4TextMoe",
        "Llama4TextConfig",
        LOCAL,
        {
            "top_k": 2,
            "score_func": "sigmoid",
            "score_before_experts": True,
            **ONE_SHARED,
        },
        {**ROUTER, **shared("shared_expert")},
        transposed,
    ),
    "sigmoid, capped logits": Layer(
        "laguna.modeling_laguna.LagunaSparseMoeBlock",
        "LagunaConfig",
        {
            **SIZES,
            "moe_router_logit_softcapping": 1.5,
            "moe_routed_scaling_factor": 2.5,
            "shared_expert_intermediate_size": HIDDEN,
        },
        {
            "top_k": 3,
            "score_func": "sigmoid",
            "router_softcap": 1.5,
            "use_expert_bias": True,
            "route_norm": True,
            "route_scale": 2.5,
            **ONE_SHARED,
        },
        {**CORRECTED, **shared("shared_experts")},
    ),
    "sigmoid, groups by their best two": Layer(
        "deepseek_v3.modeling_deepseek_v3.DeepseekV3MoE",
        "DeepseekV3Config",
        {**DEEPSEEK, "n_shared_experts": 1, "n_group": 4, "topk_group": 2},
        {
            "top_k": 3,
            "score_func": "sigmoid",
            "use_expert_bias": True,
            **GROUPS,
            "route_norm": True,
            "route_norm_eps": 1e-20,
            "route_scale": 2.5,
            "router_dtype": "float32",
            "num_shared_experts": 1,
        },
        {**CORRECTED, **shared("shared_experts")},
    ),
    "no gates": Layer(
        "nemotron_h.modeling_nemotron_h.NemotronHMoE",
        "NemotronHConfig",
        {**DEEPSEEK, "moe_shared_expert_intermediate_size": 40},
        {
            "top_k": 3,
            "score_func": "sigmoid",
            "use_expert_bias": True,
            "num_expert_groups": 1,
            "num_limited_groups": 1,
            "route_norm": True,
            "route_norm_eps": 1e-20,
            "router_dtype": "float32",
            "activation": "relu2",
            "gated": False,
            "num_shared_experts": 1,
            "shared_expert_intermediate_size": 40,
        },
        {
            **CORRECTED,
            "shared_experts.w1.weight": "shared_experts.up_proj.weight",
            "shared_experts.w2.weight": "shared_experts.down_proj.weight",
        },
        ungated,
    ),
    "sigmoid, norm at the end": Layer(
        "axk1.modeling_axk1.AXK1MoE",
        "AXK1Config",
        {
            **DEEPSEEK,
            "n_shared_experts": 1,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.0,
            "rms_norm_eps": 1e-3,
        },
        {
            "top_k": 3,
            "score_func": "sigmoid",
            "use_expert_bias": True,
            "num_expert_groups": 1,
            "num_limited_groups": 1,
            "route_norm": True,
            "num_shared_experts": 1,
            "post_norm_eps": 1e-3,
        },
        {
            **CORRECTED,
            **shared("shared_experts"),
            "post_norm.weight": "post_mlp_layernorm.weight",
        },
    ),
    "sparsemixer": Layer(
        "phimoe.modeling_phimoe.PhimoeSparseMoeBlock",
        "PhimoeConfig",
        {**LOCAL, "router_jitter_noise": 0.2},
        {"top_k": 2, "score_func": "sparsemixer", "sparsemixer_eps": 0.2},
        ROUTER,
    ),
    "gated shared expert": Layer(
        "qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
        "Qwen2MoeConfig",
        {**SIZES, "shared_expert_intermediate_size": 40},
        {
            "top_k": 3,
            "score_func": "softmax",
            "num_shared_experts": 1,
            "shared_expert_intermediate_size": 40,
            "use_shared_expert_gate": True,
        },
        {
            **GATE,
            **shared("shared_expert"),
            "shared_expert_gate.weight": "shared_expert_gate.weight",
        },
    ),
    "another activation of the shared experts": Layer(
        "aria.modeling_aria.AriaTextMoELayer",
        "AriaTextConfig",
        {
            "moe_num_experts": EXPERTS,
            "intermediate_size": HIDDEN,
            "moe_topk": 2,
            "moe_num_shared_experts": 2,
            "mlp_bias": True,
            "hidden_act": "gelu",
        },
        {
            "top_k": 2,
            "score_func": "softmax",
            "score_after_topk": True,
            "num_shared_experts": 2,
            "shared_activation": "gelu",
            "shared_bias": True,
        },
        {**ROUTER, **shared("shared_experts", bias=True)},
        transposed,
    ),
}

"""Tiny transformers models of every weight layout, as on the Hub and as Archon has them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

# Six heads of eight, two of keys and values: no size equals another by accident.
_PLAIN: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GPT2: dict[str, Any] = {
    "vocab_size": 96,
    "n_embd": 48,
    "n_layer": 2,
    "n_head": 6,
    "n_positions": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_FALCON = {
    k: v for k, v in _PLAIN.items() if k not in ("intermediate_size", "head_dim", "hidden_size")
} | {"hidden_size": 48, "num_kv_heads": 2, "num_key_value_heads": None}

Split = Callable[[Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Layout:
    """Says how the parameters of a transformers model become Archon's.

    Args:
        model_type: In transformers.
        changes: Of the tiny config.
        splits: What to do with tensors whose name ends so; others keep name and values.
        base: The config that is changed.
    """

    model_type: str
    changes: dict[str, Any]
    splits: dict[str, Split]
    base: dict[str, Any]

    def make(self) -> Any:
        """Returns a new model."""
        config = CONFIG_MAPPING[self.model_type](**(self.base | self.changes))
        return AutoModelForCausalLM.from_config(config)

    def archon(self, model: Any) -> dict[str, Tensor]:
        """Returns a model's parameters as an Archon model has them."""
        found: dict[str, Tensor] = {}
        for name, tensor in model.state_dict().items():
            split = next((s for end, s in self.splits.items() if name.endswith(end)), None)
            # Only the place of the layer number matters; its name is Archon's.
            stem = re.sub(r"^.*?\.(\d+)\.", r"layers.\1.", name)
            parts = {"": tensor} if split is None else split(tensor)
            found |= {f"{stem}:{part}" if part else stem: t for part, t in parts.items()}
        return found


def hub_tensors(model: Any) -> dict[str, Tensor]:
    """Returns a model's tensors as ``save_pretrained`` writes them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found: dict[str, Tensor] = {}
        for file in sorted(Path(folder).glob("*.safetensors")):
            found |= load_file(file)
        return found


def _blocks(*rows: int, names: str = "qkv", axis: int = 0, transposed: bool = False) -> Split:
    """Cuts [q | k | v] or the like."""

    def split(tensor: Tensor) -> dict[str, Tensor]:
        upright = tensor.T if transposed and tensor.dim() == 2 else tensor
        return dict(zip(names, upright.split(rows, axis), strict=True))

    return split


def _per_group(groups: int, *rows: int, names: str = "qkv") -> Split:
    """Cuts what is laid out group by group."""

    def split(tensor: Tensor) -> dict[str, Tensor]:
        parts = tensor.unflatten(0, (groups, -1)).split(rows, 1)
        return {name: part.flatten(0, 1) for name, part in zip(names, parts, strict=True)}

    return split


def _experts(transposed: bool = False, interleaved: bool = False) -> Split:
    """Cuts the gate and up projections of all experts."""

    def split(tensor: Tensor) -> dict[str, Tensor]:
        upright = tensor.transpose(1, 2) if transposed and tensor.dim() == 3 else tensor
        if interleaved:
            return {"w1": upright[:, 0::2], "w3": upright[:, 1::2]}
        w1, w3 = upright.chunk(2, dim=1)
        return {"w1": w1, "w3": w3}

    return split


def _transposed(tensor: Tensor) -> dict[str, Tensor]:
    return {"": tensor.transpose(-2, -1)}


def _stack(experts: int, transposed: bool = False) -> Split:
    """Takes the matrices of experts that lie one below the other apart."""

    def split(tensor: Tensor) -> dict[str, Tensor]:
        stacked = tensor.unflatten(0, (experts, -1))
        return {"": stacked.transpose(1, 2) if transposed else stacked}

    return split


_MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
_FUSED_EXPERTS = {"experts.gate_up_proj": _experts()}
_DEEPSEEK = {
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "first_k_dense_replace": 1,
}
_DBRX = {
    "vocab_size": 96,
    "d_model": 48,
    "n_layers": 2,
    "n_heads": 6,
    "max_seq_len": 64,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4},
    "ffn_config": {
        "ffn_hidden_size": 40,
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "hidden_size": 48,
    },
}
_CONV1D = {
    "c_attn.weight": _blocks(48, 48, 48, transposed=True),
    "c_attn.bias": _blocks(48, 48, 48),
    "c_proj.weight": _transposed,
    "c_fc.weight": _transposed,
}

LAYOUTS: dict[str, Layout] = {
    "qwen2": Layout("qwen2", {}, {}, _PLAIN),
    "qwen2 tied": Layout("qwen2", {"tie_word_embeddings": True}, {}, _PLAIN),
    "qwen3": Layout("qwen3", {}, {}, _PLAIN),
    "qwen3_moe": Layout(
        "qwen3_moe",
        {"num_experts": 4, "moe_intermediate_size": 40, "mlp_only_layers": [0]},
        _FUSED_EXPERTS,
        _PLAIN,
    ),
    "mixtral": Layout("mixtral", _MOE, _FUSED_EXPERTS, _PLAIN),
    "granitemoe": Layout("granitemoe", _MOE, _FUSED_EXPERTS, _PLAIN),
    "gpt_oss": Layout(
        "gpt_oss",
        _MOE,
        {
            "gate_up_proj": _experts(transposed=True, interleaved=True),
            "gate_up_proj_bias": _experts(interleaved=True),
            "down_proj": _transposed,
        },
        _PLAIN,
    ),
    "llama4_text": Layout(
        "llama4_text",
        _MOE | {"intermediate_size_mlp": 88, "interleave_moe_layer_step": 2},
        {"experts.gate_up_proj": _experts(transposed=True), "experts.down_proj": _transposed},
        _PLAIN,
    ),
    "phi3": Layout(
        "phi3",
        {},
        {
            "qkv_proj.weight": _blocks(48, 16, 16),
            "gate_up_proj.weight": _blocks(80, 80, names="13"),
        },
        _PLAIN | {"hidden_size": 48},
    ),
    "glm4": Layout("glm4", {}, {"gate_up_proj.weight": _blocks(80, 80, names="13")}, _PLAIN),
    "gpt_neox": Layout(
        "gpt_neox",
        {},
        {
            "query_key_value.weight": _per_group(6, 8, 8, 8),
            "query_key_value.bias": _per_group(6, 8, 8, 8),
        },
        _PLAIN | {"hidden_size": 48},
    ),
    "bloom": Layout(
        "bloom",
        {},
        {
            "query_key_value.weight": _per_group(6, 8, 8, 8),
            "query_key_value.bias": _per_group(6, 8, 8, 8),
        },
        {"vocab_size": 96, "hidden_size": 48, "n_layer": 2, "n_head": 6},
    ),
    "falcon multi query": Layout(
        "falcon",
        {"multi_query": True},
        {"query_key_value.weight": _blocks(48, 8, 8)},
        _FALCON,
    ),
    "falcon many heads": Layout(
        "falcon",
        {"multi_query": False},
        {"query_key_value.weight": _per_group(6, 8, 8, 8)},
        _FALCON,
    ),
    "falcon new": Layout(
        "falcon",
        {"new_decoder_architecture": True},
        {"query_key_value.weight": _per_group(2, 24, 8, 8)},
        _FALCON,
    ),
    "codegen": Layout(
        "codegen",
        {"n_head": 8, "n_embd": 64, "rotary_dim": 4},
        {"qkv_proj.weight": _per_group(4, 16, 16, 16, names="qvk")},
        _GPT2,
    ),
    "gpt2": Layout("gpt2", {}, _CONV1D, _GPT2),
    "gpt_bigcode": Layout(
        "gpt_bigcode",
        {},
        {"c_attn.weight": _blocks(48, 8, 8), "c_attn.bias": _blocks(48, 8, 8)},
        _GPT2,
    ),
    "ernie4_5_moe": Layout(
        "ernie4_5_moe",
        {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 40, "moe_layer_start_index": 1},
        _FUSED_EXPERTS | {"e_score_correction_bias": lambda tensor: {"": tensor[0]}},
        _PLAIN,
    ),
    "dbrx": Layout(
        "dbrx",
        {},
        {
            "Wqkv.weight": _blocks(48, 16, 16),
            "mlp.w1": _stack(4),
            "mlp.v1": _stack(4),
            "mlp.w2": _stack(4, transposed=True),
        },
        _DBRX,
    ),
    "longcat_flash": Layout(
        "longcat_flash",
        _DEEPSEEK
        | {
            "num_layers": 2,
            "zero_expert_num": 3,
            "expert_ffn_hidden_size": 40,
            "ffn_hidden_size": 72,
            "moe_topk": 2,
        },
        {"experts.gate_up_proj": lambda tensor: _experts()(tensor[:4])},
        {k: v for k, v in _PLAIN.items() if k not in ("num_hidden_layers", "num_key_value_heads")},
    ),
    "deepseek_v3": Layout(
        "deepseek_v3",
        _DEEPSEEK,
        _FUSED_EXPERTS | {"kv_b_proj.weight": _per_group(6, 8, 10, names="kv")},
        _PLAIN | {"num_key_value_heads": 6},
    ),
}


def fill_distinct(tensors: Iterable[Tensor], seed: int = 0) -> None:
    """Gives every element of float32 tensors a value that no other one has, between -1 and 1.

    Args:
        tensors: Those that share memory are filled once.
    """
    unique = {t.data_ptr(): t for t in tensors if t.is_floating_point() and t.numel()}
    total = sum(tensor.numel() for tensor in unique.values())
    # Below 1 float32 steps by at most 2**-24, and so many values lie 2**-22 apart.
    if total >= 2**23:
        raise ValueError(f"{total} elements are more than float32 has distinct steps for")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    values = (order.double() + 0.5) / total * 2 - 1
    start = 0
    with torch.no_grad():
        for tensor in unique.values():
            tensor.copy_(values[start : start + tensor.numel()].view(tensor.shape))
            start += tensor.numel()

"""The options of a mixture-of-experts layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from areal.api.errors import ConfigError

SCORE_FUNCTIONS = ("sigmoid", "softmax", "sparsemixer")
# As the configuration of an engine spells a type, and as torch does.
ROUTER_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
GROUP_SCORE_FUNCTIONS = ("max", "top2")


@dataclass
class MoEArgs:
    """How tokens choose experts, what an expert computes and what is added to their sum.

    Args:
        num_experts: Routed experts.
        top_k: Experts per token.
        score_func: softmax, sigmoid, or sparsemixer (two experts, each scored by a softmax over the
            logits near its own).
        score_after_topk: Experts are chosen by their logits, and only the chosen are scored.
        router_bias: The router's projection has a bias.
        router_softcap: Logits become ``cap * tanh(logits / cap)``; 0 means that they stay.
        router_dtype: The projection runs in this dtype; None means the tokens' own.
        sparsemixer_eps: Half of how far, relatively, a logit may be from the largest to count.
        use_expert_bias: A bias per expert, part of the checkpoint, takes part in the choice only.
        num_expert_groups: Equal groups, of which ``num_limited_groups`` are open to a token.
        num_limited_groups: Of the groups.
        group_score_func: A group is worth its best score (max) or the sum of its two best (top2).
        route_norm: The chosen scores are divided by their norm.
        route_norm_p: Which norm; 1 is the sum.
        route_norm_eps: Added to the norm.
        route_norm_min: The norm is at least this.
        route_scale: The scores are multiplied by it at last.
        weights_in_fp32: Scores multiply experts in fp32; below it they are rounded to the tokens'
            type first.
        score_before_experts: Scores multiply what goes into an expert and not what comes out.
        num_zero_experts: Further experts, after the routed ones, that return their input.
        activation: Of the routed experts.
        gated: An expert has a second projection up, which the activation of the first multiplies;
            without one w3 is left out, also of the shared experts.
        expert_bias_terms: The experts' three projections have biases.
        gate_alpha: The activation is ``g * sigmoid(alpha * g)`` and ``activation`` is not used.
        gate_limit: Largest value that goes into the activation.
        up_limit: Largest magnitude of what the activation multiplies.
        up_offset: Added to what the activation multiplies.
        num_shared_experts: Experts that see every token, computed as one; 0 means none.
        shared_expert_intermediate_size: Their width together; 0 means that many times an expert's.
        shared_activation: Of the shared experts; None means the routed experts' one.
        shared_bias: The shared experts' projections have biases.
        use_shared_expert_gate: Their output is multiplied by a sigmoid of one logit per token.
        output_scale: Of the sum of routed and shared experts, where there are shared ones.
        post_norm_eps: The sum goes through an RMS norm of this epsilon; None means none.
        use_grouped_mm: The grouped matrix product of CUDA may be used.
        load_balance_coeff: Step of the bias that balances load without a loss; None turns it off.

    Raises:
        ConfigError: A combination that no layer computes.
    """

    num_experts: int = 8
    top_k: int = 1
    score_func: str = "sigmoid"
    score_after_topk: bool = False
    router_bias: bool = False
    router_softcap: float = 0.0
    router_dtype: str | None = None
    sparsemixer_eps: float = 0.0
    use_expert_bias: bool = False
    num_expert_groups: int | None = None
    num_limited_groups: int | None = None
    group_score_func: str = "top2"
    route_norm: bool = False
    route_norm_p: float = 1.0
    route_norm_eps: float = 0.0
    route_norm_min: float = 0.0
    route_scale: float = 1.0
    weights_in_fp32: bool = False
    score_before_experts: bool = False
    num_zero_experts: int = 0
    activation: str = "silu"
    gated: bool = True
    expert_bias_terms: bool = False
    gate_alpha: float | None = None
    gate_limit: float | None = None
    up_limit: float | None = None
    up_offset: float = 0.0
    num_shared_experts: int = 0
    shared_expert_intermediate_size: int = 0
    shared_activation: str | None = None
    shared_bias: bool = False
    use_shared_expert_gate: bool = False
    output_scale: float = 1.0
    post_norm_eps: float | None = None
    use_grouped_mm: bool = True
    load_balance_coeff: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.router_dtype, torch.dtype):
            self.router_dtype = str(self.router_dtype).removeprefix("torch.")
        if self.router_dtype is not None:
            self.router_dtype = ROUTER_DTYPES.get(self.router_dtype, self.router_dtype)
            _require_known("router_dtype", self.router_dtype, tuple(ROUTER_DTYPES.values()))
        _require_known("score_func", self.score_func, SCORE_FUNCTIONS)
        _require_known("group_score_func", self.group_score_func, GROUP_SCORE_FUNCTIONS)
        if not 1 <= self.top_k <= self.num_routes:
            raise ConfigError(f"top_k is {self.top_k}, and a token has {self.num_routes} experts")
        if self.score_func == "sparsemixer" and self.top_k != 2:
            raise ConfigError(f"sparsemixer chooses 2 experts, and top_k is {self.top_k}")
        if self.num_expert_groups is not None:
            self._require_groups(self.num_expert_groups, self.num_limited_groups)

    def _require_groups(self, groups: int, limited: int | None) -> None:
        if limited is None or not 1 <= limited <= groups:
            raise ConfigError(f"num_limited_groups is {limited}; there are {groups} groups")
        if self.num_routes % groups:
            raise ConfigError(f"{self.num_routes} experts do not divide into {groups} groups")
        size = self.num_routes // groups
        if self.group_score_func == "top2" and size < 2:
            raise ConfigError("a group that is worth its two best scores has at least two experts")
        if limited * size < self.top_k:
            raise ConfigError(f"top_k is {self.top_k}, and {limited} groups of {size} are open")

    @property
    def num_routes(self) -> int:
        """Count what a token can choose: routed experts and those that return their input."""
        return self.num_experts + self.num_zero_experts

    @property
    def torch_router_dtype(self) -> torch.dtype | None:
        """The projection's dtype, None for the tokens' own."""
        return None if self.router_dtype is None else getattr(torch, self.router_dtype)

    @classmethod
    def from_hf_config(cls, hf_config: Any, **kwargs: Any) -> MoEArgs:
        """Read a softmax router with optional norm, as Qwen's configs spell it.

        Args:
            hf_config: Has ``num_experts`` and ``num_experts_per_tok``.
            kwargs: Any field; each wins over the config's value.
        """
        shared = getattr(hf_config, "shared_expert_intermediate_size", None) or 0
        found: dict[str, Any] = {
            "num_experts": hf_config.num_experts,
            "top_k": hf_config.num_experts_per_tok,
            "score_func": "softmax",
            "route_norm": bool(getattr(hf_config, "norm_topk_prob", False)),
            "activation": getattr(hf_config, "hidden_act", "silu"),
            "num_shared_experts": int(shared > 0),
            "shared_expert_intermediate_size": shared,
            "use_shared_expert_gate": shared > 0,
        }
        return cls(**found | kwargs)


def _require_known(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"unknown {field} {value!r}; known: {', '.join(known)}")

"""The forward pass of a Llama-like model in few operations, for generation on a CPU.

A step of a small model spends more time in calls than in arithmetic. This pass computes what the
Hugging Face module computes, from the same parameters, without the calls of its some seventy
modules, and with query and key as one tensor. A model that is built differently, or computes
something else in a trial, generates through its own modules.

Shape letters: T tokens of a packed call, H heads, K key-value heads, D head size, N kept tokens,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from areal.engine.attention import AttentionPlan, PackedPlan
from areal.engine.cpu_kernels import FusedRmsNorm, matmul_transposed
from areal.engine.fused_linear import SiblingLinear

# Two sequences, so that a layer which mixes them is seen.
_TRIAL_LENGTHS = (6, 4)
# Share of the logits' norm: the order of summation differs, which is 1e-6 in fp32.
_TOLERANCE = 1e-5


def make_lean_forward(model: Any) -> LeanForward | None:
    """Returns the lean pass of a model, or None where the model has to run by itself.

    Args:
        model: A causal language model whose attention takes plans, in evaluation mode.
    """
    if not _is_known(model):
        return None
    lean = LeanForward(model)
    try:
        return lean if _agrees(lean, model) else None
    except (RuntimeError, TypeError):
        # Parts of the right names and kinds, but of other shapes, or called in another way.
        return None


@torch.inference_mode()
def _agrees(lean: LeanForward, model: Any) -> bool:
    """Says whether the lean pass computes the logits that the model computes, on a trial."""
    generator = torch.Generator().manual_seed(0)
    vocab_size = len(model.get_input_embeddings().weight)
    tokens_T = torch.randint(vocab_size, (sum(_TRIAL_LENGTHS),), generator=generator)
    positions_T = torch.cat([torch.arange(length) for length in _TRIAL_LENGTHS])
    plan = PackedPlan(_TRIAL_LENGTHS)
    out = model(
        input_ids=tokens_T[None],
        position_ids=positions_T[None],
        use_cache=False,
        attention_plan=plan,
    )
    expected_TV = out.logits[0]
    difference = (lean(tokens_T, positions_T, plan, None) - expected_TV).norm()
    # False for NaN, too: where weights are not finite nothing can be compared.
    return bool(difference <= _TOLERANCE * expected_TV.norm())


class LeanForward:
    """Computes logits from the parameters of a model.

    Args:
        model: Its parameters are used, not copied. Hooks added to its inner modules later do not
            run.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._rotary: nn.Module = model.model.rotary_emb
        self.refresh()

    def refresh(self) -> None:
        """Looks at the model's parameters again, where some may be other tensors than before."""
        base, head = self._model.model, self._model.lm_head
        self._embedding: Tensor = base.embed_tokens.weight
        self._layers = [_Layer.of(layer) for layer in base.layers]
        self._norm = _Norm.of(base.norm)
        self._head: _Linear = (head.weight, head.bias)

    def __call__(
        self, tokens_T: Tensor, positions_T: Tensor, plan: AttentionPlan, keep_N: Tensor | None
    ) -> Tensor:
        """Returns the logits [N, V] of the kept tokens, or of all."""
        x = F.embedding(tokens_T, self._embedding)
        cos, sin = self._rotary(x[None], positions_T[None])
        # Heads stand in the second dimension. Both halves of the angles are equal.
        cos, sin = cos[0, :, None], sin[0, :, None, : sin.shape[-1] // 2]
        for layer in self._layers:
            x = layer(x, cos, sin, plan)
        if keep_N is not None:
            x = x.index_select(0, keep_N)
        return matmul_transposed(self._norm(x), *self._head)


# Weight and bias. Attributes of modules are looked up once and not at every step: the look-up alone
# would take a tenth of a step.
_Linear = tuple[Tensor, Tensor | None]


@dataclass(slots=True)
class _Norm:
    weight: Tensor
    shape: tuple[int, ...]
    eps: float

    @classmethod
    def of(cls, module: Any) -> _Norm:
        return cls(module.weight, tuple(module.weight.shape), module.variance_epsilon)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.rms_norm(x, self.shape, self.weight, self.eps)


@dataclass(slots=True)
class _Layer:
    """Is a decoder layer: attention and gated MLP, each after a norm and added to its input."""

    index: int
    num_heads: int
    num_qk_heads: int
    head_size: int
    scale: float
    window: int | None
    norm: _Norm
    qkv: list[_Linear]
    qk_norms: tuple[_Norm, _Norm] | None
    attention_out: _Linear
    mlp_norm: _Norm
    gate_up: list[_Linear]
    activation: Callable[[Tensor], Tensor]
    down: _Linear

    @classmethod
    def of(cls, layer: Any) -> _Layer:
        """Takes a Hugging Face layer apart."""
        attention, mlp = layer.self_attn, layer.mlp
        num_heads = attention.q_proj.out_features // attention.head_dim
        has_qk_norms = hasattr(attention, "q_norm")
        return cls(
            index=attention.layer_idx,
            num_heads=num_heads,
            num_qk_heads=num_heads + attention.k_proj.out_features // attention.head_dim,
            head_size=attention.head_dim,
            scale=attention.scaling,
            window=getattr(attention, "sliding_window", None),
            norm=_Norm.of(layer.input_layernorm),
            qkv=_joint((attention.q_proj, attention.k_proj, attention.v_proj)),
            qk_norms=(_Norm.of(attention.q_norm), _Norm.of(attention.k_norm))
            if has_qk_norms
            else None,
            attention_out=(attention.o_proj.weight, attention.o_proj.bias),
            mlp_norm=_Norm.of(layer.post_attention_layernorm),
            gate_up=_joint((mlp.gate_proj, mlp.up_proj)),
            activation=mlp.act_fn,
            down=(mlp.down_proj.weight, mlp.down_proj.bias),
        )

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor, plan: AttentionPlan) -> Tensor:
        x = x + matmul_transposed(self._attend(x, cos, sin, plan), *self.attention_out)
        gate, up = _product(self.mlp_norm(x), self.gate_up).chunk(2, -1)
        return x.add_(matmul_transposed(self.activation(gate).mul_(up), *self.down))

    def _attend(self, x: Tensor, cos: Tensor, sin: Tensor, plan: AttentionPlan) -> Tensor:
        heads = _product(self.norm(x), self.qkv).view(len(x), -1, self.head_size)
        qk, v = heads[:, : self.num_qk_heads], heads[:, self.num_qk_heads :]
        if self.qk_norms is not None:
            q_norm, k_norm = self.qk_norms
            qk = torch.rms_norm(qk, q_norm.shape, None, q_norm.eps)
            qk[:, : self.num_heads].mul_(q_norm.weight)
            qk[:, self.num_heads :].mul_(k_norm.weight)
        qk = _rotated(qk, cos, sin)
        q_HTD = qk[:, : self.num_heads].transpose(0, 1)
        k_KTD = qk[:, self.num_heads :].transpose(0, 1)
        v_KTD = v.transpose(0, 1)
        out = plan.attend(self.index, q_HTD, k_KTD, v_KTD, self.scale, self.window)
        return out.reshape(len(x), -1)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns heads [T, H, D] turned by angles: cos [T, 1, D], sin [T, 1, D / 2].

    Source: Su et al. 2021, arXiv:2104.09864, eq. 34, with the halves of a head as the pairs.
    """
    half = sin.shape[-1]
    first, second = x[..., :half], x[..., half:]
    out = x * cos
    out[..., :half].addcmul_(second, sin, value=-1)
    out[..., half:].addcmul_(first, sin)
    return out


def _joint(modules: Sequence[nn.Linear]) -> list[_Linear]:
    """Returns the layers that compute the outputs of several side by side: one if they share it."""
    first = modules[0]
    shared = first.shared_weight(modules) if isinstance(first, SiblingLinear) else None
    return [(m.weight, m.bias) for m in modules] if shared is None else [(shared, None)]


def _product(x: Tensor, linears: Sequence[_Linear]) -> Tensor:
    outputs = [matmul_transposed(x, *linear) for linear in linears]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


def _is_known(model: Any) -> bool:
    """Says whether a model has the parts that the lean pass uses, of kinds that it knows."""
    base, head = getattr(model, "model", None), getattr(model, "lm_head", None)
    parts = [getattr(base, name, None) for name in ("embed_tokens", "norm", "rotary_emb")]
    layers = getattr(base, "layers", None)
    if not isinstance(parts[0], nn.Embedding) or parts[2] is None or not layers:
        return False
    if next(model.parameters()).device.type != "cpu" or _has_hooks(model):
        return False
    if not isinstance(parts[1], FusedRmsNorm) or not isinstance(head, nn.Linear):
        return False
    return all(_is_known_layer(layer) for layer in layers)


def _is_known_layer(layer: Any) -> bool:
    attention, mlp = getattr(layer, "self_attn", None), getattr(layer, "mlp", None)
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    linears = [getattr(attention, name, None) for name in names]
    linears += [getattr(mlp, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    norms = [getattr(layer, name, None) for name in ("input_layernorm", "post_attention_layernorm")]
    head_norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
    if any(norm is not None for norm in head_norms):
        size = (getattr(attention, "head_dim", None),)
        if any(norm is None or norm.weight.shape != size for norm in head_norms):
            return False
        norms += head_norms
    numbers = [getattr(attention, name, None) for name in ("layer_idx", "head_dim", "scaling")]
    return (
        all(isinstance(module, nn.Linear) for module in linears)
        and all(isinstance(module, FusedRmsNorm) for module in norms)
        and callable(getattr(mlp, "act_fn", None))
        and None not in numbers
    )


def _has_hooks(model: nn.Module) -> bool:
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())

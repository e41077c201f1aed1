"""Attention sinks on top of a flash kernel, exact in forward and backward.

A sink is one more key whose value is zero, so it only lowers the weights of the others. With
lse the log-sum-exp of a query's scores and s its sink, the weights are exp(score - lse') where
lse' = log(exp(lse) + exp(s)), and the output is the kernel's times exp(lse - lse'). The kernel's
backward computes the weights again from lse and takes sum(output * gradient) off each weight's
gradient, so called with the corrected output and lse' it returns the gradients with sinks.

Source: Xiao et al. 2024, arXiv:2309.17453; the backward is that of Dao 2023, arXiv:2307.08691,
section 3.1, with the sink as a key.
"""

from __future__ import annotations

import torch
from torch import Tensor


def add_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp with a sink.

    Args:
        out: [..., D]; ``lse`` is [...] in fp32, ``sinks`` of a shape that broadcasts to it.
    """
    with_sink = torch.logaddexp(lse, sinks.float())
    return (out * (lse - with_sink).exp().unsqueeze(-1)).to(out.dtype), with_sink


def sink_gradient(out: Tensor, lse: Tensor, grad_out: Tensor, sinks: Tensor) -> Tensor:
    """Return the gradient of each query's sink [...], from what ``add_sinks`` returned."""
    delta = (out.float() * grad_out.float()).sum(-1)
    return -(sinks.float() - lse).exp() * delta

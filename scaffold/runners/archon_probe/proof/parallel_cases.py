"""Compare a model that is split over processes with the whole one, on all of them.

Every case builds the model from one seed on every process: whole, and split. Each process of data
parallelism has a row of its own; the gradient must be the mean of the rows' gradients.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from areal.api.config.train_engine import ArchonEngineConfig
from areal.experimental.models.archon.activation_checkpoint import ActivationCheckpointConfig
from areal.experimental.models.archon.parallel import clip_grad_norm, sum_tied_gradients
from areal.experimental.models.archon.parallel.tie import is_copy
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.pipeline_parallel import (
    build_pipeline_schedule,
    pipeline_llm,
    stack_rows,
)
from areal.experimental.models.archon.ulysses import ulysses_gather_output, ulysses_slice_inputs

LENGTHS = ((9, 4, 19), (16, 16), (1, 30, 1), (7, 5, 12, 8))
"""Tokens of the sequences of each row; each sums to 32, which 2 * tp * cp divides."""

# Splitting changes only the order of sums. In fp32 (one rounding is 6e-8) over 64 to 100 terms and
# two to eight layers that is 1e-6 of a tensor's root mean square; a part that is missing is 1e-1.
# Where terms cancel it changes more, as one rounding of the parameters does in one process: four
# times that is allowed.
TOLERANCE = 1e-5
MOST_NOISE = 1e-4

MICROBATCHES = 4
ROW_INPUTS = ("tokens", "positions", "cu_seqlens", "max_seqlen")


@dataclass
class Case:
    """One model, one way to split it, and its options.

    Attributes:
        config: What ``args_of`` makes the model's arguments from.
        options: For the model's ``parallelize_fn``.
        mistake: What is done wrong on purpose, for those who try it.
    """

    model_type: str
    mode: str
    dims: dict[str, int]
    config: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    is_critic: bool = False
    schedule: str = "1F1B"
    mistake: str | None = None


@dataclass(frozen=True)
class Subject:
    """What is split: a spec, and arguments of its model."""

    spec: Any
    args: Any


@dataclass
class Row:
    """One packed row: tokens and labels [1, T], and what a model needs beside them."""

    tokens: Tensor
    labels: Tensor
    positions: Tensor
    cu_seqlens: Tensor
    max_seqlen: int

    @classmethod
    def draw(cls, vocab_size: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        lengths = LENGTHS[seed % len(LENGTHS)]
        total = sum(lengths)
        tokens, labels = torch.randint(0, vocab_size, (2, 1, total), generator=generator)
        positions = torch.cat([torch.arange(n) for n in lengths]).unsqueeze(0)
        ends = torch.tensor(lengths).cumsum(0)
        cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), ends]).to(torch.int32)
        return cls(tokens, labels, positions, cu_seqlens, max(lengths))


def build(subject: Subject) -> nn.Module:
    """Return the whole model with weights that depend on the seed alone."""
    torch.manual_seed(1)
    model = subject.spec.model_class(subject.args)
    model.init_buffers("cpu")
    with torch.no_grad():
        # Norms of one and biases of zero would hide what is done to them.
        for module in model.modules():
            is_norm = "Norm" in type(module).__name__
            for name, parameter in module.named_parameters(recurse=False):
                middle = 1 - getattr(module, "offset", 0) if is_norm and name == "weight" else 0
                parameter.normal_(middle, 0.15)
        for module in model.modules():
            for name in sorted(module._buffers.keys() - module._non_persistent_buffers_set):
                getattr(module, name).normal_(0, 0.15)
    return model


def loss_of(output: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over tokens of a row's loss; a critic's has one output for each token."""
    if output.shape[-1] == 1:
        return (output.squeeze(-1) - labels.float() / 50).pow(2).mean()
    return F.cross_entropy(output.flatten(0, 1), labels.flatten())


@dataclass
class Expected:
    """What one process computes.

    Attributes:
        outputs: Logits of each row.
        gradients: Mean of the rows' gradients, by parameter.
        noise: How much each changes where every parameter is rounded once more.
    """

    outputs: list[Tensor]
    gradients: dict[str, Tensor]
    noise: dict[str, float]


def expect(subject: Subject, rows: list[Row]) -> Expected:
    """Run the whole model on all rows, and once more with every parameter a rounding away."""
    outputs, gradients = run_whole(build(subject), rows)
    near = build(subject)
    with torch.no_grad():
        for parameter in near.parameters():
            parameter.mul_(1 + torch.finfo(torch.float32).eps * torch.randn_like(parameter))
    _, again = run_whole(near, rows)
    floor = floor_of(gradients)
    noise = {name: error(again[name], gradients[name], floor) for name in gradients}
    return Expected(outputs, gradients, noise)


def run_whole(model: nn.Module, rows: list[Row]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Return each row's logits and the mean of the rows' gradients."""
    outputs = []
    for row in rows:
        logits = model(row.tokens, row.positions, row.cu_seqlens, row.max_seqlen)
        (loss_of(logits, row.labels) / len(rows)).backward()
        outputs.append(logits.detach())
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return outputs, gradients


def run_case(case: Case, subject: Subject) -> dict[str, Any]:
    """Return the largest errors of logits and gradients of one case."""
    dims = ArchonParallelDims(**case.dims, world_size=dist.get_world_size(), device_type="cpu")
    dp_rank = dims.get_mesh("dp").get_local_rank()
    model = build(subject)
    per_process = MICROBATCHES if dims.pp_enabled else 1
    seeds = range(dims.get_mesh("dp").size() * per_process)
    rows = [Row.draw(model.model_args.vocab_size, seed) for seed in seeds]
    expected = expect(subject, rows)
    own = slice(dp_rank * per_process, (dp_rank + 1) * per_process)
    options = {
        "param_dtype": "float32",
        "reduce_dtype": "float32",
        "loss_parallel": False,
        "enable_compile": False,
        **case.options,
    }
    # Cases come from JSON, which has no dtypes.
    for name in ("param_dtype", "reduce_dtype"):
        options[name] = getattr(torch, options[name])
    if "ac_config" in options:
        options["ac_config"] = ActivationCheckpointConfig(**options["ac_config"])
    parallelize = subject.spec.parallelize_fn
    if dims.pp_enabled:
        found, parts = run_pipeline(case, model, dims, rows[own], parallelize, options)
        sum_tied_gradients(parts, dims.get_group("pp"))
    else:
        parallelize(model, dims, **options)
        found, parts = [forward_backward(model, rows[own][0], dims)], [model]
    pairs = zip(found, expected.outputs[own], strict=True) if found else ()
    logits = max((error(*pair) for pair in pairs), default=0.0)
    result = {"logits": logits, **compare_gradients(parts, expected)}
    dtypes = {str(p.grad.dtype) for part in parts for p in part.parameters() if p.grad is not None}
    norm = compare_norms(parts, expected, dims)
    return {**result, "norm": norm, "dtype": ", ".join(sorted(dtypes))}


def run_pipeline(
    case: Case,
    model: nn.Module,
    dims: ArchonParallelDims,
    rows: list[Row],
    parallelize: Callable[..., nn.Module],
    options: dict[str, Any],
) -> tuple[list[Tensor], list[nn.Module]]:
    """Return the logits of each row, on the last stage's process, and this process's parts."""
    config = ArchonEngineConfig(pp_schedule=case.schedule)
    stages, parts, has_first, has_last = pipeline_llm(
        model, torch.device("cpu"), dims, config, parallelize, **options
    )

    def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
        return loss_of(logits, labels) / MICROBATCHES

    schedule = build_pipeline_schedule(stages, case.schedule, MICROBATCHES, mean_loss)
    inputs = stack_rows([{name: getattr(row, name) for name in ROW_INPUTS} for row in rows])
    labels = torch.cat([row.labels for row in rows])
    if dims.cp_enabled:
        # Each process's loss is the mean over its own tokens: their mean is that of the row.
        rank = dims.get_mesh("cp").get_local_rank()
        per_token = {"input_ids": inputs["tokens"], "position_ids": inputs["positions"]}
        per_token, labels = ulysses_slice_inputs(per_token, labels, rank, dims.cp)
        inputs |= {"tokens": per_token["input_ids"], "positions": per_token["position_ids"]}
    tokens = (inputs.pop("tokens"),) if has_first else ()
    inputs = {name: inputs[name] for name in ROW_INPUTS[1:]}
    output = schedule.step(*tokens, target=labels if has_last else None, **inputs)
    if not has_last:
        return [], parts
    if dims.cp_enabled:
        output = ulysses_gather_output(output, dims.get_group("cp"), 1)
    return list(output.detach().unsqueeze(1)), parts


def forward_backward(model: nn.Module, row: Row, dims: ArchonParallelDims) -> Tensor:
    """Run a model on this process's part of a row; return the logits of the whole row."""
    inputs, labels = {"input_ids": row.tokens, "position_ids": row.positions}, row.labels
    if dims.cp_enabled:
        cp = dims.get_mesh("cp")
        inputs, labels = ulysses_slice_inputs(inputs, labels, cp.get_local_rank(), cp.size())
    logits = model(inputs["input_ids"], inputs["position_ids"], row.cu_seqlens, row.max_seqlen)
    if isinstance(logits, DTensor):
        with loss_parallel():
            loss_of(logits, labels).backward()
        return logits.full_tensor().detach()
    if dims.cp_enabled:
        logits, labels = ulysses_gather_output(logits, dims.get_group("cp"), 1), row.labels
    loss_of(logits, labels).backward()
    return logits.detach()


def compare_gradients(parts: list[nn.Module], expected: Expected) -> dict[str, Any]:
    """Return the largest error of a gradient, also over what is allowed to it, and whose it is."""
    floor = floor_of(expected.gradients)
    worst = {"gradient": 0.0, "excess": 0.0, "worst": ""}
    for part in parts:
        for name, parameter in part.named_parameters():
            # Activation checkpointing puts its wrapper into the names.
            name = name.replace("_checkpoint_wrapped_module.", "")
            # In the whole model it is the embedding.
            name = "tok_embeddings.weight" if is_copy(parameter) else name
            gradient = parameter.grad
            if (gradient is None) != (name not in expected.gradients):
                whose = "split" if gradient is None else "whole"
                raise AssertionError(f"{name} has no gradient in the {whose} model")
            if gradient is None:
                continue
            if isinstance(gradient, DTensor):
                # `full_tensor` would sum it up, which the optimizer does not.
                if any(p.is_partial() for p in gradient.placements):
                    raise AssertionError(f"{name}: {gradient.placements} is not summed")
                gradient = gradient.full_tensor()
            found = error(gradient, expected.gradients[name], floor)
            excess = found / min(max(TOLERANCE, 4 * expected.noise[name]), MOST_NOISE)
            if not math.isfinite(found):
                raise AssertionError(f"{name}: the gradient is not finite")
            if excess > worst["excess"]:
                worst = {"gradient": found, "excess": excess, "worst": name}
    return worst


def compare_norms(parts: list[nn.Module], expected: Expected, dims: ArchonParallelDims) -> float:
    """Return the relative error of the norm of all gradients, and of what clipping leaves."""
    whole = sum(float(g.square().sum()) for g in expected.gradients.values()) ** 0.5
    parameters = [p for part in parts for p in part.parameters()]
    pp_group = dims.get_group("pp")
    before = float(clip_grad_norm(parameters, whole / 2, pp_group))
    after = float(clip_grad_norm(parameters, whole, pp_group))
    return max(abs(before / whole - 1), abs(2 * after / whole - 1))


def floor_of(gradients: dict[str, Tensor]) -> float:
    """Return what errors are measured against at least.

    Gradients that are zero but for rounding (a key's bias under softmax) are measured against the
    largest of the model.
    """
    return 1e-2 * max(float(g.norm()) / g.numel() ** 0.5 for g in gradients.values())


def error(found: Tensor, expected: Tensor, floor: float = 0.0) -> float:
    """Return the difference's root mean square over that of the expected values."""
    if found.shape != expected.shape:
        raise AssertionError(f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}")
    count = expected.numel() ** 0.5
    return float((found - expected).norm()) / count / max(float(expected.norm()) / count, floor)


def run_all(
    cases: Sequence[Case], run: Callable[[Case], dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Return for every case what each process found, or what went wrong there."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # Where one process fails inside a case, the others must not wait for it for long.
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    results: list[list[dict[str, Any]]] = []
    for case in cases:
        start = time.perf_counter()
        try:
            result = run(case)
        except Exception:
            result = {"failure": traceback.format_exc()}
        everywhere: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, result)
        if dist.get_rank() == 0:
            # Where a case hangs, the last line names the one before it.
            seconds = time.perf_counter() - start
            print(f"{case.model_type} {case.mode} {seconds:.1f} s", file=sys.stderr, flush=True)
        results.append(everywhere)
    dist.destroy_process_group()
    return results

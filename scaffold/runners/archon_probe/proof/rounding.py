"""Compare layers below fp32, each on the very numbers that transformers gives its own.

A difference that only bf16 or fp16 has is one of rounding: a table, a norm or a product is kept in
another type, or numbers are added in another order. Layers are compared bit by bit; where one
differs, the modules in it are given what transformers' modules get, which names those that do.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from archon_probe.measure.random_weights import random_model, save_and_load
from archon_probe.measure.tasks import call
from archon_probe.proof.bisect import pair_modules
from archon_probe.proof.build import build, read_args
from archon_probe.proof.capture import Captured, capturing, first_tensor
from archon_probe.proof.reference import replace_weights

DTYPES = (torch.bfloat16, torch.float16)
LENGTH = 17
"""Tokens: a number that no dimension of a tiny model has."""


@dataclass
class Rounding:
    """What rounding a model does otherwise than transformers in one dtype.

    Attributes:
        layers: Number of layers whose output was compared.
        equal: Those that give every bit of it.
        error: Largest difference of a layer's output, over its standard deviation.
        modules: Classes of Archon modules that differ, to how much in that measure; ``before NAME``
            is what computes the input of such a module.
        problem: Why nothing was compared, or empty.
    """

    layers: int = 0
    equal: int = 0
    error: float = 0.0
    modules: dict[str, float] = field(default_factory=dict)
    problem: str = ""


@torch.no_grad()
def measure_rounding(spec: Any, config: PretrainedConfig) -> dict[str, Rounding]:
    """Return for each dtype below fp32 what differs; whatever goes wrong is part of it."""
    found: dict[str, Rounding] = {}
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        try:
            found[name] = _measure(spec, config, dtype)
        except Exception as error:
            # The port's code is what is tested, and may raise anything.
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            found[name] = Rounding(problem=text)
    return found


def _measure(spec: Any, config: PretrainedConfig, dtype: torch.dtype) -> Rounding:
    plain = random_model(config)
    with tempfile.TemporaryDirectory() as folder:
        saved = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in save_and_load(plain, Path(folder)).items()
        }
        replace_weights(Path(folder), saved)
        # Loaded by transformers, which keeps some parameters in fp32.
        options = {"attn_implementation": "eager", "experts_implementation": "eager"}
        theirs = type(plain).from_pretrained(folder, dtype=dtype, **options)
    theirs = theirs.eval()
    args, refusal = read_args(spec, config, attn_type="eager")
    if refusal is not None:
        return Rounding(problem=refusal)
    built = build(spec, args, config, saved, dtype)
    tokens = torch.arange(3, 3 + LENGTH)[None] % config.vocab_size
    pairs = pair_modules(theirs, built)
    layers = [(h, a) for h, a in pairs if a.rpartition(".")[0] == "layers"]
    with capturing(theirs, [h for h, _ in pairs]) as truth:
        call(theirs, tokens)
    found = Rounding(layers=len(layers))
    errors = _errors(built.model, layers, truth, tokens)
    for name, error in errors.items():
        if not name.startswith("before "):
            found.equal += error == 0.0
            found.error = max(found.error, error)
    if found.equal < found.layers:
        for name, error in _errors(built.model, pairs, truth, tokens).items():
            module = name.removeprefix("before ")
            if error and module not in {a for _, a in layers} and module:
                # Its place inside its layer.
                kind = name.replace(module, re.sub(r"^layers\.\d+\.", "", module))
                found.modules[kind] = max(found.modules.get(kind, 0.0), error)
    return found


def _errors(
    model: nn.Module, pairs: list[tuple[str, str]], truth: Captured, tokens: Tensor
) -> dict[str, float]:
    """Run a model whose modules are given what transformers' get, and return where it differs.

    Returns:
        By module the error of its output; by ``before`` and module that of what it would have got.
    """
    errors: dict[str, float] = {}

    def watch(name: str, given: Tensor, result: Tensor) -> tuple[Any, Any]:
        def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            place = next((i for i, a in enumerate(args) if _is_float(a)), None)
            wanted = None if place is None else _as_shaped(given, args[place])
            if place is None or wanted is None:
                return args
            errors.setdefault(f"before {name}", _error(args[place], wanted))
            return (*args[:place], wanted, *args[place + 1 :])

        def after(_: nn.Module, args: Any, output: Any) -> None:
            tensor = first_tensor(output)
            wanted = None if tensor is None else _as_shaped(result, tensor)
            if tensor is not None and wanted is not None:
                errors.setdefault(name, _error(tensor, wanted))

        return before, after

    with ExitStack() as hooks:
        for theirs, ours in pairs:
            given, result = truth.inputs.get(theirs), truth.outputs.get(theirs)
            if ours and _is_float(given) and _is_float(result):
                before, after = watch(ours, given, result)
                module = model.get_submodule(ours)
                hooks.enter_context(module.register_forward_pre_hook(before))
                hooks.enter_context(module.register_forward_hook(after))
        positions = torch.arange(LENGTH)[None]
        model(tokens, positions, torch.tensor([0, LENGTH], dtype=torch.int32), LENGTH)
    return errors


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _as_shaped(tensor: Tensor, like: Tensor) -> Tensor | None:
    """Return a tensor in the shape of another: heads before tokens, or tokens without a batch."""
    if tensor.shape == like.shape:
        return tensor.to(like.dtype)
    if tensor.dim() == 4 and tensor.transpose(1, 2).shape == like.shape:
        return tensor.transpose(1, 2).to(like.dtype)
    is_flat = min(tensor.dim(), like.dim()) == 2 or LENGTH in like.shape[:2]
    if is_flat and tensor.shape[-1] == like.shape[-1] and tensor.numel() == like.numel():
        return tensor.reshape(like.shape).to(like.dtype)
    return None


def _error(found: Tensor, wanted: Tensor) -> float:
    difference = (found.float() - wanted.float()).abs().max()
    return float(difference / wanted.float().std().clamp_min(1e-30))

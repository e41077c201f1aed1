"""Find where a port first differs: the module, the tensor, and the source lines of both sides.

Modules are paired by the tensors of the checkpoint that they hold, so that no names are compared.
"""

from __future__ import annotations

import inspect
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.core_model_loading import revert_weight_conversion

from archon_probe.measure.random_weights import random_model
from archon_probe.measure.tasks import head_width, token_logits
from archon_probe.proof.build import build, forward_packed, read_args
from archon_probe.proof.reference import Batch, fresh_state, make_batch, save_and_load

DIFFERENT = 3e-5
"""Of a tensor's standard deviation: more than rounding in a few layers."""
SOURCE_LINES = 60
SHOWN_VALUES = 6

Rows = dict[str, Tensor]
"""[T, values] of each module."""


@dataclass
class Traced:
    """What modules took and gave, in the order in which they finished."""

    outputs: Rows
    gradients: Rows
    inputs: Rows


def bisect(spec: Any, config: PretrainedConfig, variation: str) -> dict[str, Any]:
    """Find the first module and tensor in which an Archon model differs from transformers.

    Args:
        spec: The model's spec.
        config: The tiny config for which the proof failed.
        variation: Its name, for the report.

    Returns:
        ``variation``; ``hf`` and ``archon``: module, class, file, line and source of each side;
        ``tensor``, ``error``, ``token``, ``values``, ``input_differs``; ``text`` for people.
        ``unknown`` is the reason where nothing was found.
    """
    hf_model = random_model(config)
    # Through a file, as a user's checkpoint comes: the names in it are what pairs the modules.
    with tempfile.TemporaryDirectory() as folder:
        saved = save_and_load(hf_model, Path(folder))
    args, refusal = read_args(spec, config)
    if refusal is not None:
        return _unknown(variation, f"the model refuses this config: {refusal}")
    try:
        built = build(spec, args, config, saved)
    except Exception as error:
        # What is wrong is then in the constructor or the adapter, and the error names it.
        return _unknown(variation, f"the weights do not load: {type(error).__name__}: {error}")
    pairs = pair_modules(hf_model, built)
    batch = make_batch(config.vocab_size, width=head_width(config))
    truth = _capture_alone(hf_model, [h for h, _ in pairs], batch)
    try:
        with _Capture(built.model, [a for _, a in pairs]) as capture:
            (forward_packed(built.model, batch) * batch.cotangent).sum().backward()
        found = _traced([capture], (sum(batch.lengths),))
    except Exception as error:
        return _unknown(variation, f"its forward fails: {type(error).__name__}: {error}")
    kind, first = "output", _first_difference(pairs, truth.outputs, found.outputs)
    # Where all outputs agree, only the backward pass can differ.
    if first is None:
        # Gradients flow from the last module to the first one.
        kind, backwards = "gradient of the output", dict(reversed(truth.gradients.items()))
        first = _first_difference(pairs, backwards, found.gradients)
    if first is None:
        return _unknown(variation, "all modules that could be paired agree")
    given = [(first["hf_module"], first["archon_module"])]
    has_inputs = first["hf_module"] in truth.inputs and first["archon_module"] in found.inputs
    first["input_differs"] = None
    if has_inputs and kind == "output":
        first["input_differs"] = _first_difference(given, truth.inputs, found.inputs) is not None
    return _report(variation, kind, first, hf_model, built.model)


def _unknown(variation: str, why: str) -> dict[str, Any]:
    return {"variation": variation, "unknown": why, "text": f"{variation}: {why}"}


def pair_modules(hf_model: Any, built: Any) -> list[tuple[str, str]]:
    """Return (transformers' module, Archon's module) that hold the same tensors of a checkpoint.

    Of several modules around the same tensors, the outermost are paired with each other, and the
    innermost.
    """
    left = _by_tensors(hf_model, _hf_hub_names(hf_model))
    right = _by_tensors(built.model, _archon_hub_names(built))
    pairs: list[tuple[str, str]] = []
    for tensors, names in left.items():
        others = right.get(tensors, [])
        # What lies between has no partner that tensors could give away.
        if names and others:
            pairs.append((names[0], others[0]))
            if len(names) > 1 or len(others) > 1:
                pairs.append((names[-1], others[-1]))
    return list(dict.fromkeys(pairs))


def _by_tensors(model: nn.Module, hub: dict[str, set[str]]) -> dict[frozenset[str], list[str]]:
    """Return the modules, outermost first, by the checkpoint's tensors below them."""
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        held = {prefix + n for n, _ in module.named_parameters(remove_duplicate=False)}
        tensors = frozenset(t for n in held for t in hub.get(n, ()))
        # Containers are never called, so no hook of theirs runs.
        if tensors and not isinstance(module, nn.ModuleList | nn.ModuleDict):
            found[tensors].append(name)
    return found


def _hf_hub_names(model: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        source = tied.get(name, name)
        try:
            found[name] = set(revert_weight_conversion(model, {source: parameter.detach()}))
        except Exception:
            # A conversion that needs more than one tensor; its own name is the best guess.
            found[name] = {source}
    return found


def _archon_hub_names(built: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    plan = getattr(built.adapter, "plan", None)
    for name, parameter in built.model.named_parameters(remove_duplicate=False):
        if plan is None:
            single = built.adapter.convert_single_to_hf(name, parameter.detach())
            found[name] = {hub for hub, _ in single}
        else:
            holders = plan.holders[plan.twins.get(name, name)]
            found[name] = {holder.name for holder in holders}
    return found


class _Capture:
    """The outputs of modules, the gradients of these, and their inputs, as modules finish."""

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        self.outputs: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}
        self.inputs: dict[str, Tensor] = {}
        wanted = set(names)
        self.handles = [
            module.register_forward_hook(self._hook(name), with_kwargs=True)
            for name, module in model.named_modules()
            if name in wanted
        ]

    def __enter__(self) -> _Capture:
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self.handles:
            handle.remove()

    def all_gradients(self) -> dict[str, Tensor]:
        """Return gradients in the order of the outputs; zeros where the loss needs none."""
        return {n: self.gradients.get(n, torch.zeros_like(t)) for n, t in self.outputs.items()}

    def _hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            given, tensor = _first_tensor([args, kwargs]), _first_tensor(output)
            if given is not None:
                # The first call counts: a shared module is called again.
                self.inputs.setdefault(name, given.detach().clone())
            if tensor is None:
                return
            self.outputs.setdefault(name, tensor.detach().clone())
            if tensor.requires_grad:
                tensor.register_hook(self._keep_gradient(name))

        return hook

    def _keep_gradient(self, name: str) -> Callable[[Tensor], None]:
        # Whatever a hook returns replaces the gradient, so this one returns nothing.
        def keep(gradient: Tensor) -> None:
            self.gradients.setdefault(name, gradient.detach().clone())

        return keep


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    values = output.values() if isinstance(output, dict) else output
    if isinstance(values, tuple | list) or isinstance(output, dict):
        return next((t for t in map(_first_tensor, values) if t is not None), None)
    return None


def _capture_alone(model: Any, names: list[str], batch: Batch) -> Traced:
    """Run transformers on each sequence alone and lay what its modules gave end to end."""
    runs: list[_Capture] = []
    # Alone, since a packed batch is what may be wrong: transformers gives the truth without one.
    for start, end in batch.spans:
        with _Capture(model, names) as capture, fresh_state(model):
            logits = token_logits(model, batch.tokens[None, start:end])
            (logits * batch.cotangent[start:end]).sum().backward()
        runs.append(capture)
    return _traced(runs, batch.lengths)


def _traced(runs: list[_Capture], lengths: tuple[int, ...]) -> Traced:
    """Join what several runs captured; what has no dimension of tokens is left out."""

    def rows(parts: list[dict[str, Tensor]]) -> Rows:
        shared = [name for name in parts[0] if all(name in part for part in parts)]
        joined = {name: _joined([part[name] for part in parts], lengths) for name in shared}
        return {name: tensor for name, tensor in joined.items() if tensor is not None}

    return Traced(
        rows([run.outputs for run in runs]),
        rows([run.all_gradients() for run in runs]),
        rows([run.inputs for run in runs]),
    )


def _joined(tensors: list[Tensor], lengths: tuple[int, ...]) -> Tensor | None:
    """Return [T, rest]: the dimension of tokens is the one whose size is always the length."""
    # Tokens come first, behind a batch of one, or behind heads, as the module has it.
    for dim in range(tensors[0].dim()):
        if all(t.dim() > dim and t.shape[dim] == n for t, n in zip(tensors, lengths, strict=True)):
            rows = [t.movedim(dim, 0).reshape(n, -1) for t, n in zip(tensors, lengths, strict=True)]
            return torch.cat(rows).float()  # tokens are whole numbers
    return None


def _first_difference(
    pairs: list[tuple[str, str]], truth: Rows, found: Rows
) -> dict[str, Any] | None:
    partner = dict(pairs)
    for name in truth:
        other = found.get(partner[name]) if name in partner else None
        # Not to be compared column by column; a fault shows in a later module.
        if other is None or other.shape != truth[name].shape:
            continue
        difference = (other - truth[name]).abs()
        error = float(difference.max() / truth[name].std().clamp_min(1e-30))
        # Written this way round, a NaN counts as different.
        if not error <= DIFFERENT:
            return _where(name, partner[name], error, truth[name], other, difference)
    return None


def _where(
    hf: str, archon: str, error: float, truth: Tensor, found: Tensor, difference: Tensor
) -> dict[str, Any]:
    rows = (difference > DIFFERENT * truth.std()).any(dim=-1) | difference.isnan().any(dim=-1)
    token = int(rows.nonzero()[0]) if bool(rows.any()) else 0
    first = int(difference[token].argmax())
    start = max(0, min(first, truth.shape[1] - SHOWN_VALUES))
    shown = slice(start, start + SHOWN_VALUES)
    return {
        "hf_module": hf,
        "archon_module": archon,
        "error": error,
        "token": token,
        "column": start,
        "values": {"hf": truth[token, shown].tolist(), "archon": found[token, shown].tolist()},
    }


def _report(
    variation: str, kind: str, first: dict[str, Any], hf_model: nn.Module, model: nn.Module
) -> dict[str, Any]:
    sides = {
        "hf": _side(hf_model, first.pop("hf_module")),
        "archon": _side(model, first.pop("archon_module")),
    }
    found = {"variation": variation, "tensor": kind, **first, **sides}
    found["text"] = describe(found)
    return found


def _side(model: nn.Module, name: str) -> dict[str, Any]:
    """Describe a module, with the source of its forward; of its owner's if it is torch's own."""
    module = model.get_submodule(name)
    described = module
    # The forward of torch's Linear explains nothing; that of the module around it does.
    while type(described).__module__.startswith("torch.") and name:
        name_above = name.rpartition(".")[0]
        described, name = model.get_submodule(name_above), name_above
    cls = type(described)
    side: dict[str, Any] = {
        "module": next(n for n, m in model.named_modules() if m is module),
        "class": type(module).__name__,
        "source_of": f"{cls.__name__}.forward",
    }
    try:
        lines, line = inspect.getsourcelines(cls.forward)
        side |= {"file": inspect.getsourcefile(cls), "line": line}
        side["source"] = "".join(lines[:SOURCE_LINES])
    except (OSError, TypeError):
        side |= {"file": "", "line": 0, "source": ""}
    return side


def describe(found: dict[str, Any]) -> str:
    """Return a bisection as text."""
    hf, archon = found["hf"], found["archon"]
    numbers = {k: " ".join(f"{v:.5g}" for v in found["values"][k]) for k in ("hf", "archon")}
    before = {True: "its input already differs", False: "its input is the same", None: ""}
    return "\n".join(
        [
            f"{found['variation']}: first difference in the {found['tensor']} of "
            f"{archon['module']} ({archon['class']}), which is {hf['module']} ({hf['class']}) "
            "in transformers",
            f"  {found['error']:.2g} standard deviations; token {found['token']}, "
            f"from column {found['column']}; {before[found['input_differs']]}".rstrip("; "),
            f"    transformers {numbers['hf']}",
            f"    archon       {numbers['archon']}",
            f"--- {hf['file']}:{hf['line']} {hf['source_of']}",
            hf["source"].rstrip(),
            f"+++ {archon['file']}:{archon['line']} {archon['source_of']}",
            archon["source"].rstrip(),
        ]
    )

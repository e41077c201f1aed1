"""Find where a port first differs: the module, the tensor, and the source lines of both sides.

Modules are paired by the tensors of the checkpoint that they hold, so that no names are compared.
"""

from __future__ import annotations

import inspect
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.core_model_loading import revert_weight_conversion

from archon_probe.measure.random_weights import random_model, save_and_load
from archon_probe.measure.tasks import head_width, token_logits
from archon_probe.proof.build import build, forward_packed, read_args
from archon_probe.proof.capture import Captured, capturing
from archon_probe.proof.reference import Batch, fresh_state, make_batch

DIFFERENT = 3e-5
"""Of a tensor's standard deviation: more than rounding in a few layers."""
SOURCE_LINES = 60
SHOWN_VALUES = 6


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
        with capturing(built.model, [a for _, a in pairs]) as captured:
            (forward_packed(built.model, batch) * batch.cotangent).sum().backward()
        found = _traced([captured], (sum(batch.lengths),))
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
    hf, archon = first.pop("hf_module"), first.pop("archon_module")
    first["input_differs"] = None
    if kind == "output" and hf in truth.inputs and archon in found.inputs:
        differing = _first_difference([(hf, archon)], truth.inputs, found.inputs)
        first["input_differs"] = differing is not None
    sides = {"hf": _side(hf_model, hf), "archon": _side(built.model, archon)}
    report = {"variation": variation, "tensor": kind, **first, **sides}
    return report | {"text": describe(report)}


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


def _capture_alone(model: Any, names: list[str], batch: Batch) -> Captured:
    """Run transformers on each sequence alone and lay what its modules gave end to end."""
    runs: list[Captured] = []
    # Alone, since a packed batch is what may be wrong: transformers gives the truth without one.
    for start, end in batch.spans:
        with capturing(model, names) as captured, fresh_state(model):
            logits = token_logits(model, batch.tokens[None, start:end])
            (logits * batch.cotangent[start:end]).sum().backward()
        runs.append(captured)
    return _traced(runs, batch.lengths)


def _traced(runs: list[Captured], lengths: tuple[int, ...]) -> Captured:
    """Join what several runs captured to rows of [T, values].

    What has no dimension of tokens is left out, and a gradient that the loss does not need is zero.
    """

    def rows(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        shared = [name for name in parts[0] if all(name in part for part in parts)]
        joined = {name: _joined([part[name] for part in parts], lengths) for name in shared}
        return {name: tensor for name, tensor in joined.items() if tensor is not None}

    gradients = [
        {name: run.gradients.get(name, torch.zeros_like(y)) for name, y in run.outputs.items()}
        for run in runs
    ]
    outputs = rows([run.outputs for run in runs])
    return Captured(rows([run.inputs for run in runs]), outputs, rows(gradients))


def _joined(tensors: list[Tensor], lengths: tuple[int, ...]) -> Tensor | None:
    """Return [T, rest]: the dimension of tokens is the one whose size is always the length."""
    # Tokens come first, behind a batch of one, or behind heads, as the module has it.
    for dim in range(tensors[0].dim()):
        if all(t.dim() > dim and t.shape[dim] == n for t, n in zip(tensors, lengths, strict=True)):
            rows = [t.movedim(dim, 0).reshape(n, -1) for t, n in zip(tensors, lengths, strict=True)]
            return torch.cat(rows).float()  # tokens are whole numbers
    return None


def _first_difference(
    pairs: list[tuple[str, str]], truth: dict[str, Tensor], found: dict[str, Tensor]
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

"""Prove an Archon model against transformers: logits, gradients and weights, on many configs."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.utils import logging as hf_logging

from archon_probe.design.refusals import field_text, refusal
from archon_probe.measure.random_weights import random_model, save_and_load
from archon_probe.measure.tasks import head_width
from archon_probe.measure.tiny import tiny_config
from archon_probe.measure.variations import Variation, Varied, vary
from archon_probe.proof.bisect import bisect
from archon_probe.proof.build import build, load_spec, read_args, run_packed
from archon_probe.proof.full_size import compare_sizes
from archon_probe.proof.reference import (
    MOST_ALLOWANCE,
    NEGLIGIBLE,
    Reference,
    Run,
    make_batch,
    reference,
)
from archon_probe.proof.rounding import measure_rounding
from archon_probe.proof.roundtrip import Verdict, check_saved, check_weights
from archon_probe.stages import stage

TOLERANCE = 1e-5
"""Of logits over their standard deviation, and of each gradient over its norm.

Ten times looser would not see a norm's epsilon that is ten times too large.
"""
DEFAULT = "default"
FULL = "full configuration"
MOST_DRAWS = 4
"""Random models that are tried where transformers' own gradients are rounded away."""
# About so many variations are run with `--fast`.
FAST_VARIATIONS = 6


@dataclass
class Outcome:
    """What was found for one config.

    Attributes:
        value: What the field was set to.
        status: "proven", "refused" or "failed".
        message: Why not proven.
    """

    name: str
    field: str
    value: Any
    status: str
    message: str
    forward: Verdict = field(default_factory=Verdict)
    backward: Verdict = field(default_factory=Verdict)
    weights: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0
    traceback: str = ""


def prove(request: dict[str, Any]) -> dict[str, Any]:
    """Prove the model that a spec names, for tiny configs of a model type.

    Args:
        request: ``model_type``; ``spec``, as ``module:NAME``; optionally ``config``, the content of
            a config.json; ``fast``, for few variations; ``only``, names of variations.

    Returns:
        ``ok``; ``variations``, one record each; ``bisection`` of the first failure; ``summary``;
        ``refusals``, with which the model would refuse what failed, as designs list them.
    """
    torch.set_num_threads(1)  # sums in one order, and tiny models are slower on several
    with _quiet():
        spec = load_spec(request["spec"])
        config = tiny_config(_source(request))
        stage("varying the configuration")
        varied = vary(config)
        outcomes = prove_all(spec, config, varied.variations, request)
        failed = [o for o in outcomes if o.status == "failed"]
        bisection = _bisect(spec, config, failed[0], varied.variations) if failed else None
        sizes = None
        if not failed:
            stage("counting the parameters of the full configuration")
            sizes = compare_sizes(spec, _source(request), config)
            outcomes += [Outcome(FULL, "", None, "failed", sizes.text)] if sizes.differ else []
        refusals = suggest_refusals(outcomes, config, _source(request))
        found = report(request["model_type"], outcomes, bisection) | {"refusals": refusals}
        if found["ok"]:
            stage("comparing layers below fp32")
            rounding = measure_rounding(spec, config)
            found["rounding"] = {name: asdict(each) for name, each in rounding.items()}
            found["full_size"] = sizes.text if sizes else ""
        return found | fields_report(varied, outcomes)


def fields_report(known: Varied, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return what was varied, in how many configurations, and what was not, with the reasons.

    Returns:
        ``varied``: configurations by field; ``undeclared``: fields that the model asks for and no
        class declares, to the place that asks; ``unvaried``: fields to reasons.
    """
    counts = Counter(f for outcome in outcomes for f in outcome.field.split(" + ") if f)
    # Keys of rotations are varied as what their mapping is set to.
    undeclared = {n: at for n, at in known.undeclared.items() if not n.startswith("rope_param")}
    return {"varied": dict(counts), "undeclared": undeclared, "unvaried": known.unvaried}


def suggest_refusals(
    outcomes: list[Outcome], config: PretrainedConfig, real: PretrainedConfig
) -> list[dict[str, str]]:
    """Return conditions under which a model refuses the variations that it gets wrong.

    Empty where no condition on fields covers one of them, or the default itself is wrong.
    """
    text = real.get_text_config(decoder=True)
    right = {o.field for o in outcomes if o.status == "proven"}
    found: dict[str, dict[str, str]] = {}
    for outcome in (o for o in outcomes if o.status == "failed"):
        why = {"values": (outcome.field, outcome.value), "module": "proof", "what": outcome.message}
        # What a rope asks for is computed, so a difference there is a fault to be seen.
        # A key that only this model knows is an option like any other.
        fields = outcome.field.split(" + ")
        is_option = outcome.field and (
            "rope_parameters." in fields[-1] or "rope_parameters" not in fields
        )
        made = refusal(why, config, text) if is_option else None
        if made is None:
            return []
        is_value = not isinstance(outcome.value, list)
        if is_value and outcome.field in right:  # another of its values is fine: only this is not
            made["condition"] = f"{field_text(outcome.field, config)} == {outcome.value!r}"
        found[made["condition"]] = made
    return list(found.values())


def report(
    model_type: str, outcomes: list[Outcome], bisection: dict[str, Any] | None
) -> dict[str, Any]:
    """Return outcomes as JSON, with a sentence that sums them up."""
    counts = {s: sum(o.status == s for o in outcomes) for s in ("proven", "refused", "failed")}
    is_ok = counts["failed"] == 0 and outcomes[0].status == "proven"
    parts = [f"{n} {status}" for status, n in counts.items() if n]
    summary = f"{model_type}: " + ", ".join(parts) + f" of {len(outcomes)} configurations"
    refused = ", ".join(o.name for o in outcomes if o.status == "refused")
    summary += f"; refused: {refused}" if refused else ""
    return {
        "ok": is_ok,
        "model_type": model_type,
        "counts": counts,
        "variations": [asdict(o) for o in outcomes],
        "bisection": bisection,
        "seconds": round(sum(o.seconds for o in outcomes), 2),
        "summary": summary,
    }


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence the warnings of transformers about odd configs, as all varied ones are."""
    logging.disable(logging.WARNING)
    hf_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _source(request: dict[str, Any]) -> PretrainedConfig:
    given = request.get("config")
    cls = CONFIG_MAPPING[request["model_type"]]
    return cls.from_dict(dict(given)) if given else cls()


def prove_all(
    spec: Any, config: PretrainedConfig, flips: list[Variation], request: dict[str, Any]
) -> list[Outcome]:
    """Prove a tiny config and each of its variations."""
    outcomes = [prove_one(spec, Variation(DEFAULT, "", None, config), is_default=True)]
    if outcomes[0].status == "failed" and "only" not in request:
        return outcomes  # every flip of a failing default would fail as well
    if request.get("fast"):
        flips = flips[:: max(1, len(flips) // FAST_VARIATIONS)]  # spread over all fields
    for number, flip in enumerate(flips, 1):
        if "only" not in request or flip.name in request["only"]:
            stage(f"proving {flip.name} ({number} of {len(flips)})")
            outcomes.append(prove_one(spec, flip))
    return outcomes


def prove_one(spec: Any, variation: Variation, *, is_default: bool = False) -> Outcome:
    """Prove one config; whatever goes wrong in it is part of the outcome."""
    started = time.monotonic()
    outcome = Outcome(variation.name, variation.field, variation.value, "failed", "")
    try:
        _prove_into(outcome, spec, variation.config, is_default)
    except Exception as error:
        # The port's code is what is tested, and may raise anything.
        lines = f"{type(error).__name__}: {error}".splitlines()
        outcome.message, outcome.traceback = lines[0][:500], traceback.format_exc(limit=-6)
    outcome.seconds = round(time.monotonic() - started, 3)
    return outcome


def _prove_into(outcome: Outcome, spec: Any, config: PretrainedConfig, is_default: bool) -> None:
    args, refusal = read_args(spec, config)
    if refusal is not None:
        outcome.status = "failed" if is_default else "refused"
        outcome.message = refusal
        return
    for seed in range(MOST_DRAWS):
        truth = _compare_into(outcome, spec, config, args, seed, is_default)
        if (outcome.forward.ok and outcome.backward.ok) or not _is_undecided(outcome, truth):
            break
    parts = {"forward": outcome.forward, "backward": outcome.backward, "weights": outcome.weights}
    wrong = [f"{name}: {v.message}" for name, v in parts.items() if not v.ok]
    outcome.status, outcome.message = ("failed" if wrong else "proven"), "; ".join(wrong)


def _is_undecided(outcome: Outcome, truth: Reference) -> bool:
    """Return whether other weights may show that a difference was rounding.

    A mistake is there whatever the weights; that rounding passes its limit by chance is rare.
    """
    if truth.is_rounded_away:
        return True
    worst = outcome.backward
    is_small = outcome.forward.ok and worst.error <= MOST_ALLOWANCE
    return is_small and truth.rounding(worst.tensor) > TOLERANCE


def _compare_into(
    outcome: Outcome, spec: Any, config: PretrainedConfig, args: Any, seed: int, is_default: bool
) -> Reference:
    """Compare one random model with transformers, and return what it was compared with."""
    with tempfile.TemporaryDirectory() as folder:
        hf_model = random_model(config, seed)
        saved = save_and_load(hf_model, Path(folder))
        batch = make_batch(config.vocab_size, width=head_width(config))
        truth = reference(hf_model, batch)
        built = build(spec, args, config, saved)
        run = run_packed(built, batch)
        outcome.forward = compare_logits(run, truth)
        outcome.backward = compare_gradients(run, truth)
        outcome.weights = check_weights(built.model, built.adapter, saved)
        # For the default alone, as writing a checkpoint and loading it again is slow.
        if is_default and outcome.weights.ok:
            outcome.weights = check_saved(type(hf_model), built, Path(folder), batch, truth.logits)
    return truth


def compare_logits(run: Run, truth: Reference) -> Verdict:
    """Compare logits; the error is their largest difference over the standard deviation."""
    if run.logits.shape != truth.logits.shape:
        shapes = f"{tuple(run.logits.shape)} instead of {tuple(truth.logits.shape)}"
        return Verdict(False, float("inf"), "logits", f"logits of shape {shapes}")
    difference = (run.logits - truth.logits).abs()
    error = float(difference.max() / truth.logits.std().clamp_min(1e-30))
    # The allowance costs a second run of the reference, so it is computed only where it decides.
    limit = TOLERANCE if error <= TOLERANCE else TOLERANCE + truth.logits_allowance
    limit = limit if error <= limit else max(limit, truth.logits_rounding)
    if error <= limit:
        return Verdict(True, error, "logits", "")
    rows = (difference > limit * truth.logits.std()).any(dim=-1)
    token = int(rows.nonzero()[0]) if bool(rows.any()) else 0
    text = f"logits differ by {error:.2g} standard deviations, first at token {token}"
    return Verdict(False, error, "logits", text)


def compare_gradients(run: Run, truth: Reference) -> Verdict:
    """Compare each gradient; the error is the largest one over its own norm."""
    absent = sorted(truth.gradients.keys() - run.gradients.keys())
    if absent:
        return Verdict(False, float("inf"), absent[0], f"no gradient of {', '.join(absent[:3])}")
    worst = Verdict(True, 0.0, "", "")
    excess = 0.0
    for name, wanted in truth.gradients.items():
        error, limit = gradient_error(run.gradients[name], wanted, truth, name)
        if error > worst.error and worst.ok:
            worst.error, worst.tensor = error, name
        # Written as "not", so that a NaN counts as wrong.
        if not error <= limit and not error / limit <= excess:
            excess = error / limit
            text = f"the gradient of {name} differs by {error:.2g} of its norm (limit {limit:.1g})"
            worst = Verdict(False, error, name, text)
    return worst


def gradient_error(
    found: Tensor, wanted: Tensor, truth: Reference, name: str
) -> tuple[float, float]:
    """Return a gradient's relative error and the most that it may be."""
    if found.shape != wanted.shape:
        return float("inf"), TOLERANCE
    negligible = NEGLIGIBLE * truth.average * wanted.numel() ** 0.5
    norm, difference = float(wanted.norm()), float((found - wanted).norm())
    if norm <= negligible:
        return difference / max(negligible, 1e-30), 1.0
    error = difference / norm
    if error <= TOLERANCE:
        return error, TOLERANCE
    limit = TOLERANCE + truth.allowance(name)
    return error, limit if error <= limit else max(limit, truth.rounding(name))


def _bisect(
    spec: Any, config: PretrainedConfig, outcome: Outcome, flips: list[Variation]
) -> dict[str, Any]:
    stage("looking for the first difference")
    found = next((v.config for v in flips if v.name == outcome.name), config)
    try:
        return bisect(spec, found, outcome.name)
    except Exception as error:
        # The port may be so broken that it cannot be run at all.
        return {"variation": outcome.name, "unknown": f"{type(error).__name__}: {error}"}

"""Check that weights survive the way from the Hub into an Archon model and back, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archon_probe.proof.build import Built
from archon_probe.proof.reference import Batch, replace_weights, run_alone

SAME_LOGITS = 1e-5
"""Of their standard deviation: the same weights, but elsewhere in memory, so rounded otherwise."""


@dataclass
class Verdict:
    """The verdict on one part of a proof.

    Attributes:
        error: How far off it is, where that is a number.
        tensor: What is worst.
        message: What is wrong; empty where nothing is.
    """

    ok: bool = False
    error: float = 0.0
    tensor: str = ""
    message: str = "not reached"


def check_weights(model: Any, adapter: Any, saved: dict[str, Tensor]) -> Verdict:
    """Check that a model's state becomes the same checkpoint again, all at once and one by one."""
    state = model.state_dict()
    # What nothing computes with comes back as zeros: it only has to be there.
    unused = getattr(adapter, "unused_names", ())
    saved = {n: torch.zeros_like(t) if n in unused else t for n, t in saved.items()}
    whole = differences(adapter.to_hf(dict(state)), saved)
    if whole is not None:
        return whole
    single: dict[str, Tensor] = {}
    for name, tensor in state.items():
        # As weights are sent to inference servers: one parameter at a time.
        single.update(dict(adapter.convert_single_to_hf(name, tensor)))
    found = differences(single, saved)
    if found is not None:
        found.message = "one by one: " + found.message
        return found
    return Verdict(True, 0.0, "", "")


def differences(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> Verdict | None:
    """Return what is different between two checkpoints, or None."""
    lost, more = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if lost or more:
        text = f"missing keys: {lost[:3]}, unexpected keys: {more[:3]}"
        return Verdict(False, float(len(lost) + len(more)), (lost or more)[0], text)
    for name, tensor in wanted.items():
        if found[name].dtype != tensor.dtype or not torch.equal(found[name], tensor):
            return Verdict(False, 1.0, name, f"{name} has other values after the round trip")
    return None


def check_saved(hf_class: Any, built: Built, folder: Path, batch: Batch, wanted: Tensor) -> Verdict:
    """Check that transformers loads what the adapter writes, and computes the same logits with it.

    Args:
        folder: Holds what `save_pretrained` wrote; its weights are replaced.
    """
    replace_weights(folder, built.adapter.to_hf(built.model.state_dict()))
    again = hf_class.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    logits = run_alone(again, batch).logits
    error = float((logits - wanted).abs().max() / wanted.std())
    if error <= SAME_LOGITS:
        return Verdict(True, error, "", "")
    return Verdict(
        False, error, "logits", f"after saving, transformers' logits differ by {error:.2g}"
    )

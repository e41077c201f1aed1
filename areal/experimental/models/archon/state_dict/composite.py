"""The language model inside a checkpoint that also has towers for images or sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from areal.experimental.models.archon.state_dict.plan import CheckpointPlan, listed


def language_names(plan: CheckpointPlan, found: Collection[str]) -> dict[str, str] | None:
    """Find where a composite checkpoint keeps the language model's tensors.

    Two habits exist, and the checkpoint shows which: everything under a prefix
    (``language_model.model.layers``), or the prefix inside the base's name
    (``model.language_model.layers`` beside ``lm_head``).

    Returns:
        Name in a plain checkpoint to name in this one, for what is there; None where the checkpoint
        is plain already, or no prefix gives all that the model requires.
    """
    present = set(found)
    if all(name in present for name in plan.required):
        return None
    for old, new in _prefixes(plan, present):
        names = {name: _moved(name, old, new, present) for name in plan.tensors}
        placed = {name: place for name, place in names.items() if place in present}
        if all(name in placed for name in plan.required):
            return placed
    return None


def _prefixes(plan: CheckpointPlan, present: Collection[str]) -> list[tuple[str, str]]:
    """Return replacements of the first words of names, the one that explains most first."""
    counts: Counter[tuple[str, str]] = Counter()
    tails = {name.rpartition(".layers.")[2]: name for name in plan.required if ".layers." in name}
    for place in present:
        head, marker, tail = place.rpartition(".layers.")
        if marker and tail in tails:
            counts[(tails[tail].rpartition(".layers.")[0], head)] += 1
    return [pair for pair, _ in counts.most_common()]


def _moved(name: str, old: str, new: str, present: Collection[str]) -> str:
    """Return a name with the prefix replaced; outside of the base, the place that exists."""
    if name.startswith(f"{old}."):
        return new + name.removeprefix(old)
    outer = new.removesuffix(f".{old}") if new.endswith(f".{old}") else new
    return next((p for p in (f"{outer}.{name}", name) if p in present), name)


def refusal(names: dict[str, str], others: Collection[str]) -> str:
    """Return what to say of a composite checkpoint that nobody asked to take apart."""
    example = next(iter(names.items()))
    return (
        f"it is a composite checkpoint ({example[0]} is {example[1]}) with {len(others)} tensors "
        f"that a language model does not have: {listed(others) or 'none'}; "
        "text_only=True takes the language model and leaves the rest"
    )

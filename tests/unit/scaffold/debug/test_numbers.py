"""What the checksums of one job say about its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaffold.debug.checksums import Checksum, Checksums, Key
from scaffold.debug.diagnosis import Verdict
from scaffold.debug.numbers import judge_numbers

GOOD = Checksum("float32", (4,), 1, 4.0, 2.0, 0.0, nan=0, inf=0)
NAN = replace(GOOD, checksum=2, nan=3)
ORDER = (
    ("start", "m.a.w"),
    ("forward", "m.a"),
    ("forward", "m"),
    ("gradient", "m.a.w"),
    ("parameter", "m.a.w"),
)


def rank(changed: dict[tuple[str, str], Checksum] | None = None, steps: int = 1) -> Checksums:
    """Returns the tensors of a rank: good ones, but for those of the last step that are given."""
    return {
        Key(step, phase, name, "", 1): (changed or {}).get((phase, name), GOOD)
        if step == steps - 1
        else GOOD
        for step in range(steps)
        for phase, name in ORDER
    }


def test_ranks_with_the_same_numbers_have_no_verdict() -> None:
    assert judge_numbers({0: rank(), 1: rank()}) is None


@pytest.mark.parametrize("steps", [1, 2])
def test_the_rank_and_the_module_of_the_first_nan_are_named(steps: int) -> None:
    spread = {("gradient", "m.a.w"): NAN, ("parameter", "m.a.w"): NAN}
    bad = {**spread, ("forward", "m.a"): NAN, ("forward", "m"): NAN}
    assert judge_numbers({0: rank(spread, steps), 1: rank(bad, steps)}) == Verdict(
        "nan",
        (1,),
        f"rank 1 has the first NaN: 3 in m.a, forward, step {steps - 1}; rank 0 had none there",
        hint="look at this module, and at what this rank gave it",
    )


def test_a_nan_on_all_ranks_is_named_too() -> None:
    verdict = judge_numbers({each: rank(dict.fromkeys(ORDER[2:], NAN)) for each in range(2)})
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("nan", (0, 1))
    assert verdict.text == "ranks 0-1 have the first NaN, in m, forward, step 0"


@pytest.mark.parametrize(
    "masked", [("forward", "m.a"), ("gradient", "m.a.w")], ids=["masked rows", "scaled losses"]
)
def test_a_nan_that_reaches_no_parameter_is_left_alone(masked: tuple[str, str]) -> None:
    assert judge_numbers({0: rank(), 1: rank({masked: NAN})}) is None


def test_without_an_optimizer_the_output_counts() -> None:
    tensors = {key: each for key, each in rank({("forward", "m"): NAN}).items() if key.name == "m"}
    verdict = judge_numbers({0: tensors})
    assert verdict is not None
    assert verdict.ranks == (0,)


def other(**fields: Any) -> Checksum:
    return replace(GOOD, checksum=7, **fields)


def test_replicas_that_began_with_other_weights_are_named() -> None:
    apart = rank({("start", "m.a.w"): other(), ("parameter", "m.a.w"): other()})
    verdict = judge_numbers({0: rank(), 1: rank(), 2: apart})
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("replicas", (0, 2))
    assert "parameter m.a.w at the start, step 0 is the first" in verdict.text


def test_weights_that_were_loaded_after_a_trial_are_left_alone() -> None:
    assert judge_numbers({0: rank(), 1: rank({("start", "m.a.w"): other()})}) is None


@pytest.mark.parametrize(
    "gradient",
    [other(), other(placements=("Shard(dim=0)",)), replace(GOOD, norm=0.0)],
    ids=["split by hand", "shards", "zeros"],
)
def test_ranks_that_may_hold_other_weights_are_left_alone(gradient: Checksum) -> None:
    apart = {("start", "m.a.w"): other(), ("parameter", "m.a.w"): other()}
    split = {**apart, ("gradient", "m.a.w"): gradient}
    zeros = {("gradient", "m.a.w"): gradient} if gradient.norm == 0 else {}
    assert judge_numbers({0: rank(zeros), 1: rank(split)}) is None

"""What holds for every simulated run, whatever its numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from areal.infra.staleness_manager import StalenessManager
from benchmarks.scale.simulate import Setup, Simulation

SMALL = Setup(
    rows=16,
    samples=4,
    mean_tokens=300.0,
    max_tokens=2000,
    servers=4,
    slots=16,
    step_s=0.01,
    train_s=1.0,
    update_s=0.5,
)
SETUPS = {
    "free": SMALL,
    "few rows at once": replace(SMALL, max_concurrent=5),
    "few slots": replace(SMALL, slots=2),
    "slower when full": replace(SMALL, step_s_per_sequence=0.001),
    "in parts": replace(SMALL, parts=4),
    "held": replace(SMALL, evaluation_s=3.0, holds_rows=True),
}


@pytest.mark.parametrize("off_policyness", [0, 0.5, 2])
@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_no_more_rows_start_than_admission_allows(setup: Setup, off_policyness: float) -> None:
    simulation = Simulation(replace(setup, off_policyness=off_policyness))
    found = simulation.run(steps=6, warmup=0)
    for number, version in found.started:
        assert number < math.floor((off_policyness + version + 1) * setup.rows)


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_no_more_rows_run_at_once_than_are_allowed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0

    def submitted(self: StalenessManager) -> None:
        nonlocal most
        original(self)
        most = max(most, self.get_stats().running)

    original = StalenessManager.on_rollout_submitted
    monkeypatch.setattr(StalenessManager, "on_rollout_submitted", submitted)
    Simulation(replace(setup, off_policyness=2)).run(steps=4, warmup=0)
    assert 0 < most <= setup.max_concurrent


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_every_row_ends_once(setup: Setup) -> None:
    simulation = Simulation(replace(setup, off_policyness=2))
    found = simulation.run(steps=6, warmup=0)
    assert len(set(found.ended)) == len(found.ended)
    assert set(found.ended) <= {number for number, _ in found.started}
    stats = simulation.admission.get_stats()
    assert stats.accepted == len(found.ended)
    assert stats.running == len(found.started) - len(found.ended)
    assert len(found.ended) >= 6 * setup.rows


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_running_further_ahead_is_never_slower(setup: Setup) -> None:
    times = [
        Simulation(replace(setup, off_policyness=ahead)).run(steps=20, warmup=10).step_s
        for ahead in (0, 1, 2, 4)
    ]
    for less, more in itertools.pairwise(times):
        # Twenty steps end in the middle of rows, a few of which are much longer than the others.
        assert more <= 1.03 * less


def test_without_off_policyness_every_token_is_of_the_weights_in_training() -> None:
    assert set(Simulation(SMALL).run(steps=6, warmup=0).ages) == {0}


def test_a_step_in_turn_takes_the_longest_answer_the_training_and_the_update() -> None:
    alike = replace(SMALL, sigma=0.0, slots=64)
    found = Simulation(alike).run(steps=3, warmup=1)
    # 16 rows of 4 samples are 16 sequences on each server, which decode together.
    assert found.step_s == pytest.approx(300 * 0.01 + 1.0 + 0.5, rel=0.01)


def test_sequences_share_a_server_at_the_speed_that_their_number_allows() -> None:
    crowded = replace(SMALL, sigma=0.0, step_s_per_sequence=0.001)
    found = Simulation(crowded).run(steps=3, warmup=1)
    assert found.wait_s == pytest.approx(300 * (0.01 + 16 * 0.001), rel=0.01)

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from areal.utils import seeding


@pytest.fixture(autouse=True)
def _keep_generators() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), torch.rand(()).item()


def test_the_same_seed_draws_the_same_everywhere() -> None:
    seeding.set_random_seed(3, key="trainer0")
    first = draw()
    assert seeding.get_seed() == seeding.derive_seed(3, "trainer0")
    seeding.set_random_seed(3, key="trainer0")
    assert draw() == first
    seeding.set_random_seed(3, key="trainer1")
    second = draw()
    assert all(a != b for a, b in zip(first, second, strict=True))


def test_streams_differ_and_fit_numpy() -> None:
    seeds = {seeding.derive_seed(seed, key) for seed in range(50) for key in ("a", "b")}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert seeding.derive_seed(7) == 7
    assert seeding.derive_seed(-1) == 2**32 - 1


def test_a_stream_is_the_same_in_another_process() -> None:
    code = "from areal.utils.seeding import derive_seed; print(derive_seed(1, 'x'))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == seeding.derive_seed(1, "x")


def test_asking_before_seeding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "_current_seed", None)
    with pytest.raises(RuntimeError, match="no random seed was set"):
        seeding.get_seed()

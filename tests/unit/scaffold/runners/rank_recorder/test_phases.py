"""Memory by phase, measured on this process: the resident set is the meter where no GPU is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
BYTES = 64_000_000


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RUNNERS))
    from rank_recorder import phases

    return phases


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident memory")
@pytest.mark.skipif(torch.cuda.is_available(), reason="with an accelerator, its memory is measured")
def test_what_a_phase_holds_and_frees_is_told_apart(phases: Any) -> None:
    meter = phases.Phases()
    meter.enter("forward")
    kept = torch.ones(BYTES // 4)
    meter.enter("backward")
    del kept
    meter.enter("")
    told = meter.to_json()
    forward, backward = told["rows"]["forward"], told["rows"]["backward"]
    assert forward["end"] - forward["begin"] > 0.9 * BYTES
    assert backward["begin"] - backward["end"] > 0.9 * BYTES
    assert forward["times"] == backward["times"] == 1
    assert backward["raised"] == 0

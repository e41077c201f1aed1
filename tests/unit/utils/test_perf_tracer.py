from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from areal.api.config.logging import PerfTracerConfig, SessionTracerConfig
from areal.utils import perf_tracer


@pytest.fixture(autouse=True)
def _no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_tracer, "_tracer", None)


def _configure(tmp_path: Path, **settings: Any) -> perf_tracer.PerfTracer:
    config = PerfTracerConfig(
        experiment_name="e",
        trial_name="t",
        fileroot=str(tmp_path),
        enabled=True,
        session_tracer=SessionTracerConfig(enabled=True, flush_threshold=1000),
        **settings,
    )
    return perf_tracer.configure(config, rank=1, role="actor")


def _read(tracer: perf_tracer.PerfTracer) -> list[dict[str, Any]]:
    text = Path(tracer.path).read_text()
    return json.loads(text.rstrip().rstrip(",") + "]")


def test_without_a_tracer_everything_runs_and_nothing_is_written(tmp_path: Path) -> None:
    with perf_tracer.trace_scope("a"):
        perf_tracer.instant("b")
    perf_tracer.save(0, force=True)
    assert perf_tracer.get_tracer() is None
    assert list(tmp_path.iterdir()) == []


def test_spans_moments_and_phases_are_written(tmp_path: Path) -> None:
    tracer = _configure(tmp_path)

    @perf_tracer.trace_perf("step", category="train")
    def step() -> int:
        perf_tracer.instant("tick", args={"n": 1})
        return 3

    @perf_tracer.session_context()
    async def episode() -> int:
        async with perf_tracer.atrace_session_phase("generate", {"tokens": 2}, {"end": 1}):
            await asyncio.sleep(0)
        return await grade()

    @perf_tracer.trace_session("reward")
    async def grade() -> int:
        return 4

    assert step() == 3
    assert asyncio.run(episode()) == 4
    tracer.save(0)
    events = _read(tracer)
    assert [event["name"] for event in events] == ["tick", "step", "generate", "reward", "episode"]
    assert [event["ph"] for event in events] == ["i", "X", "X", "X", "X"]
    assert events[2]["args"] == {"tokens": 2, "end": 1}
    assert events[4]["dur"] >= events[2]["dur"] >= 0


def test_a_span_of_a_failing_block_is_kept(tmp_path: Path) -> None:
    tracer = _configure(tmp_path)
    with pytest.raises(OSError, match="no"), perf_tracer.trace_scope("a"):
        raise OSError("no")
    tracer.save()
    assert [event["name"] for event in _read(tracer)] == ["a"]


def test_steps_are_chosen_and_saved_at_the_interval(tmp_path: Path) -> None:
    tracer = _configure(tmp_path, save_interval=2, profile_steps=[0, 2])
    for number in range(3):
        perf_tracer.instant(f"step{number}")
        perf_tracer.save(number)
        assert Path(tracer.path).exists() is (number >= 1)
    perf_tracer.save(force=True)
    assert [event["name"] for event in _read(tracer)] == ["step0", "step2"]


def test_phases_tell_what_an_episode_waits_for() -> None:
    async def main() -> list[str]:
        stage = perf_tracer.Stage()
        perf_tracer.current_stage.set(stage)
        seen = [stage.name]
        async with perf_tracer.atrace_session_phase("generate"):
            seen.append(stage.name)
            async with perf_tracer.atrace_session_phase("reward"):
                seen.append(stage.name)
            seen.append(stage.name)
        return [*seen, stage.name]

    assert asyncio.run(main()) == ["start", "generate", "reward", "generate", "start"]

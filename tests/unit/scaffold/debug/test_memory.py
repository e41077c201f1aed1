"""What memory modules hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scaffold.debug.memory import MemoryUse, memory_json, memory_text, read_memory, size_text
from scaffold.debug.records import Job
from tests.unit.scaffold.debug.builders import job


def held(**fields: Any) -> dict[str, Any]:
    row = {"parameters": 400, "gradients": 400, "optimizer": 800, "saved": 100}
    parameters = {
        "m.emb.weight": {"held": 300, "whole": 300, "placements": []},
        "m.up.weight": {"held": 100, "whole": 200, "placements": ["Shard(dim=0)"]},
    }
    given = {"moment": "an optimizer ended its step", "step": 0, "modules": {"m.up": row}}
    return {**given, "parameters": parameters, "device": {"resident_peak": 5000}, **fields}


def test_the_rank_that_ran_out_is_shown(tmp_path: Path) -> None:
    made = job([], [])
    (tmp_path / "100.memory.json").write_text(json.dumps(held()))
    (tmp_path / "101.memory.json").write_text(json.dumps(held(moment="out of memory in m.up")))
    (tmp_path / "999.memory.json").write_text("{")
    found = read_memory(tmp_path, made)
    text = memory_text(found)
    assert text.startswith("memory     rank 1, when out of memory in m.up, step 0; ")
    assert "m.up" in text.splitlines()[3]
    assert "1.7 kB" in text.splitlines()[3]
    assert memory_json(found)["0"]["unsharded"] == {"m.emb.weight": 300}


def test_a_large_parameter_that_is_not_sharded_is_named() -> None:
    found = {rank: MemoryUse(rank, **held()) for rank in (0, 1)}
    assert "unsharded  m.emb.weight: each rank holds all 300 B of it" in memory_text(found)


def test_where_nothing_is_sharded_that_is_said() -> None:
    plain = {"m.w": {"held": 9, "whole": 9, "placements": []}}
    found = {rank: MemoryUse(rank, **held(parameters=plain)) for rank in (0, 1)}
    assert "unsharded  all 1 parameters" in memory_text(found)
    assert "unsharded" not in memory_text({0: found[0]}), "one rank has nobody to share with"


def test_a_job_without_a_model_says_so(tmp_path: Path) -> None:
    assert "no model ran" in memory_text(read_memory(tmp_path, Job(0, {}, [])))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (123456789, "123 MB"), (5e12, "5.0 TB")],
)
def test_sizes(size: float, text: str) -> None:
    assert size_text(size) == text


def test_the_phase_that_reached_the_peak_is_named() -> None:
    rows = {
        "forward of Net": {"times": 2, "begin": 1000, "end": 5000, "raised": 4500, "peak": 5500},
        "loss and backward": {"times": 2, "begin": 5000, "end": 3000, "raised": 900, "peak": 6400},
        "optimizer step": {"times": 2, "begin": 3000, "end": 3000, "raised": 0, "peak": 0},
    }
    text = memory_text({0: MemoryUse(0, **held(phases={"meter": "NVIDIA H100", "rows": rows}))})
    line, _, forward, *_ = text[text.index("phases") :].splitlines()
    assert line == "phases     of NVIDIA H100; the peak of 6.4 kB was reached in loss and backward"
    assert forward.split() == ["forward", "of", "Net", "2", "1.0", "kB", "5.0", "kB", "4.5", "kB"]
    process = {"meter": "process", "rows": rows}
    assert "no accelerator is used" in memory_text({0: MemoryUse(0, **held(phases=process))})
    assert "phases" not in memory_text({0: MemoryUse(0, **held())}), "an older record"

"""Train engines on several processes compute what they compute on one.

One launch for each number of processes runs all its cases; the tests then read what it found.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.engine.model.checkpoint import read_tensors
from tests.integration.areal.conftest import environment
from tests.integration.ranks.cases import STEPS, Case, checkpoint, differences, make_engine, run
from tests.rank_processes import run_ranks

pytestmark = pytest.mark.heavy

# In fp32 processes add up in another order: 1e-7 of what is added, which grows over the layers.
TOLERANCES = {"logprobs": 5e-5, "losses": 1e-5, "norms": 2e-5, "gradients": 2e-5, "weights": 3e-3}
# What a step makes of a gradient that is rounding alone (a key's bias under softmax) is bounded by
# the rate: no such parameter is in these models, and their weights are compared closely.
CLOSELY = {"qwen3": 2e-4, "llama": 2e-4}

RECOMPUTED = {"gradient_checkpointing": True}
CRITIC = {"is_critic": True}
TIED = {"tie_word_embeddings": True}
ON_TWO = [
    Case("fsdp:d2", fields=TIED, config=RECOMPUTED),
    # Neither the vocabulary nor a width divides.
    Case("fsdp:t2", fields={**TIED, "vocab_size": 43, "intermediate_size": 49}),
    Case("fsdp:c2", fields={"num_key_value_heads": 1}, config=RECOMPUTED),
    Case("fsdp:d2", "qwen3_moe"),
    Case("archon:t2", config=RECOMPUTED),
    Case("archon:c2"),
    Case("archon:p2", fields=TIED),
    Case("archon:d2e2", "qwen3_moe"),
    Case("fsdp:t2", config=CRITIC),
    Case("archon:p2", config=CRITIC),
]
FAMILIES = ["llama", "qwen2", "gemma3_text", "mistral", "phi3", "olmo2", "glm4", "granite"]
FAMILIES += ["gpt_neox", "smollm3"]
MORE_ON_TWO = [Case(f"fsdp:{axis}2", name) for name in FAMILIES for axis in "dtc"]
MORE_ON_TWO += [Case("fsdp:d2", "mixtral"), Case("fsdp:c2", "mixtral")]
MORE_ON_TWO += [Case("fsdp:d2", "gpt2"), Case("fsdp:d2", "opt")]
MORE_ON_TWO += [Case(backend) for backend in ("fsdp:d2", "fsdp:t2", "fsdp:c2", "archon:d2")]
MORE_ON_TWO += [
    Case(backend, config=CRITIC) for backend in ("fsdp:d2", "fsdp:c2", "archon:d2", "archon:t2")
]
REFUSED = {
    "qwen3 fsdp:t2 num_key_value_heads=1": "num_key_value_heads=1 of Qwen3ForCausalLM",
    "opt fsdp:t2": "OPTForCausalLM has no tensor-parallel plan",
    "qwen3_moe fsdp:t2": "style moe_tp_experts",
    "qwen3 archon:d2e2": "the model has no experts",
    "qwen3 archon:p2 pp_schedule=ZBVZeroBubble": "pp_schedule='ZBVZeroBubble' is not available",
}
MORE_ON_TWO += [Case("fsdp:t2", fields={"num_key_value_heads": 1})]
MORE_ON_TWO += [Case("fsdp:t2", "opt"), Case("fsdp:t2", "qwen3_moe")]
MORE_ON_TWO += [Case("archon:d2e2"), Case("archon:p2")]
MORE_ON_TWO += [Case("archon:p2", archon={"pp_schedule": "ZBVZeroBubble"})]
MORE_ON_TWO += [Case("archon:p2", archon={"pp_schedule": name}) for name in ("1F1B", "GPipe")]
MORE_ON_TWO += [Case("archon:p2", "qwen3_moe", config=RECOMPUTED, archon={"ac_mode": "full"})]
MORE_ON_TWO += [Case(f"archon:{split}", "qwen3_moe") for split in ("t2", "t2e2", "c2e2")]
ON_FOUR = [Case("fsdp:d2t2"), Case("fsdp:t2c2", fields=TIED), Case("fsdp:d2c2"), Case("fsdp:d4")]
ON_FOUR += [Case(f"archon:{split}") for split in ("d2t2", "d2c2", "p2t2", "d2p2", "p2c2")]
ON_FOUR += [Case(f"archon:{split}", "qwen3_moe") for split in ("d2p2e2", "d2t2e2", "d2t2e4")]

Results = dict[str, list[dict[str, Any]]]


def launch(cases: Sequence[Case], processes: int, folder: Path, timeout_s: int = 280) -> Results:
    """Runs cases and returns, by name, what each process found."""
    (folder / "cases.json").write_text(json.dumps([dataclasses.asdict(case) for case in cases]))
    files = [str(folder / "cases.json"), str(folder / "results.json")]
    argv = ["-m", "tests.integration.ranks.worker", *files]
    run_ranks(processes, argv, environment(), timeout_s)
    results = json.loads((folder / "results.json").read_text())
    return {case.name: ranks for case, ranks in zip(cases, results, strict=True)}


def check(name: str, ranks: list[dict[str, Any]]) -> None:
    limits = TOLERANCES | {"weights": CLOSELY.get(name.split()[0], TOLERANCES["weights"])}
    for found in ranks:
        assert "failure" not in found, found["failure"]
        if name in REFUSED:
            assert REFUSED[name] in found["refusal"]
            continue
        assert "refusal" not in found, found["refusal"]
        for what, difference in found.items():
            assert difference <= limits[what], (name, what, difference)


@pytest.fixture(scope="module")
def one_saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Checkpoints of one process, after two steps."""
    folders = {}
    for backend in ("fsdp:d1", "archon:d1"):
        engine = make_engine(Case(backend))
        run(engine, range(2))
        folders[backend] = str(tmp_path_factory.mktemp(backend.replace(":", "-")) / "saved")
        engine.save(checkpoint(folders[backend]))
        engine.destroy()
    return folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two")


RESUMING = [("fsdp:d2", "fsdp:d1"), ("fsdp:t2", "archon:d1"), ("archon:p2", "fsdp:d1")]
SAVING = ("fsdp:t2", "archon:p2")
MORE_SAVING = ("fsdp:d2", "archon:d2")


@pytest.fixture(scope="module")
def on_two(folder: Path, one_saved: dict[str, str]) -> Results:
    resuming = [Case(backend, resumes=one_saved[source]) for backend, source in RESUMING]
    saving = [Case(backend, saves=str(folder / backend)) for backend in SAVING]
    wrong = [Case("fsdp:t2", mistake=name) for name in ("sum_values", "sum_gradients")]
    return launch([*ON_TWO, *resuming, *saving, *wrong], 2, folder)


@pytest.mark.parametrize("name", [case.name for case in ON_TWO])
def test_two_processes_compute_what_one_does(on_two: Results, name: str) -> None:
    check(name, on_two[name])


def test_a_part_that_is_left_out_is_seen(on_two: Results) -> None:
    for found in on_two["qwen3 fsdp:t2 without sum_values"]:
        assert "computes other logits as fsdp:t2" in found["refusal"]
    for found in on_two["qwen3 fsdp:t2 without sum_gradients"]:
        assert found["gradients"] > 1e-2


@pytest.mark.parametrize("backend", [backend for backend, _ in RESUMING])
def test_two_processes_go_on_where_one_stopped(on_two: Results, backend: str) -> None:
    check("qwen3", on_two[f"qwen3 {backend} resumes"])


@pytest.mark.parametrize("backend", ["fsdp:d1", "archon:d1"])
@pytest.mark.parametrize("saved_by", SAVING)
def test_one_process_goes_on_where_two_stopped(
    on_two: Results, folder: Path, saved_by: str, backend: str
) -> None:
    check_saved(on_two, folder, saved_by, backend)


@pytest.mark.slow
def test_one_process_goes_on_where_two_replicas_stopped(tmp_path: Path) -> None:
    cases = [Case(backend, saves=str(tmp_path / backend)) for backend in MORE_SAVING]
    results = launch(cases, 2, tmp_path)
    for saved_by in MORE_SAVING:
        for backend in ("fsdp:d1", "archon:d1"):
            check_saved(results, tmp_path, saved_by, backend)


def check_saved(results: Results, folder: Path, saved_by: str, backend: str) -> None:
    assert not any(results[f"qwen3 {saved_by} saves"]), results[f"qwen3 {saved_by} saves"]
    saved, copied = (read_tensors(folder / f"{saved_by}{end}") for end in ("", "-copied"))
    assert copied.keys() == saved.keys()
    assert all(torch.equal(copied[name], saved[name]) for name in saved)
    straight, resumed = make_engine(Case(backend)), make_engine(Case(backend))
    run(straight, range(2))
    resumed.load(checkpoint(str(folder / saved_by)))
    rest = range(2, len(STEPS))
    check("qwen3", [differences(run(resumed, rest), run(straight, rest))])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_compute_what_one_does_for_other_families(tmp_path: Path) -> None:
    for name, ranks in launch(MORE_ON_TWO, 2, tmp_path, timeout_s=800).items():
        check(name, ranks)


@pytest.mark.slow
def test_four_processes_compute_what_one_does(tmp_path: Path) -> None:
    for name, ranks in launch(ON_FOUR, 4, tmp_path).items():
        check(name, ranks)

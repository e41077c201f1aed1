"""The program that torchrun starts on each process: split a model in every way, and compare."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from transformers import CONFIG_MAPPING

from archon_probe.measure.tiny import tiny_config
from archon_probe.overlay import lay_over
from archon_probe.proof.build import load_spec, read_args
from archon_probe.proof.parallel import verdict
from archon_probe.proof.parallel_cases import TOLERANCE, Case, Subject, run_all, run_case

WAYS: dict[str, dict[str, int]] = {
    "fsdp": {},
    "tp": {"tp": 2},
    "cp": {"cp": 2},
    "pp": {"pp": 2},
    "ep": {"ep": 2},
}
"""The ways to split a model; the last is for one with experts."""


def main(request_path: Path, result_path: Path) -> None:
    """Run every way on this process; process 0 writes the verdicts."""
    request = json.loads(request_path.read_text(encoding="utf-8"))
    if request.get("overlay"):
        lay_over(request["package"], Path(request["overlay"]))
    spec = load_spec(request["spec"])
    given, cls = request.get("config"), CONFIG_MAPPING[request["model_type"]]
    config = tiny_config(cls.from_dict(dict(given)) if given else cls())
    args, refusal = read_args(spec, config)
    assert refusal is None, refusal
    has_experts = getattr(args, "moe_args", None) is not None
    ways = [way for way in WAYS if way != "ep" or has_experts]
    cases = [Case(request["model_type"], way, WAYS[way]) for way in ways]
    found = run_all(cases, lambda case: run_case(case, Subject(spec, read_args(spec, config)[0])))
    if os.environ["RANK"] == "0":
        verdicts = {w: verdict(ranks, TOLERANCE) for w, ranks in zip(ways, found, strict=True)}
        result_path.write_text(json.dumps(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

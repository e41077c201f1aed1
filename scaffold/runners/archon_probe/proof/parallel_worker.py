"""The program that torchrun starts on each process: split a model in every way, and compare."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING

from archon_probe.measure.tiny import tiny_config
from archon_probe.overlay import lay_over
from archon_probe.proof.build import load_spec, read_args
from archon_probe.proof.parallel import verdict
from archon_probe.proof.parallel_cases import TOLERANCE, Case, Subject, run_all, run_case

DENSE: tuple[tuple[str, dict[str, int]], ...] = (
    ("fsdp", {}),
    ("tp", {"tp": 2}),
    ("cp", {"cp": 2}),
    ("pp", {"pp": 2}),
)


EXPERTS: tuple[tuple[str, dict[str, int]], ...] = (("ep", {"ep": 2}),)


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

    def run(case: Case) -> dict[str, Any]:
        return run_case(case, Subject(spec, read_args(spec, config)[0]))

    ways = DENSE + (EXPERTS if has_experts else ())
    cases = result_path.with_suffix(".cases")
    results = result_path.with_suffix(".results")
    rows = [{"model_type": request["model_type"], "mode": m, "dims": d} for m, d in ways]
    if os.environ["RANK"] == "0":
        cases.write_text(json.dumps(rows), encoding="utf-8")
    run_all(str(cases), str(results), run)
    if os.environ["RANK"] == "0":
        found = json.loads(results.read_text(encoding="utf-8"))
        verdicts = {m: verdict(ranks, TOLERANCE) for (m, _), ranks in zip(ways, found, strict=True)}
        result_path.write_text(json.dumps(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Says in which ways a model can be split, and whether it then computes what one process does.

Also the program that torchrun starts on each process, ``python -m archon_probe.proof.parallel``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROCESSES = 2
TIME_LIMIT_S = 240
DENSE: tuple[tuple[str, dict[str, int]], ...] = (
    ("fsdp", {}),
    ("tp", {"tp": 2}),
    ("cp", {"cp": 2}),
    ("pp", {"pp": 2}),
)
EXPERTS: tuple[tuple[str, dict[str, int]], ...] = (("ep", {"ep": 2}),)


def measure_split(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Splits a tiny model over two processes in every way, and compares it with the whole one.

    Args:
        request: As for a proof: ``model_type`` and ``spec``; optionally ``config``, ``package`` and
            ``overlay``.

    Returns:
        For each way ("fsdp", "tp", "cp", "pp", "ep"; the last only for models with experts):
        ``status``: "equal"; "refused", where the model's sizes do not divide or its embedding and
        head are one; "failed". ``message`` says why; ``logits`` and ``gradient`` are the errors.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(request, default=str), encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(PROCESSES), "-m", "archon_probe.proof.parallel"]
        done = _run([*command, str(asked), str(answered)])
        if answered.exists():
            return json.loads(answered.read_text(encoding="utf-8"))
    return {"fsdp": {"status": "failed", "message": done}}


def _run(command: list[str]) -> str:
    """Runs the processes; returns the first error that they wrote."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIME_LIMIT_S} s"
    lines = [line for line in done.stderr.splitlines() if "Error: " in line]
    return (lines or done.stderr.splitlines() or ["the processes wrote nothing"])[0][:500]


def verdict(ranks: list[dict[str, Any]], tolerance: float) -> dict[str, Any]:
    """Returns what all processes' findings of one way come to."""
    failures = [found["failure"].strip().splitlines()[-1] for found in ranks if "failure" in found]
    if failures:
        refused = all("ConfigError" in failure for failure in failures)
        return {"status": "refused" if refused else "failed", "message": failures[0][:500]}
    logits = max(found["logits"] for found in ranks)
    worst = max(ranks, key=lambda found: found["excess"])
    is_equal = logits <= tolerance and worst["excess"] <= 1
    message = "" if is_equal else f"logits differ by {logits:.1e}, {worst['worst']} most"
    return {
        "status": "equal" if is_equal else "failed",
        "message": message,
        "logits": logits,
        "gradient": worst["gradient"],
    }


def main(asked: str, answered: str) -> None:
    """Runs every way on this process; process 0 writes the verdicts."""
    from transformers import CONFIG_MAPPING

    from archon_probe.__main__ import lay_over
    from archon_probe.measure.tiny import tiny_config
    from archon_probe.proof.parallel_cases import TOLERANCE, Case, Subject, run_all, run_case
    from archon_probe.proof.prove import load_spec

    request = json.loads(Path(asked).read_text(encoding="utf-8"))
    if request.get("overlay"):
        lay_over(request["package"], Path(request["overlay"]))
    spec = load_spec(request["spec"])
    given, cls = request.get("config"), CONFIG_MAPPING[request["model_type"]]
    config = tiny_config(cls.from_dict(dict(given)) if given else cls())
    args = spec.model_args_class.from_hf_config(config)
    has_experts = getattr(args, "moe_args", None) is not None

    def run(case: Case) -> dict[str, Any]:
        # The first stage of a pipeline has the embedding, and the last one the head.
        config.tie_word_embeddings = is_tied and not case.dims.get("pp")
        return run_case(case, Subject(spec, spec.model_args_class.from_hf_config(config)))

    is_tied = bool(config.tie_word_embeddings)
    ways = DENSE + (EXPERTS if has_experts else ())
    cases = Path(answered).with_suffix(".cases")
    results = Path(answered).with_suffix(".results")
    rows = [{"model_type": request["model_type"], "mode": m, "dims": d} for m, d in ways]
    if os.environ["RANK"] == "0":
        cases.write_text(json.dumps(rows), encoding="utf-8")
    run_all(str(cases), str(results), run)
    if os.environ["RANK"] == "0":
        found = json.loads(results.read_text(encoding="utf-8"))
        verdicts = {m: verdict(ranks, TOLERANCE) for (m, _), ranks in zip(ways, found, strict=True)}
        Path(answered).write_text(json.dumps(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Run one probe: ``python -m archon_probe derive|prove|types REQUEST.json RESULT.json``.

The result is written in one step: it is whole, or it is not there. ``RESULT.json.stages`` holds the
stages that were reached, one JSON line for each.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archon_probe.errors import ProbeError
from archon_probe.overlay import lay_over
from archon_probe.stages import log_stages, stage

SCHEMA = 1
"""The version of requests and results."""

OLDEST_TRANSFORMERS = 5
"""The oldest major version that is measured; 5.0.0 and 5.23.0 were tried."""

NEEDED = ("numpy", "safetensors", "torch", "transformers")
"""The packages that probes import beside their own modules and the target's."""

Request = dict[str, Any]


def main(argv: list[str]) -> int:
    """Run the probe that the command line names; 0 where a result was written."""
    if len(argv) != 3 or argv[0] not in PROBES:
        print(f"usage: python -m archon_probe {'|'.join(PROBES)} REQUEST RESULT", file=sys.stderr)
        return 2
    request_path, result_path = Path(argv[1]), Path(argv[2])
    log_stages(result_path.with_name(result_path.name + ".stages"))
    stage("starting")
    request = json.loads(request_path.read_text(encoding="utf-8"))
    result = run(PROBES[argv[0]], request)
    # Renamed into place, so that a killed process leaves no half of a result.
    part = result_path.with_name(result_path.name + ".part")
    part.write_text(json.dumps(result, default=str), encoding="utf-8")
    os.replace(part, result_path)
    return 0


def run(probe: Callable[[Request], dict[str, Any]], request: Request) -> dict[str, Any]:
    """Return the result of a probe, or the error that kept it from one."""
    result: dict[str, Any] = {"schema": SCHEMA, "ok": False, "result": None, "error": None}
    try:
        result["result"] = probe(request)
        result["ok"] = True
    except ProbeError as error:
        result["error"] = error.to_json()
    # A probe runs transformers' code on any configuration: whatever it raises is an answer.
    except Exception as error:
        result["error"] = _failure(error)
        result["traceback"] = traceback.format_exc()
    result["versions"] = {name: _version(name) for name in ("torch", "transformers")}
    return result


def _failure(error: Exception) -> dict[str, str]:
    missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    if missing in NEEDED:
        return {
            "code": "interpreter_lacks",
            "message": f"{sys.executable} has no {missing}",
            "hint": "name an interpreter that has it with --python EXE",
        }
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return {"code": "probe_failed", "message": text, "hint": ""}


# Each probe imports torch and transformers by itself: `run` reports the one that is missing.


def derive_model(request: Request) -> dict[str, Any]:
    """Return the design of the model that a request names."""
    check_transformers()
    check_target(request.get("needs", ""))
    from archon_probe.design.derive import derive
    from archon_probe.measure.model_source import resolve

    stage("reading the configuration")
    config = resolve(request)
    design = derive(config)
    design.setdefault("tiny", tiny_values(config))
    return {"design": design}


def check_transformers() -> None:
    """Refuse a transformers that is too old to be measured.

    Raises:
        ProbeError: It is older than 5.0, which moved rotary settings and the weights of experts.
    """
    version = _version("transformers")
    if version and int(version.partition(".")[0]) < OLDEST_TRANSFORMERS:
        raise ProbeError(
            f"{sys.executable} has transformers {version}; models are measured on "
            f"{OLDEST_TRANSFORMERS}.0 or later",
            code="interpreter_lacks",
            hint="install a later one there, or name another interpreter with --python EXE",
        )


def check_target(module: str) -> None:
    """Refuse a target in which a written model could not be imported, before it is measured.

    Args:
        module: Dotted name of what it needs; "" for nothing.

    Raises:
        ProbeError: It cannot be imported, and why.
    """
    if not module:
        return
    stage("importing what the model will need")
    try:
        importlib.import_module(module)
    # Importing a package of others may raise anything.
    except Exception as error:
        raise ProbeError(
            f"{module}, which Archon models need, cannot be imported by {sys.executable}: "
            f"{type(error).__name__}: {error}",
            code="target_lacks",
            hint="install what is missing there, or name another interpreter with --python EXE",
        ) from error


def tiny_values(config: Any) -> dict[str, Any]:
    """Return the fields that make a configuration tiny, for a model's own test.

    Empty where one of them is no JSON: the test then does without a configuration.
    """
    from archon_probe.measure.tiny import explicit_values, tiny_config

    try:
        return json.loads(json.dumps(explicit_values(tiny_config(config))))
    except TypeError:
        return {}


def prove_model(request: Request) -> dict[str, Any]:
    """Prove staged or installed files of a model against the one of transformers."""
    from archon_probe.measure.model_source import resolve
    from archon_probe.proof.parallel import measure_split
    from archon_probe.proof.prove import prove
    from archon_probe.proof.staged_test import run_staged_test

    stage("reading the configuration")
    resolve(request)
    if request.get("overlay"):
        lay_over(request["package"], Path(request["overlay"]))
    stage("proving")
    proof = prove(request)
    # What is wrong in one process is wrong in several: only what is proven is worth the time.
    if request.get("split") and proof["ok"]:
        stage("splitting it over processes")
        proof["parallel"] = measure_split(request)
    if request.get("test") and proof["ok"]:
        stage("running the test that was written")
        staged = (request["package"], request["overlay"]) if request.get("overlay") else ()
        proof["test"] = run_staged_test(Path(request["test"]), *staged)
        proof["problems"] = [f"its test: {row}" for row in proof["test"]["failures"]]
        proof["ok"] = not proof["problems"]
    return proof


def list_types(request: Request) -> dict[str, Any]:
    """Return every model_type that may be measured, with a hash of its source."""
    from archon_probe.measure.model_source import model_types

    return {"types": model_types()}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


PROBES: dict[str, Callable[[Request], dict[str, Any]]] = {
    "derive": derive_model,
    "prove": prove_model,
    "types": list_types,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

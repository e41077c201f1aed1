"""Asks `archon_probe`, which runs in an interpreter that has torch and transformers."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from scaffold.archon.codes import CODES
from scaffold.errors import TargetError
from scaffold.verify.interpreter import Interpreter
from scaffold.verify.process import Finished, run_limited

RUNNERS = Path(__file__).resolve().parent.parent / "runners"
NEEDED = ("torch", "transformers")


PROGRESS_S = 5.0
"""How often a probe that runs reports what it is at."""


def probe(
    name: str,
    request: Mapping[str, Any],
    python: Interpreter,
    root: Path,
    timeout_s: float,
    log: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run one probe to its end and return what it found.

    Args:
        name: "derive", "prove" or "types".
        request: What it is asked; see `archon_probe`.
        python: Where it runs.
        root: The target's folder, whose code a proof imports.
        timeout_s: When it is killed.
        log: Gets a line on what it does, every few seconds; None for nobody.

    Raises:
        TargetError: The interpreter lacks what is needed, or the probe refused or failed.
    """
    lack = python.lack(NEEDED)
    if lack:
        raise TargetError(
            lack, code="interpreter_lacks", hint="name one that has it with --python EXE"
        )
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        # The runner is a package beside this one, and the target's code comes from its folder.
        paths = [str(RUNNERS), str(root), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, paths))
        with _progress(answered.with_name(answered.name + ".stages"), log):
            done = run_limited(
                [*python.argv, "-m", "archon_probe", name, str(asked), str(answered)],
                root,
                timeout_s,
                {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "TRANSFORMERS_VERBOSITY": "error"},
            )
        if not answered.is_file():
            raise _no_answer(name, done, answered, timeout_s)
        result = cast("dict[str, Any]", json.loads(answered.read_text(encoding="utf-8")))
    if not result["ok"]:
        raise _refusal(name, result)
    found = cast("dict[str, Any]", result["result"])
    return {**found, "versions": result.get("versions", {})}


@contextmanager
def _progress(stages: Path, log: Callable[[str], None] | None) -> Generator[None]:
    """Log what a probe is about while the block runs, where that changes."""
    if log is None:
        yield
        return
    is_over = threading.Event()

    def follow() -> None:
        before = ""
        while not is_over.wait(PROGRESS_S):
            now = last_stage(stages)
            if now != before:
                log(f"  {now}")
            before = now

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _no_answer(name: str, done: Finished, answered: Path, timeout_s: float) -> TargetError:
    stage = last_stage(answered.with_name(answered.name + ".stages"))
    if done.status is None:
        return TargetError(
            f"the probe {name!r} was killed after {timeout_s:g} s, while {stage}",
            code="probe_failed",
            hint="give it more time with --timeout SECONDS",
        )
    lines = " | ".join(done.last_lines(4).splitlines())
    return TargetError(
        f"the probe {name!r} {done.describe()} while {stage}: {lines}",
        code="probe_failed",
        hint="run the command again with another --python, or report this",
    )


def last_stage(path: Path) -> str:
    """Return what a probe did last, as its own lines say."""
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
        return str(json.loads(rows[-1])["name"])
    except (OSError, ValueError, LookupError):
        return "starting"


def _refusal(name: str, result: Mapping[str, Any]) -> TargetError:
    error = cast("dict[str, str]", result["error"])
    code = error["code"] if error["code"] in {*CODES, "interpreter_lacks"} else "probe_failed"
    message = error["message"]
    if code == "probe_failed":
        # The last frame of the traceback, which is enough to report the place.
        where = str(result.get("traceback", "")).strip().splitlines()
        place = next((row.strip() for row in reversed(where) if row.strip().startswith("File")), "")
        message = f"the probe {name!r} failed: {message}" + (f" ({place})" if place else "")
    return TargetError(message, code=code, hint=error.get("hint", ""))

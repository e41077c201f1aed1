"""Run the test that was written with a model, where the model is staged."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class _Recorder:
    """A plugin of pytest that keeps what happened to each test."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the outcome of one phase of one test."""
        self.passed += report.when == "call" and report.passed
        if report.failed:
            self.failures.append(f"{report.nodeid.rpartition('::')[2]}: {_cause(report)}")

    def pytest_collectreport(self, report: Any) -> None:
        """Keep a failed collection, where an import that fails ends."""
        if report.failed:
            self.failures.append(f"collection: {_cause(report)}")


def run_staged_test(path: Path, package: str = "", overlay: str = "") -> dict[str, Any]:
    """Return how many tests of a file passed, and how the others failed.

    Args:
        path: The test's file; its folder holds nothing else.
        package: Dotted name of a package that staged modules were put before, "" for none.
        overlay: The folder of these modules.
    """
    if find_spec("pytest") is None:
        return {"passed": 0, "failures": [], "skipped": "the interpreter has no pytest"}
    import pytest  # optional: a model is proven without it, too

    settings = path.with_name("pytest.ini")
    settings.write_text("[pytest]\n", encoding="utf-8")  # and not those of a folder above
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", str(settings)]
    recorder = _Recorder()
    with (
        _in_every_process(path.parent, package, overlay),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        pytest.main([*options, str(path)], plugins=[recorder])
    failures = recorder.failures
    if not failures and not recorder.passed:
        failures = ["none of its tests was run"]
    return {"passed": recorder.passed, "failures": failures, "skipped": ""}


@contextlib.contextmanager
def _in_every_process(folder: Path, package: str, overlay: str) -> Iterator[None]:
    """Let the Pythons that a test starts find staged modules too, while the block runs."""
    if not package:
        yield
        return
    text = f"from archon_probe.overlay import lay_over\n\nlay_over({package!r}, {overlay!r})\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, sys.path)])
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ |= {} if before is None else {"PYTHONPATH": before}


def _cause(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    rows = [row for row in text.strip().splitlines() if row]
    errors = [row[2:].strip() for row in rows if row.startswith("E ")]
    return (errors[-1] if errors and crash is None else rows[0] if rows else "")[:300]

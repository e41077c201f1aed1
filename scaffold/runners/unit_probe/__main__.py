"""Probe one unit: ``python unit_probe NAME REQUEST.json RESULT.jsonl``."""

import importlib
import os
import sys

# The package is importable, its modules are not: a target may have a `reward` of its own.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from unit_probe.kit import run_checks  # noqa: E402  (needs the path)

name, request_path, result_path = sys.argv[1:]
run_checks(importlib.import_module(f"unit_probe.{name}").main, request_path, result_path)

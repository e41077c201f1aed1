"""Runs the cases of ``test_parallel.py`` on one of their processes."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

# This file is started by its path, so its folder is the first of the import path.
import by_contract
from archon_probe.measure.tiny import tiny_config
from archon_probe.proof.parallel_cases import Case, Subject, run_all, run_case
from zoo import ZOO_SPEC

from areal.experimental.models.archon.model_spec import get_model_spec

# A comparison that these pass would prove nothing.
_LOCAL = "areal.experimental.models.archon.parallel.local"
MISTAKES: dict[str, tuple[str, Any]] = {
    "gradients are not summed": (f"{_LOCAL}.sum_gradients", lambda x, _: x),
    "norms see their own channels": (
        "areal.experimental.models.archon.layers.norms.all_reduce",
        lambda x, group: x * group.size(),
    ),
    "all processes have the first heads' slopes": (
        "areal.experimental.models.archon.parallel.styles.AlibiSlopes",
        type(None),
    ),
}


def subject_of(case: Case) -> Subject:
    """Returns what a case splits: a zoo model of its fields, or a committed one, tiny."""
    if case.model_type == "zoo":
        spec, config = ZOO_SPEC, case.config
    else:
        spec, config = get_model_spec(case.model_type), tiny_config(case.model_type)
        for name, value in case.config.items():
            setattr(config, name, value)
    return Subject(spec, spec.model_args_class.from_hf_config(config, is_critic=case.is_critic))


def run(case: Case) -> dict[str, Any]:
    """Runs a case, with its mistake."""
    if case.mode.startswith("contract"):
        return by_contract.run(case.model_type, case.is_critic, next(iter(case.dims)))
    with mock.patch(*MISTAKES[case.mistake]) if case.mistake else nullcontext():
        return run_case(case, subject_of(case))


if __name__ == "__main__":
    cases, results = map(Path, sys.argv[1:])
    found = run_all([Case(**each) for each in json.loads(cases.read_text())], run)
    if os.environ["RANK"] == "0":
        results.write_text(json.dumps(found))

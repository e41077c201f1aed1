"""Runs cases on one of several processes."""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from areal.api.errors import ConfigError
from tests.integration.ranks.cases import Case, compare


def main(cases_path: str, results_path: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # Where one process fails inside a case, the others must not wait for it for long.
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    with open(cases_path, encoding="utf-8") as file:
        cases = [Case(**case) for case in json.load(file)]
    results = []
    for case in cases:
        started = time.perf_counter()
        try:
            result: dict[str, Any] = compare(case)
        except ConfigError as error:
            result = {"refusal": str(error)}
        except Exception:
            result = {"failure": traceback.format_exc()}
            # The others may wait for this process, and their failure hides this one.
            print(f"{case.name}, process {dist.get_rank()}:", result["failure"], file=sys.stderr)
        everywhere: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, result)
        results.append(everywhere)
        if dist.get_rank() == 0:
            # Where a case hangs, the last line names the one before it.
            print(f"{case.name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
            with open(results_path, "w", encoding="utf-8") as file:
                json.dump(results, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

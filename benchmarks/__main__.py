"""Prints every number of the target list beside its reference: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import run_to_end
from benchmarks.results import Result, format_table, missed
from benchmarks.settings import QUICK, Settings

# Name -> module with ``run(settings) -> list[Result]``, and title.
GROUPS: dict[str, tuple[str, str]] = {
    "decode": (
        "benchmarks.decode",
        "Generation with log-probabilities (CPU seconds, 1 thread)",
    ),
    "packing": (
        "benchmarks.packing",
        "Training step on packed sequences (CPU seconds, 1 thread)",
    ),
    "pairs": ("benchmarks.pairs", "Training on pairs, beside TRL (CPU seconds, 1 thread)"),
    "archon": (
        "benchmarks.archon.table",
        "Archon models beside Hugging Face's (CPU seconds, 1 thread)",
    ),
    "grpo_step": ("benchmarks.grpo_step", "GRPO step and memory (CPU seconds, 1 thread)"),
    "cold_start": ("benchmarks.cold_start", "Start-up (wall seconds)"),
    "learning": ("benchmarks.learning", "Learning (CPU seconds, 1 thread)"),
    "cli": ("benchmarks.cli.table", "The command line (CPU time as a multiple of python -c pass)"),
    "skills": ("benchmarks.skills.table", "Checking skills, beside other checkers"),
    "truth": ("benchmarks.skills.truth", "Findings on public repositories, each read by hand"),
    "kinds": ("benchmarks.kinds", "Kinds learned in public repositories, beside a reader's"),
    "commits": ("benchmarks.commits", "Types given to commits, beside those of their authors"),
    "scale": ("benchmarks.scale.table", "Rollouts from servers, training on several ranks"),
    "overhead": ("benchmarks.overhead_table", "Overhead of episodes, rewards and imports"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen groups and returns the exit status: 1 where a target was missed."""
    options = _parse(argv)
    settings = _settings(options)
    chosen = options.only or list(GROUPS)
    results: dict[str, list[Result]] = {}
    for name in chosen:
        started = time.perf_counter()
        print(f"running {name} ...", file=sys.stderr, flush=True)
        # Groups do not share a process, so none inherits another's caches, threads or memory.
        results[name] = _run_here(name, settings) if len(chosen) == 1 else _run_apart(name, options)
        print(f"  took {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    _show(results)
    if options.json:
        Path(options.json).write_text(json.dumps(_to_json(results), indent=2) + "\n")
    short = missed([result for group in results.values() for result in group])
    return 1 if short and not options.no_fail else 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=list(GROUPS), help="run this group; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers to a file as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 though a target is missed")
    parser.add_argument(
        "--quick", action="store_true", help="tiny counts: shows that all runs, not how fast"
    )
    parser.add_argument("--sft-config", metavar="YAML", help="the warm-up; default examples/")
    parser.add_argument("--grpo-config", metavar="YAML", help="GRPO after it; default examples/")
    parser.add_argument("--repo", metavar="DIR", help="commits: whose history; default this one")
    parser.add_argument("--corpus", metavar="DIR", help="truth, kinds: the folder of the clones")
    return parser.parse_args(argv)


def _settings(options: argparse.Namespace) -> Settings:
    settings = QUICK if options.quick else Settings()
    paths = {
        name: Path(value).resolve()
        for name in ("sft_config", "grpo_config", "repo", "corpus")
        if (value := getattr(options, name)) is not None
    }
    return dataclasses.replace(settings, **paths)


def _run_here(name: str, settings: Settings) -> list[Result]:
    results: list[Result] = importlib.import_module(GROUPS[name][0]).run(settings)
    return results


def _run_apart(name: str, options: argparse.Namespace) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        out = Path(scratch) / "group.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            "--only",
            name,
            "--json",
            str(out),
            "--no-fail",
        ]
        command += ["--quick"] if options.quick else []
        for flag in ("sft_config", "grpo_config", "repo", "corpus"):
            if value := getattr(options, flag):
                command += [f"--{flag.replace('_', '-')}", str(Path(value).resolve())]
        run_to_end(command, Path(scratch) / "process")
        rows = json.loads(out.read_text())["groups"][name]
    return [Result.from_json(row) for row in rows]


def _show(results: dict[str, list[Result]]) -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    for name, group in results.items():
        print(f"\n{GROUPS[name][1]}\n{format_table(group)}")
    everything = [result for group in results.values() for result in group]
    judged = [result for result in everything if result.verdict in ("pass", "FALLS SHORT")]
    print(f"\n{len(judged) - len(missed(judged))} of {len(judged)} targets met")


def _to_json(results: dict[str, list[Result]]) -> dict[str, Any]:
    rows = {name: [result.to_json() for result in group] for name, group in results.items()}
    machine = {"platform": platform.platform(), "python": platform.python_version()}
    return {"machine": machine, "groups": rows}


if __name__ == "__main__":
    sys.exit(main())

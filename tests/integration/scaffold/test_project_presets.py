"""What `scaffold new` writes trains, on its own rows and on those of a dataset that is added."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.utils.dynamic_import import import_from_string
from areal.workflow.rlvr import RLVRWorkflow
from tests.integration.areal.conftest import command, environment

Scaffold = Callable[..., Any]
SHORT = ["total_train_steps=3", "evaluator.freq_steps=3", "train_dataset.batch_size=2"]


def train(project: Path, *argv: str) -> list[dict[str, Any]]:
    """Trains in a project, and returns the statistics of the steps."""
    done = subprocess.run(
        command("train", *argv, "trial_name=tried"),
        cwd=project,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (project / "runs" / "my_rl" / "tried" / "stats.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] != "start"]
    assert [row["kind"] for row in rows] == ["train"] * 3 + ["eval"]
    assert {"loss", "accuracy", "margin"} <= rows[-1]["stats"].keys()
    return [row["stats"] for row in rows[:3]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dpo", "rw"])
def test_the_configuration_of_pairs_trains_on_both_rows(
    scaffold: Scaffold, tmp_path: Path, kind: str
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    project = tmp_path / "my_rl"
    warm = ["-c", "sft.yaml", "total_train_steps=2", "train_dataset.batch_size=4"]
    subprocess.run(command("train", *warm), cwd=project, env=environment(), check=True, timeout=120)
    assert len(train(project, "-c", f"{kind}.yaml", *SHORT)) == 3

    source = tmp_path / "sums.jsonl"
    sums = [{"prompt": f"{i}+{i}=", "chosen": f"{2 * i}", "rejected": "?"} for i in range(8)]
    source.write_text("".join(json.dumps(row) + "\n" for row in sums))
    added = scaffold(project, "add-dataset", "sums", "--type", kind, "--from", str(source))
    assert added.status == 0, added.text
    config = yaml.safe_load((project / f"{kind}.yaml").read_text())
    for section in ("train_dataset", "valid_dataset"):
        own = {"path": str(source), "dataset_kwargs": {"name": "my_rl.dataset.sums"}}
        config[section].update(own)
    (project / "own.yaml").write_text(yaml.safe_dump(config))
    steps = train(project, "-c", "own.yaml", *SHORT, "recover.mode=disabled")
    assert steps[0][f"{kind}/n_pairs"] == 2


def test_the_script_of_a_new_project_needs_no_more_than_areal_has(
    scaffold: Scaffold, tmp_path: Path
) -> None:
    # AReaL's classes have no block run, and it knows no names of workflows.
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    script = tmp_path / "my_rl" / "train.py"
    public = {
        "areal": {"PPOTrainer"},
        "areal.api.cli_args": {"GRPOConfig", "load_expr_config"},
        "areal.dataset": {"get_custom_dataset"},
        "areal.utils.hf_utils": {"load_hf_tokenizer"},
    }
    froms = [node for node in ast.walk(ast.parse(script.read_text())) if hasattr(node, "module")]
    taken = {node.module: {each.name for each in node.names} for node in froms}
    assert {name: names for name, names in taken.items() if name.startswith("areal")} == public

    read_run = runpy.run_path(str(script), run_name="imported")["read_run"]
    argv = ["--config", str(script.parent / "grpo.yaml"), "run.reward_fn=a.b"]
    config, path = load_expr_config(argv, GRPOConfig)
    assert read_run(config, path)["reward_fn"] == "a.b"
    found = read_run(object(), path)
    assert found["reward_fn"] == "arithmetic"
    assert import_from_string(found["workflow"]) is RLVRWorkflow


@pytest.mark.slow
def test_the_script_of_a_new_project_trains_and_evaluates(
    scaffold: Scaffold, tmp_path: Path
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    project = tmp_path / "my_rl"
    warm = ["-c", "sft.yaml", "total_train_steps=2", "train_dataset.batch_size=4"]
    subprocess.run(command("train", *warm), cwd=project, env=environment(), check=True, timeout=120)
    argv = ["train.py", "--config", "grpo.yaml", "total_train_steps=2", "evaluator.freq_steps=2"]
    subprocess.run([sys.executable, *argv], cwd=project, env=environment(), check=True, timeout=120)
    lines = (project / "runs" / "my_rl" / "grpo" / "stats.jsonl").read_text().splitlines()
    assert [row["kind"] for row in map(json.loads, lines)] == ["start", "train", "train", "eval"]

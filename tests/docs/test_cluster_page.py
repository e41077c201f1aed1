"""Do the commands and the code of the page on clusters run as they stand?"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from areal.api import FinetuneSpec, WeightUpdateMeta
from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.workflow.rlvr import RLVRWorkflow
from tests.docs.test_claims import blocks_and_prose
from tests.fakes import tiny_tokenizer
from tests.integration.areal.conftest import command, environment
from tests.scheduler_kinds import ray_cluster, slurm_programs
from tests.tiny_models import tiny_model
from tests.tiny_runs import MODEL, get_digits_rl_dataset, rl_yaml, train_stats

PAGE = Path(__file__).parents[2] / "docs" / "en" / "cluster.md"
BLOCKS, _ = blocks_and_prose(PAGE.read_text(encoding="utf-8"))
COMMANDS = [
    line
    for block in BLOCKS
    if block.language == "bash"
    for line in block.text.splitlines()
    if line.startswith("areal ")
]
# As the page says of small machines.
SMALL = [f"{section}.scheduling_spec=[{{cpu: 1, mem: 1}}]" for section in ("actor", "rollout")]


def kind_of(line: str) -> str:
    return line.partition("scheduler.type=")[2] or "local"


def marked(line: str) -> Any:
    is_ray = kind_of(line) == "ray"
    return pytest.param(line, marks=pytest.mark.slow if is_ray else pytest.mark.heavy)


def test_the_page_has_a_command_for_each_scheduler() -> None:
    assert {kind_of(line) for line in COMMANDS} == {"local", "ray", "slurm"}


@pytest.mark.parametrize("line", [marked(line) for line in dict.fromkeys(COMMANDS)])
def test_a_command_trains(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    model = {**MODEL, "num_key_value_heads": 2}
    rl_yaml(folder, run={"model": model}).rename(folder / "grpo.yaml")
    with contextlib.ExitStack() as stack:
        if kind_of(line) == "slurm":
            stack.enter_context(slurm_programs(tmp_path))
        variables = environment()
        if kind_of(line) == "ray":
            variables["RAY_ADDRESS"] = stack.enter_context(ray_cluster()).address
        done = subprocess.run(
            command(*shlex.split(line)[1:], "cluster.n_gpus_per_node=1", *SMALL),
            cwd=folder,
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
    assert done.returncode == 0, done.stderr
    assert len(train_stats(folder)) == 3


@pytest.mark.heavy
def test_engines_behind_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    (block,) = (each for each in BLOCKS if "as_controller" in each.text)
    model = tmp_path / "model"
    tiny_model("qwen3").save_pretrained(model)
    tokenizer = tiny_tokenizer(MODEL["characters"])
    tokenizer.save_pretrained(model)
    path = rl_yaml(tmp_path, actor={"path": str(model), "backend": "fsdp:d1"})
    config = load_expr_config(["--config", str(path), *SMALL], GRPOConfig)[0]
    names: dict[str, Any] = {
        "config": config,
        "ft_spec": FinetuneSpec(1, 40, 4),
        "meta": WeightUpdateMeta.from_disk("e", "t", str(tmp_path)),
        "dataloader": [get_digits_rl_dataset("")[:1]],
        "workflow": RLVRWorkflow("tests.tiny_runs.sevens", config.gconfig, tokenizer),
    }
    try:
        exec(compile(block.text, PAGE, "exec"), names)  # the page's own code
        assert [len(group["rewards"]) for group in names["batch"]] == [8]
    finally:
        if "scheduler" in names:
            names["scheduler"].close()

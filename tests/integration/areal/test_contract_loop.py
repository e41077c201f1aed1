"""A training loop that was written for AReaL runs, saves and resumes here."""

from __future__ import annotations

import getpass
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from areal.utils import names
from areal.utils.name_resolve import NfsNameRecordRepository
from tests.integration.areal.conftest import ROOT, command, environment

pytestmark = pytest.mark.heavy

SCRIPT = Path(__file__).with_name("loop_for_areal.py")
CONTROLLERS = Path(__file__).with_name("controllers_for_areal.py")
TIMEOUT_S = 200


def get_numbered_dataset(path: str, split: str | None = None, **_: Any) -> list[dict[str, Any]]:
    """Returns 40 prompts, no two of them alike."""
    return [{"messages": [{"role": "user", "content": f"{i:02}="}]} for i in range(40)]


@pytest.fixture
def named_server(warm_model: Path, tmp_path: Path) -> Iterator[str]:
    """A server whose address is under the name of the trial."""
    with subprocess.Popen(
        command("serve", warm_model), env=environment(), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        repository = NfsNameRecordRepository(tmp_path / "names")
        repository.add_subentry(names.gen_servers("e", "t"), line.split()[-1])
        yield line.split()[-1].removeprefix("http://")
        repository.reset()
        server.terminate()
        server.wait(TIMEOUT_S)


def write_config(folder: Path, model: Path) -> Path:
    trial = {"experiment_name": "e", "trial_name": "t"}
    files = {**trial, "fileroot": str(folder)}
    content = {
        **trial,
        "tokenizer_path": str(model),
        "total_train_epochs": 10,
        "total_train_steps": 2,
        "cluster": {
            "fileroot": str(folder),
            "name_resolve": {"type": "nfs", "nfs_record_root": str(folder / "names")},
        },
        "rollout": {
            **trial,
            "backend": "sglang:d1",
            "consumer_batch_size": 4,
            "max_head_offpolicyness": 0,
            "setup_timeout": 60.0,
        },
        "gconfig": {"n_samples": 4, "max_new_tokens": 4},
        "actor": {
            **trial,
            "backend": "fsdp:d1",
            "path": str(model),
            "optimizer": {"lr": 0.01, "warmup_steps": 0},
            "ppo_n_minibatches": 1,
        },
        "train_dataset": {
            "path": "tests.tiny_runs.get_digits_rl_dataset",
            "type": "rl",
            "batch_size": 4,
        },
        "saver": {**files, "freq_steps": 2},
        "evaluator": {**files, "freq_steps": 2, "eval_before_train": True},
        "recover": {**files, "mode": "auto", "freq_steps": 1},
        "stats_logger": {**files, "tensorboard": {"path": str(folder / "board")}},
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    return path


def run(config: Path, *overrides: str, script: Path = SCRIPT, server: str | None = None) -> str:
    first = [] if server is None else [server]
    done = subprocess.run(
        [sys.executable, script, *first, "--config", config, *overrides],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.usefixtures("named_server")
def test_the_loop_trains_saves_and_resumes(warm_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, warm_model)
    first = run(config)
    assert "starting at step 0" in first
    assert re.findall(r"evaluating at step (\d+)", first) == ["1", "2"]
    saved = tmp_path / "checkpoints" / getpass.getuser() / "e" / "t"
    models = saved / "default"
    assert {path.name for path in models.glob("epoch*")} == {"epoch0epochstep1globalstep1"}
    assert [path.name for path in (saved / "recover_info").iterdir()] == ["step_00000002"]

    # It goes on where it was: the optimiser, the periods, and the server's weights.
    second = run(config, "total_train_steps=4")
    assert "starting at step 2" in second
    assert re.findall(r"evaluating at step (\d+)", second) == ["4"]
    assert {path.name for path in models.glob("epoch*")} == {
        "epoch0epochstep1globalstep1",
        "epoch0epochstep3globalstep3",
    }
    before, after = (
        load_file(models / name / "model.safetensors")
        for name in ("epoch0epochstep1globalstep1", "epoch0epochstep3globalstep3")
    )
    assert any(not before[name].equal(after[name]) for name in before)
    assert "epoch 1/10, step 1/10, 1/100 in all" in first
    assert "epoch 1/10, step 4/10, 4/100 in all" in second
    assert "ppo_actor/" in second
    assert list((tmp_path / "board").iterdir())


@pytest.mark.slow
def test_a_loop_over_controllers_loses_no_row(
    named_server: str, warm_model: Path, tmp_path: Path
) -> None:
    config = write_config(tmp_path, warm_model)
    overrides = [
        "rollout.max_head_offpolicyness=2",
        "rollout.max_concurrent_rollouts=12",
        f"train_dataset.path={__name__}.get_numbered_dataset",
        "actor.scheduling_spec=[{cpu: 1, mem: 1}]",
    ]

    def go(steps: int) -> str:
        words = [*overrides, f"total_train_steps={steps}"]
        return run(config, *words, script=CONTROLLERS, server=named_server)

    first = go(3)
    assert "recovers: False" in first
    assert "starting at step 0" in first
    second = go(10)
    assert "recovers: True" in second
    assert "starting at step 3" in second
    # What was under way when the first run ended is trained on by the second.
    rows = re.findall(r"row .*?(\d\d)=", first + second)
    assert sorted(rows) == [f"{i:02}" for i in range(40)]
    models = tmp_path / "checkpoints" / getpass.getuser() / "e" / "t" / "default"
    assert len(list(models.glob("epoch*"))) == 5
    assert re.findall(r"evaluating at step (\d+)", first + second) == [
        "1",
        "2",
        "4",
        "6",
        "8",
        "10",
    ]
    assert "ppo_actor/" in second

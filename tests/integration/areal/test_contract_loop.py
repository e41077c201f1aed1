"""A training loop that was written for AReaL runs, saves and resumes here."""

from __future__ import annotations

import getpass
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from areal.utils import names
from areal.utils.name_resolve import NfsNameRecordRepository
from tests.integration.areal.conftest import ROOT, command, environment

pytestmark = pytest.mark.heavy

SCRIPT = Path(__file__).with_name("loop_for_areal.py")
TIMEOUT_S = 200


@pytest.fixture
def named_server(warm_model: Path, tmp_path: Path) -> Iterator[None]:
    """A server whose address stands under the name of the trial."""
    with subprocess.Popen(
        command("serve", warm_model), env=environment(), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        repository = NfsNameRecordRepository(tmp_path / "names")
        repository.add_subentry(names.gen_servers("e", "t"), line.split()[-1])
        yield
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


def run(config: Path, *overrides: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--config", config, *overrides],
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

"""`areal train` as a person runs it: the whole way, wrong input, a kill, the same command again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from areal.trainer.cli import main
from tests.integration.areal.conftest import Areal, command, environment
from tests.tiny_archon import BACKENDS
from tests.tiny_runs import rl_yaml, train_stats

# What a user keeps in the working folder; the reward also writes down what it was asked.
OWN_MODULE = '''
from areal.api.reward_api import inline_reward


def get_own_rl_dataset(path, split=None, tokenizer=None, max_length=None):
    return [
        {"row": i, "messages": [{"role": "user", "content": f"{i % 10}="}]} for i in range(10)
    ]


@inline_reward
def sevens(prompt, completions, prompt_ids, completion_ids, row, **kwargs):
    with open("asked.txt", "a") as file:
        file.write(f"{row}\\n")
    return completions.count("7") / 4


def log_rows(batch, path):
    """A stand-in for a lambda of one's own: it sees every batch that is trained on."""
    with open(path, "a") as file:
        file.write(f"{int(batch['versions'].max())} {batch['row'].tolist()}\\n")
    return 1.0


from areal.workflow.rlvr import RLVRWorkflow


class OwnWorkflow(RLVRWorkflow):
    async def arun_episode(self, engine, data):
        import torch

        trajectory = await super().arun_episode(engine, data)
        return trajectory and trajectory | {"row": torch.tensor([data["row"]])}
'''


def own_run(folder: Path, model: Path, backend: str = "fsdp:d1", **sections: Any) -> Path:
    """Writes a user's module and the configuration of a deterministic run that uses it."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(textwrap.dedent(OWN_MODULE))
    merged = {
        "run": {"algorithm": "grpo", "workflow": "own.OwnWorkflow", "reward_fn": "own.sevens"},
        "actor": {
            "backend": backend,
            "path": str(model),
            "optimizer": {"lr": 0.003, "lr_scheduler_type": "cosine", "warmup_steps": 2},
            "gae_lambda": "own.log_rows",
            "gae_lambda_kwargs": {"path": str(folder / "trained.txt")},
        },
        "train_dataset": {"path": "own.get_own_rl_dataset", "type": "rl", "batch_size": 4},
        "rollout": {"deterministic_sampling": True},
        "recover": {"freq_steps": 2},
        "total_train_steps": 12,
    }
    path = rl_yaml(folder, **merged | sections)
    content = json.loads(path.read_text())
    content["run"].pop("model")
    path.write_text(json.dumps(content))
    return path


def trained_rows(folder: Path) -> dict[int, list[int]]:
    """Returns the rows of each step; of a step that was done again, those of the last time."""
    lines = (folder / "trained.txt").read_text().splitlines()
    return {int(version): json.loads(rows) for version, rows in (x.split(" ", 1) for x in lines)}


# The other backend trains by the same command in test_torchrun, on two processes.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(BACKENDS[0], marks=pytest.mark.heavy),
        *(pytest.param(each, marks=pytest.mark.slow) for each in BACKENDS[1:]),
    ],
)
def backend(request: pytest.FixtureRequest) -> str:
    """The backend of the whole run and of those that are killed."""
    return request.param


@pytest.fixture(scope="module")
def whole_run(
    areal: Areal, warm_model: Path, backend: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """Runs from the first step to the last without a break; returns the folder and what it said."""
    folder = tmp_path_factory.mktemp("whole")
    own_run(folder, warm_model, backend)
    done = areal("train", "-c", "config.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def test_a_run_learns_and_leaves_everything_behind(whole_run: tuple[Path, str]) -> None:
    folder, said = whole_run
    assert "Traceback" not in said
    assert "step 12/12" in said
    run = folder / "e" / "t"
    for name in ("report.html", "reward.png", "stats.jsonl", "episodes.jsonl", "config.yaml"):
        assert (run / name).stat().st_size > 0
    assert (run / "model" / "tokenizer.json").is_file()
    rewards = [stats["reward"] for stats in train_stats(folder)]
    assert sum(rewards[-3:]) > sum(rewards[:3])
    # The reward of the working folder saw every row of its dataset.
    assert set((folder / "asked.txt").read_text().split()) == {str(i) for i in range(10)}


def kill_during(argv: list[str], folder: Path, step: int) -> None:
    """Starts a command and kills it, without a chance to clean up, once it has done a step."""
    stats = folder / "e" / "t" / "stats.jsonl"
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if stats.exists() and f'"step": {step}' in stats.read_text():
            break
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"


def check_killed_run(
    areal: Areal, model: Path, backend: str, folder: Path, whole: Path, steps: list[int]
) -> None:
    own_run(folder, model, backend)
    for step in steps:
        kill_during(command("train", "-c", "config.yaml"), folder, step)
    done = areal("train", "-c", "config.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "resuming from step" in done.stderr
    expected, found = train_stats(whole), train_stats(folder)
    assert len(found) == len(expected) == 12
    for name in ("loss", "reward", "grad_norm", "lr", "logp_abs_diff", "n_gen_tokens"):
        assert [s[name] for s in found] == [s[name] for s in expected]
    assert trained_rows(folder) == trained_rows(whole)
    models = [(f / "e/t/model/model.safetensors").read_bytes() for f in (whole, folder)]
    assert models[0] == models[1]
    assert sorted(path.name for path in (folder / "e/t/recover").iterdir()) == ["step_00000012"]
    assert not list((folder / "e" / "t").glob(".*"))


# In every run test_torchrun kills a process and goes on by the same command, and the unit tests of
# recovery compare what an interrupted run has trained bit for bit.
@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    areal: Areal, warm_model: Path, backend: str, whole_run: tuple[Path, str], tmp_path: Path
) -> None:
    check_killed_run(areal, warm_model, backend, tmp_path, whole_run[0], [5])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_survives_kills_at_random_steps(
    areal: Areal,
    warm_model: Path,
    backend: str,
    whole_run: tuple[Path, str],
    tmp_path: Path,
    seed: int,
) -> None:
    steps = sorted(random.Random(seed).sample(range(2, 12), 3))
    check_killed_run(areal, warm_model, backend, tmp_path, whole_run[0], steps)


def test_wrong_input_is_one_line_and_status_1(tmp_path: Path) -> None:
    words = ["train", "-c", str(rl_yaml(tmp_path)), "actor.optimiser.lr=1"]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "actor.optimizer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_a_run_that_is_asked_to_stop_leaves_a_checkpoint_of_its_last_step(
    areal: Areal, number: signal.Signals, status: int, warm_model: Path, tmp_path: Path
) -> None:
    own_run(tmp_path, warm_model, total_train_steps=100000, total_train_epochs=10**6)
    process = subprocess.Popen(
        command("train", "-c", "config.yaml"),
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = tmp_path / "e" / "t"
    stats = folder / "stats.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (stats.exists() and '"train"' in stats.read_text()):
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    assert "the same command resumes" in errors
    assert (folder / "report.html").is_file()
    run_id = json.loads((folder / "run.json").read_text())["run_id"]
    assert f"fresh run {run_id}" in errors
    steps = len(train_stats(tmp_path))
    again = areal("train", "-c", "config.yaml", f"total_train_steps={steps + 1}", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"resuming from step {steps} of run {run_id}" in again.stderr


def test_help_is_quick_and_says_how(areal: Areal, tmp_path: Path) -> None:
    done = areal("train", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--config" in done.stdout
    nothing = areal("train", cwd=tmp_path)
    assert nothing.returncode == 2
    assert "--config" in nothing.stderr


def test_a_prompt_is_answered_by_a_checkpoint_or_by_a_run(
    warm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warm_model.parents[2])

    def answers(model: Path, *options: str) -> list[str]:
        done = CliRunner().invoke(main, ["generate", str(model), "12=", *options])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    options = ("--max-new-tokens", "4", "--seed", "3", "--samples", "6")
    first = answers(warm_model, *options)
    assert first == answers(warm_model, *options)
    # A seed fixes what is drawn, and every answer is drawn by itself.
    assert len(first) == 6
    assert len(set(first)) > 1
    assert len(set(answers(warm_model, "--temperature", "0", "--samples", "2"))) == 1
    run = tmp_path / "run.yaml"
    shutil.copy(warm_model.parent / "config.yaml", run)
    assert answers(run, *options) == first
    assert answers(warm_model.parent, *options) == first, "the folder of the run"
    empty = CliRunner().invoke(main, ["generate", str(tmp_path), "1 2"])
    assert empty.stderr.endswith("neither a model nor a checkpoint yet; train first\n")
    nothing = CliRunner().invoke(main, ["generate", str(tmp_path / "nowhere"), "1 2"])
    assert nothing.exit_code == 1
    assert nothing.stderr.startswith("error: ")

"""Supervised training on two processes, started by torchrun, beside the same file on one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from areal.api.cli_args import SFTConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.trainer.sft import SFTTrainer
from tests.integration.areal.conftest import environment
from tests.tiny_runs import MODEL, sft_yaml, train_stats

STEPS = 4
# Heads that two processes can share.
SIZES = {**MODEL, "num_hidden_layers": 2, "num_key_value_heads": 2}
SIZES["tie_word_embeddings"] = False  # the ends of a pipeline have one of them each
SECTIONS = {"run": {"model": SIZES}, "recover": {"freq_steps": 2}}
# Dies in one process after its third step, a step after the checkpoint.
DYING = """
import os

from areal.trainer.cli import main
from areal.trainer.sft import SFTTrainer

train_step = SFTTrainer._train_step


def dying_step(self):
    if self.step == 3 and os.environ["RANK"] == "1":
        os._exit(9)
    return train_step(self)


SFTTrainer._train_step = dying_step
main()
"""

PLAIN = "from areal.trainer.cli import main; main()"
# GPT-2 has dropout, of which the attention's is not available here.
DROPPING = """
from areal.engine.training import engine

made = engine.make_model


def without_attention_dropout(*args):
    model = made(*args)
    for module in model.modules():
        if hasattr(module, "attn_dropout"):
            module.attn_dropout.p = 0.0
    return model


engine.make_model = without_attention_dropout
"""


def write(folder: Path) -> Path:
    return sft_yaml(folder, total_train_steps=STEPS, **SECTIONS)


def on_two(
    folder: Path, backend: str, program: tuple[str, ...] = ("-m", "areal.trainer.cli")
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", *program, "train", "-c", "config.yaml"]
    return subprocess.run(
        [*command, f"actor.backend={backend}"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.fixture(scope="module")
def on_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_on_one(tmp_path_factory.mktemp("one"), "archon:d1")


def run_on_one(folder: Path, backend: str) -> Path:
    argv = ["--config", str(write(folder)), f"actor.backend={backend}"]
    with SFTTrainer(load_expr_config(argv, SFTConfig)[0]) as trainer:
        trainer.train()
    return folder


def check_same(found: Path, expected: Path) -> None:
    """Checks that statistics and weights differ by the order of sums alone."""
    for name in ("loss", "grad_norm", "n_tokens", "lr"):
        one, two = ([stats[name] for stats in train_stats(folder)] for folder in (expected, found))
        assert two == pytest.approx(one, rel=1e-4), name
    weights = [load_file(folder / "e/t/model/model.safetensors") for folder in (found, expected)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        # AdamW divides by the root of what may be rounding alone.
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-3, atol=2e-4)


@pytest.mark.slow  # test_launch kills ranks too
def test_a_run_on_two_processes_trains_as_on_one_and_survives_a_death(
    tmp_path: Path, on_one: Path
) -> None:
    write(tmp_path)
    (tmp_path / "dying.py").write_text(DYING)
    died = on_two(tmp_path, "archon:d2", ("dying.py",))
    assert died.returncode != 0
    assert not (tmp_path / "e/t/model").exists()
    done = on_two(tmp_path, "archon:d2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("run completed") == 1  # one process speaks
    assert "resuming from step 2" in done.stderr
    check_same(tmp_path, on_one)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["archon:t2", "archon:c2", "archon:p2"])
def test_two_processes_that_share_rows_train_as_one(
    tmp_path: Path, on_one: Path, backend: str
) -> None:
    write(tmp_path)
    done = on_two(tmp_path, backend)
    assert done.returncode == 0, done.stderr[-3000:]
    check_same(tmp_path, on_one)


@pytest.mark.slow
def test_a_hugging_face_model_trains_on_two_processes_as_on_one(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    write(folder)
    done = on_two(folder, "fsdp:d2")
    assert done.returncode == 0, done.stderr[-3000:]
    one = tmp_path / "one"
    one.mkdir()
    check_same(folder, run_on_one(one, "fsdp:d1"))


@pytest.mark.slow
def test_dropout_goes_on_bit_for_bit_in_each_process(tmp_path: Path) -> None:
    # Processes see other rows, draw other numbers of random ones, and drift apart.
    folders = tmp_path / "whole", tmp_path / "killed"
    sizes = {**SIZES, "architecture": "gpt2"}
    for folder in folders:
        path = sft_yaml(
            folder, total_train_steps=STEPS, run={"model": sizes}, recover={"freq_steps": 2}
        )
        path.write_text(path.read_text().replace('"batch_size": 4', '"batch_size": 36'))
        (folder / "dropping.py").write_text(f"{DROPPING}\n{PLAIN}")
        (folder / "dying.py").write_text(f"{DROPPING}\n{DYING}")
    whole = on_two(folders[0], "fsdp:d2", ("dropping.py",))
    assert whole.returncode == 0, whole.stderr[-3000:]
    assert on_two(folders[1], "fsdp:d2", ("dying.py",)).returncode != 0
    (checkpoint,) = (folders[1] / "e/t/recover").iterdir()
    streams = [
        each["torch"] for each in torch.load(checkpoint / "state.pt", weights_only=False)["random"]
    ]
    assert not torch.equal(*streams)
    done = on_two(folders[1], "fsdp:d2", ("dropping.py",))
    assert "resuming from step 2" in done.stderr, done.stderr[-3000:]
    losses = [[stats["loss"] for stats in train_stats(folder)] for folder in folders]
    assert losses[0] == losses[1]
    models = [(folder / "e/t/model/model.safetensors").read_bytes() for folder in folders]
    assert models[0] == models[1]


def test_a_run_that_was_not_started_by_torchrun_says_how(tmp_path: Path) -> None:
    argv = ["--config", str(write(tmp_path)), "actor.backend=archon:d2t2"]
    with pytest.raises(ConfigError, match=r"4 processes and 1 runs.*torchrun --nproc-per-node 4"):
        SFTTrainer(load_expr_config(argv, SFTConfig)[0])

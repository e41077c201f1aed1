"""A configuration made for a cluster is refused with all its obstacles, and what fits instead."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from areal.api.cli_args import PPOConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.infra.launch import SERVERS_VARIABLE
from areal.trainer.fit import refuse_misfit
from areal.trainer.ppo.checks import check_ppo_config
from areal.trainer.run import run_training
from tests.tiny_runs import rl_yaml

YAMLS = Path(__file__).parents[1] / "api" / "config" / "yamls"


def obstacles(*argv: str) -> tuple[list[str], list[str]]:
    """Returns the lines of the refusal, and the words of the command that it offers."""
    with pytest.raises(ConfigError) as caught:
        run_training(argv)
    *lines, command = str(caught.value).splitlines()
    head, _, words = command.partition(": ")
    assert head == "fit to this machine"
    return lines, shlex.split(words)


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVERS_VARIABLE, raising=False)


def test_every_obstacle_is_named_at_once_and_the_command_has_none() -> None:
    lines, words = obstacles(
        "--config",
        str(YAMLS / "gsm8k_grpo.yaml"),
        "actor.backend=megatron:d4",
        "actor.optimizer_dtype=bfloat16",
        "post_exit_hook=ls",
        "seed=7",
    )
    keys = [line.split()[0] for line in lines]
    assert keys == [
        "post_exit_hook",
        "actor.optimizer_dtype",
        "rollout.backend",
        "run.reward_fn",
        "actor.backend",
        "ref.backend",
    ]
    assert words[:2] == ["areal", "train"]
    assert {"seed=7", "rollout.backend=local:d1", "run.reward_fn=gsm8k"} <= set(words)
    # Nothing is left to refuse, and nothing is said twice.
    config, _ = load_expr_config(words[2:], PPOConfig)
    refuse_misfit(config, words[2:])
    assert len({word.partition("=")[0] for word in words}) == len(words)


def test_a_script_gets_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["--config", str(YAMLS / "gsm8k_grpo.yaml"), "actor.optimizer_dtype=bfloat16"]
    monkeypatch.setattr(sys, "argv", ["train.py", *argv])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with pytest.raises(ConfigError) as caught:
        check_ppo_config(load_expr_config(argv, PPOConfig)[0])
    *lines, command = str(caught.value).splitlines()
    # The script itself names the reward.
    assert [line.split()[0] for line in lines] == ["actor.optimizer_dtype", "rollout.backend"]
    assert command.startswith("fit to this machine: python train.py --config ")
    assert "rollout.backend=local:d1" in command


def test_a_reward_that_is_not_registered_is_for_the_user_to_name(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, run={"reward_fn": ""}, actor={"optimizer_dtype": "bfloat16"})
    lines, words = obstacles("--config", str(path))
    assert "run.reward_fn is empty" in lines[1]
    assert words[4:] == ["actor.optimizer_dtype=float32"]


def test_named_servers_are_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVERS_VARIABLE, "127.0.0.1:9")
    argv = ["--config", str(rl_yaml(tmp_path)), "rollout.backend=vllm:d2"]
    refuse_misfit(load_expr_config(argv, PPOConfig)[0], argv)

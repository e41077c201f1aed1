"""Whether a configuration suits this machine, and the overrides with which it does."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import BaseExperimentConfig, PPOConfig
from areal.api.config.field_check import refusals
from areal.api.errors import ConfigError
from areal.engine.training.backends import TRAIN_ENGINES
from areal.infra.launch import is_launched
from areal.infra.platforms import current_platform
from areal.reward import REWARDS
from areal.trainer.launching import missing_servers, script_program
from areal.workflow import WORKFLOWS

_COMMAND = ("areal", "train")


def refuse_misfit_of_script(config: BaseExperimentConfig) -> None:
    """Refuse what cannot run here, as ``refuse_misfit`` does, in a script that begins a run."""
    program = script_program()
    if program and not is_launched():
        refuse_misfit(config, sys.argv[1:], ["python", *program])


def refuse_misfit(
    config: BaseExperimentConfig, argv: Sequence[str], program: Sequence[str] = _COMMAND
) -> None:
    """Refuse a configuration that cannot run here, and offer what would make it.

    Args:
        config: Of the run.
        argv: Where it came from: ``--config FILE key=value ...``.
        program: What takes them; a script names the reward itself.

    Raises:
        ConfigError: It names every obstacle at once, and a command that runs on this machine.
    """
    obstacles: list[str] = []
    overrides: dict[str, Any] = {}
    for refusal in refusals(config):
        obstacles.append(refusal.message)
        if not dataclasses.is_dataclass(refusal.default):
            overrides[refusal.key] = refusal.default
    if isinstance(config, PPOConfig):
        if (trouble := missing_servers(config)) is not None:
            obstacles.append(trouble)
            overrides["rollout.backend"] = "local:d1"
        if program == _COMMAND and _lacks_reward(config):
            obstacles.append(
                f"run.reward_fn is empty and run.workflow {config.run.workflow} needs a reward: a "
                "registered name or an import path"
            )
            # Data sets and their rewards are registered under one name.
            name = PurePosixPath(config.train_dataset.path).name
            if name in REWARDS:
                overrides["run.reward_fn"] = name
    num_devices = current_platform.device_count()
    for name in ("actor", "ref", "critic"):
        section = getattr(config, name, None)
        if section is None or name in overrides:
            continue
        allocation = ModelAllocation.from_str(section.backend)
        kind = allocation.backend
        if kind not in TRAIN_ENGINES:
            known = " or ".join(sorted(TRAIN_ENGINES))
            obstacles.append(
                f"{name}.backend {section.backend!r} has no train engine here; use {known}"
            )
            kind = "fsdp"
        if kind != allocation.backend or allocation.parallel.world_size > num_devices:
            overrides[f"{name}.backend"] = f"{kind}:d1"
    if not obstacles:
        return
    words = [*program, *(word for word in argv if word.partition("=")[0] not in overrides)]
    words += [f"{key}={_text(value)}" for key, value in overrides.items()]
    raise ConfigError("\n".join([*obstacles, f"fit to this machine: {shlex.join(words)}"]))


def _lacks_reward(config: PPOConfig) -> bool:
    run = config.run
    is_online = config.rollout.agent.mode == "online"
    return (
        run.workflow in WORKFLOWS
        and not is_online
        and not (run.reward_fn or run.workflow_kwargs.get("reward_fn"))
    )


def _text(value: Any) -> str:
    """Return a value as it is written behind a configuration file."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()

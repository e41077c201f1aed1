"""From a configuration file to a finished run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    BaseExperimentConfig,
    PPOConfig,
    SFTConfig,
    choose_config_class,
    load_expr_config,
)
from areal.api.errors import ConfigError
from areal.infra.launch import PORT, SERVERS_VARIABLE, Launcher, LaunchPlan, is_launched
from areal.infra.managed_process import PARENT_VARIABLE
from areal.trainer.report import ReportPaths
from areal.trainer.runtime import FolderLock, run_folder, uses_servers


def run_training(argv: Sequence[str]) -> ReportPaths | None:
    """Run the training of ``--config FILE key=value ...`` to its end.

    A configuration that needs servers or several processes has them started by this one, unless
    this one was started so itself.

    Returns:
        Where the report lies; None where other processes wrote it.

    Raises:
        ConfigError: The configuration is wrong, or needs a trainer that does not exist.
        KeyboardInterrupt: Ctrl-C ended the processes that were started.
        SystemExit: They failed.
    """
    kind = choose_config_class(argv)
    if not issubclass(kind, (PPOConfig, SFTConfig)):
        raise ConfigError(
            f"train_dataset.type asks for a {kind.__name__}, which has no trainer yet; sft and rl "
            "have"
        )
    config = load_expr_config(argv, kind)[0]
    plan = launch_plan(config, argv)
    if plan is not None:
        check_config(config)
        # Before anything is started; the first rank takes the lock for good.
        FolderLock(run_folder(config)).release()
        code = Launcher(plan).run()
        if code == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        if code:
            raise SystemExit(code)
        return None
    _settle_in(config)
    if isinstance(config, PPOConfig):
        from areal.trainer.ppo import PPOTrainer

        with PPOTrainer(config) as rl_trainer:
            rl_trainer.train()
        return rl_trainer.report
    from areal.trainer.sft import SFTTrainer

    with SFTTrainer(config) as sft_trainer:
        sft_trainer.train()
    return sft_trainer.report


def check_config(config: BaseExperimentConfig) -> None:
    """Refuse here, once, what every process of the run would refuse."""
    if isinstance(config, PPOConfig):
        from areal.trainer.ppo.checks import check_ppo_config

        check_ppo_config(config)
    else:
        from areal.trainer.base import check_actor

        check_actor(config)


def launch_plan(config: BaseExperimentConfig, argv: Sequence[str]) -> LaunchPlan | None:
    """Return what has to be started for a run; None where this process is enough.

    Args:
        config: Of the run.
        argv: Where it came from, which servers and ranks read again.
    """
    if is_launched():
        return None
    num_ranks = ModelAllocation.from_str(config.actor.backend).world_size
    servers: list[list[str]] = []
    if isinstance(config, PPOConfig) and uses_servers(config):
        servers = [] if os.environ.get(SERVERS_VARIABLE) else _server_commands(config, argv)
    if num_ranks == 1 and not servers:
        return None
    return LaunchPlan(
        servers, list(argv), num_ranks, config.recover.retries, run_folder(config) / "logs"
    )


def _server_commands(config: PPOConfig, argv: Sequence[str]) -> list[list[str]]:
    allocation = ModelAllocation.from_str(config.rollout.backend)
    if allocation.backend != "local":
        raise ConfigError(
            f"rollout.backend {config.rollout.backend!r}: name the servers that run already in "
            f"{SERVERS_VARIABLE}, as host:port separated by commas"
        )
    command = [sys.executable, "-m", "areal.trainer.cli", "serve", "--port", PORT, *argv]
    return [command] * allocation.parallel.dp_size


def _settle_in(config: BaseExperimentConfig) -> None:
    """Make a process that was started for a run end with it, and leave the console to the first."""
    if PARENT_VARIABLE not in os.environ:
        return
    from areal.api.reward_pool.worker import die_with

    die_with(int(os.environ[PARENT_VARIABLE]))
    # The agent's way to end a rank; the report is still written.
    signal.signal(signal.SIGTERM, _interrupt_once)
    rank = int(os.environ.get("RANK", "0"))
    if rank:
        folder = run_folder(config) / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)


def _interrupt_once(*_: object) -> None:
    # A second one would cut off what the first has begun.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt

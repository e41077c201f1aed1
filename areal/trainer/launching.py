"""Whether a run needs more processes than this one, and what each of them is started as."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    BaseExperimentConfig,
    NameResolveConfig,
    PPOConfig,
    SchedulingSpec,
    save_config,
)
from areal.api.config.field_check import without_own_fields
from areal.api.errors import ArealError, ConfigError
from areal.api.registry import import_from_string
from areal.infra.launch import (
    NAMES_VARIABLE,
    PORT,
    SERVERS_VARIABLE,
    Launcher,
    LaunchPlan,
    is_launched,
    report_to_launcher,
)
from areal.infra.managed_process import PARENT_VARIABLE
from areal.trainer.runtime import FolderLock, retire_earlier, run_folder, uses_servers
from areal.utils import name_resolve, names

# The configuration of the servers, in the folder of logs.
_SERVED = "served.yaml"


def launch(
    config: BaseExperimentConfig,
    command: Sequence[str],
    check: Callable[[BaseExperimentConfig], None] | None = None,
) -> bool:
    """Start what a run needs beside this process, wait for its end, and return whether it did.

    Args:
        config: Of the run.
        command: Starts the training, for torchrun: a script or ``-m MODULE``, and its arguments.
        check: Refuses, here and once, what every process of the run would refuse.

    Raises:
        ConfigError: The configuration is wrong.
        KeyboardInterrupt: Ctrl-C ended the processes that were started.
        SystemExit: They failed.
    """
    if is_launched():
        return False
    is_cluster = config.scheduler.type in ("ray", "slurm")
    num_ranks = ModelAllocation.from_str(config.actor.backend).world_size
    logs = run_folder(config) / "logs"
    servers: list[list[str]] = []
    if isinstance(config, PPOConfig) and uses_servers(config):
        servers = [] if os.environ.get(SERVERS_VARIABLE) else _server_commands(config, logs)
    if num_ranks == 1 and not servers and not is_cluster:
        return False
    if check is not None:
        check(config)
    retire_earlier(config)
    # Before anything is started; the first rank takes the lock for good.
    FolderLock(run_folder(config)).release()
    if servers:
        save_config(without_own_fields(config), logs / _SERVED)
    plan = LaunchPlan(servers, list(command), num_ranks, config.recover.retries, logs)
    code = (_cluster_launcher(config, plan) if is_cluster else Launcher(plan)).run()
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise SystemExit(code)
    return True


def _cluster_launcher(config: BaseExperimentConfig, plan: LaunchPlan) -> Launcher:
    # What talks to schedulers is no part of a run on one machine.
    from areal.infra.cluster_launch import ClusterLauncher
    from areal.infra.scheduler import SCHEDULERS

    def make_scheduler() -> Any:
        return import_from_string(SCHEDULERS[config.scheduler.type or "local"])(
            n_gpus_per_node=config.cluster.n_gpus_per_node,
            log_dir=plan.log_folder,
            exp_config=config,
        )

    def first(section: Any) -> SchedulingSpec:
        specs = section.scheduling_spec
        return specs[0] if specs else SchedulingSpec()

    rank_spec = first(config.actor)
    server_spec = first(config.rollout) if isinstance(config, PPOConfig) else rank_spec
    name = names.gen_servers(config.experiment_name, config.trial_name)
    return ClusterLauncher(plan, make_scheduler, server_spec, rank_spec, name)


def script_program() -> list[str]:
    """Return what starts a training script that was started with ``--config``; [] of others."""
    main = sys.modules["__main__"]
    has_config = any(word.partition("=")[0] == "--config" for word in sys.argv[1:])
    if not (getattr(main, "__file__", None) and has_config):
        return []
    spec = getattr(main, "__spec__", None)
    return ["-m", spec.name] if spec else [sys.argv[0]]


def launch_script(config: BaseExperimentConfig) -> None:
    """Have a training script run in as many processes as its configuration needs.

    Only for a script that was started with ``--config``: it can be started again in the same way.

    Raises:
        SystemExit: The processes that were started have ended, and so has the script's work.
    """
    program = script_program()
    if program and launch(config, [*program, *sys.argv[1:]]):
        raise SystemExit(0)
    _settle_in(config)


def _settle_in(config: BaseExperimentConfig) -> None:
    """Make a process that was started for a run end with it, and leave the console to the first."""
    if PARENT_VARIABLE not in os.environ:
        return
    from areal.api.reward_pool.worker import die_with

    die_with(int(os.environ[PARENT_VARIABLE]))
    if folder := os.environ.get(NAMES_VARIABLE):
        name_resolve.reconfigure(NameResolveConfig(type="nfs", nfs_record_root=folder))
    sys.excepthook = _report
    # The agent's way to end a rank; the report is still written.
    signal.signal(signal.SIGTERM, _interrupt_once)
    rank = int(os.environ.get("RANK", "0"))
    if rank:
        folder = run_folder(config) / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)


def missing_servers(config: PPOConfig) -> str | None:
    """Return what is wrong where ``rollout.backend`` takes servers that nobody has named."""
    backend = config.rollout.backend
    is_local = ModelAllocation.from_str(backend).backend == "local"
    if is_local or os.environ.get(SERVERS_VARIABLE):
        return None
    return (
        f"rollout.backend {backend!r}: name the servers that run already in {SERVERS_VARIABLE}, "
        "as host:port separated by commas"
    )


def _server_commands(config: PPOConfig, logs: Path) -> list[list[str]]:
    if (trouble := missing_servers(config)) is not None:
        raise ConfigError(trouble)
    count = ModelAllocation.from_str(config.rollout.backend).parallel.dp_size
    command = [sys.executable, "-m", "areal.trainer.cli", "serve"]
    # Of several machines each has free ports of its own.
    is_cluster = config.scheduler.type in ("ray", "slurm")
    place = ["--host", "0.0.0.0"] if is_cluster else ["--port", PORT]
    return [[*command, *place, "--config", str((logs / _SERVED).absolute())]] * count


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Leave an error that would come back after a restart to the launcher."""
    if not isinstance(error, ArealError) or not report_to_launcher(error):
        sys.__excepthook__(kind, error, trace)


def _interrupt_once(*_: object) -> None:
    # A second one would cut off what the first has begun.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt

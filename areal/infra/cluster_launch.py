"""Starts all that a run needs on several machines, by a scheduler.

Processes name their addresses in a folder of the run, which all machines see. A server that dies
is started again, wherever there is room, and joins under its name; an agent whose node is gone is
started elsewhere, and its ranks go on from the last checkpoint.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from areal.api.cli_args import SchedulingSpec
from areal.infra.launch import (
    KEY_VARIABLE,
    NAME_VARIABLE,
    NAMES_VARIABLE,
    Launcher,
    LaunchPlan,
    ranks_command,
)
from areal.infra.managed_process import Process
from areal.infra.scheduler.base import Command, CommandScheduler, worker_environment

logger = logging.getLogger("Launcher")


class ClusterLauncher(Launcher):
    """Runs a plan to its end, by a scheduler.

    Args:
        plan: What to start.
        make_scheduler: Returns who starts it; it is closed with the run.
        server_spec: Resources of a server.
        rank_spec: Resources of a rank.
        servers_name: Below which the servers name their addresses.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        make_scheduler: Callable[[], CommandScheduler],
        server_spec: SchedulingSpec,
        rank_spec: SchedulingSpec,
        servers_name: str,
    ) -> None:
        super().__init__(plan)
        self._make_scheduler = make_scheduler
        self._server_spec, self._rank_spec = server_spec, rank_spec
        self._servers_name = servers_name
        self._scheduler: CommandScheduler | None = None
        self._shown: dict[Path, int] = {}  # of each agent's log, the bytes on the console

    def _start(self) -> None:
        scheduler = self._scheduler = self._make_scheduler()
        self._take_signals()  # Ray has taken them, and would abort
        plan = self._plan
        environment = self._environment() | {
            KEY_VARIABLE: scheduler.key,
            NAMES_VARIABLE: str(scheduler.names_root),
        }
        servers = [
            self._command(
                f"server-{i}",
                command,
                {**environment, NAME_VARIABLE: f"{self._servers_name}/{i}"},
                self._server_spec,
            )
            for i, command in enumerate(plan.server_commands)
        ]
        if not servers:
            del environment[NAMES_VARIABLE]  # there is nobody to wait for
        per_agent = _even_part(plan.num_ranks, max(1, scheduler.n_gpus_per_node))
        num_agents = plan.num_ranks // per_agent
        spec = self._rank_spec
        spec = dataclasses.replace(
            spec, cpu=spec.cpu * per_agent, gpu=spec.gpu * per_agent, mem=spec.mem * per_agent
        )
        argv = [*ranks_command(plan, self._meeting, num_agents), *plan.train_command]
        agents = [self._command(f"ranks-{i}", argv, environment, spec) for i in range(num_agents)]
        self._shown = {
            agent.log_path: agent.log_path.stat().st_size if agent.log_path.exists() else 0
            for agent in agents
        }
        if servers:
            self.servers = scheduler.start("servers", servers, together=False)
            # Ranks would wait for them with all their devices, and in the end give up.
            scheduler.await_places(self.servers)
        self.agents = scheduler.start("ranks", agents)

    def _command(
        self, name: str, argv: list[str], environment: dict[str, str], spec: SchedulingSpec
    ) -> Command:
        log_path = self._plan.log_folder.absolute() / f"{name}.log"
        return Command(name, argv, worker_environment(spec) | environment, spec, log_path)

    def _code_of(self, agent: Process) -> int | None:
        code = agent.exit_code()
        # It is gone with its node; what ends by itself has a reason of its own.
        if code is not None and code < 0 and self._signal is None:
            self._restart(agent)
            return None
        return code

    def _look(self) -> None:
        """Show what the agents have written, which is what the first rank has."""
        for path, begin in self._shown.items():
            if not path.exists() or path.stat().st_size <= begin:
                continue
            with path.open("rb") as log:
                log.seek(begin)
                text = log.read()
            self._shown[path] = begin + len(text)
            sys.stderr.write(text.decode(errors="replace"))
            sys.stderr.flush()

    def _close(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()


def _even_part(count: int, limit: int) -> int:
    """Return the largest divisor of a number that is no larger than another."""
    return max(part for part in range(1, min(count, limit) + 1) if count % part == 0)

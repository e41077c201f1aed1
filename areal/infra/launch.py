"""Starts all that a run needs: servers that generate, and ranks that train; on this machine.

The launcher itself holds no model. It starts each server as a command of its own and the ranks by
torch's elastic agent, which restarts them together; servers that die are started again at their
address. Whatever ends the launcher ends all of them.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from areal.api.errors import ArealError, RankError
from areal.infra.managed_process import PARENT_VARIABLE, ManagedProcess, Process
from areal.utils.network import reserve_ports

logger = logging.getLogger("Launcher")

# Where servers that run already are reached: host:port, separated by commas.
SERVERS_VARIABLE = "AREAL_LLM_SERVER_ADDRS"
# What servers ask their clients for.
KEY_VARIABLE = "AREAL_SERVER_KEY"
# The file in which a rank writes why starting it again would be of no use.
VERDICT_VARIABLE = "AREAL_VERDICT_FILE"

# The folder in which processes of several machines name their addresses, and the name of this one.
NAMES_VARIABLE = "AREAL_NAMES_FOLDER"
NAME_VARIABLE = "AREAL_SERVER_NAME"

PORT = "{port}"

_LOOK_EVERY_S = 0.2
# A server that lived so long is not counted against the restarts of one that cannot start.
_SETTLED_S = 60.0


class LaunchError(ArealError, RuntimeError):
    """Something that the run needs could not be started, or died too often."""


@dataclass(frozen=True)
class LaunchPlan:
    """What to start.

    Attributes:
        server_commands: One server each; its port takes the place of the word ``PORT``.
        train_command: A script or ``-m MODULE``, and its arguments.
        num_ranks: Processes that train.
        max_restarts: How often a dead server, or the ranks together, are started again.
        log_folder: Of the servers and of all ranks but the first; on a cluster, of all processes.
    """

    server_commands: list[list[str]]
    train_command: list[str]
    num_ranks: int
    max_restarts: int
    log_folder: Path


class Launcher:
    """Runs a plan to its end, on this machine.

    Args:
        plan: What to start.
    """

    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self._signal: int | None = None
        self._is_told = False
        # Of this launcher alone: another one of the same run is refused, and reports it here.
        self._verdict = plan.log_folder / f"verdict-{os.getpid()}"
        self._meeting = plan.log_folder / f"meeting-{os.getpid()}"
        self._reserved: list[socket.socket] = []  # the servers' ports, for each of their starts
        self.servers: list[Process] = []
        # Each keeps some of the ranks, and ends with them.
        self.agents: list[Process] = []

    # --- what a kind of launcher does

    def _start(self) -> None:
        """Start everything."""
        plan = self._plan
        environment = self._environment()
        self._reserved = reserve_ports(len(plan.server_commands))
        ports = [sock.getsockname()[1] for sock in self._reserved]
        if ports:
            # Other users of this machine can connect too.
            environment[KEY_VARIABLE] = os.environ.get(KEY_VARIABLE) or secrets.token_hex(24)
        for i, (command, port) in enumerate(zip(plan.server_commands, ports, strict=True)):
            server = ManagedProcess(
                f"server-{i}",
                [str(port) if part == PORT else part for part in command],
                {**environment, **_devices(i + plan.num_ranks, 1)},
                plan.log_folder / f"server-{i}.log",
            )
            server.start()
            self.servers.append(server)
        if ports:
            environment[SERVERS_VARIABLE] = ",".join(f"127.0.0.1:{port}" for port in ports)
        if plan.num_ranks > 1:
            threads = max(1, (os.cpu_count() or 1) // plan.num_ranks)
            environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(threads))
        # The agent's own address is this machine's alone.
        command = [*ranks_command(plan, self._meeting), "--local-addr", "127.0.0.1"]
        ranks = ManagedProcess(
            "ranks",
            [*command, *plan.train_command],
            {**environment, **_devices(0, plan.num_ranks)},
        )
        ranks.start()
        self.agents.append(ranks)

    def _environment(self) -> dict[str, str]:
        """Return what every process gets."""
        return {
            VERDICT_VARIABLE: str(self._verdict),
            # That torch's agent ends the other ranks is no news beside why the first one failed.
            "LOGLEVEL": os.environ.get("LOGLEVEL", "ERROR"),
        }

    def _look(self) -> None:
        """Do what is to be done again and again while the run goes."""

    def _close(self) -> None:
        """Free what the launcher itself holds."""
        for sock in self._reserved:
            sock.close()

    # --- the run

    def run(self) -> int:
        """Start everything and return the exit code of the training.

        Raises:
            LaunchError: A server died too often, or a rank has said why there is no going on.
        """
        self._plan.log_folder.mkdir(parents=True, exist_ok=True)
        handlers = self._take_signals()
        try:
            self._start()
            return self._watch()
        finally:
            # The ranks first: they may still want to write a checkpoint with what they have.
            for agent in self.agents:
                agent.stop()
            for server in self.servers:
                server.signal(signal.SIGTERM)
            for server in self.servers:
                server.stop()
            self._look()
            self._close()
            self._verdict.unlink(missing_ok=True)
            self._meeting.unlink(missing_ok=True)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _take_signals(self) -> dict[int, Any]:
        """Have Ctrl-C and SIGTERM end the run in order; return what they did before."""
        return {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def _note(self, number: int, _: FrameType | None) -> None:
        is_starting = self._signal is None and not self.agents
        self._signal = number
        if is_starting:  # which may wait long for a place
            raise KeyboardInterrupt

    def _watch(self) -> int:
        while (code := self._exit_code()) is None:
            self._look_for_verdict()
            if self._signal is not None and not self._is_told:
                self._is_told = True
                for agent in self.agents:
                    agent.terminate()
            for server in self.servers:
                if self._signal is None and server.exit_code() is not None:
                    self._restart(server)
            self._look()
            time.sleep(_LOOK_EVERY_S)
        if self._signal is not None:
            return 128 + self._signal
        self._look_for_verdict()
        code = code if code >= 0 else 128 - code
        if code:
            logger.error(
                "training ended with exit code %d; the same command goes on from the last "
                "checkpoint, and %s has the logs",
                code,
                self._plan.log_folder,
            )
        return code

    def _exit_code(self) -> int | None:
        """Return how the ranks ended, which all end with the first of them; None while they run."""
        # Each is asked once: it may be lost between two questions.
        codes = [self._code_of(agent) for agent in self.agents]
        failed = [code for code in codes if code]
        return failed[0] if failed else None if None in codes else 0

    def _code_of(self, agent: Process) -> int | None:
        """Return how an agent ended, for good; None while it runs."""
        return agent.exit_code()

    def _look_for_verdict(self) -> None:
        if self._verdict.is_file():
            raise LaunchError(self._verdict.read_text())

    def _restart(self, process: Process) -> None:
        code = process.exit_code()
        if time.monotonic() - process.started_at > _SETTLED_S:
            process.num_starts = 0
        # One that gives up by itself right away would do so again.
        is_hopeless = process.num_starts == 1 and code is not None and code > 0
        if is_hopeless or process.num_starts > self._plan.max_restarts:
            raise LaunchError(
                f"{process.name} ended with exit code {code} (started {process.num_starts} "
                f"times); its log ends with:\n{process.last_words()}"
            )
        logger.warning("%s ended with exit code %s; starting it again", process.name, code)
        process.start()


def ranks_command(plan: LaunchPlan, meeting: Path, num_agents: int = 1) -> list[str]:
    """Return the command of an agent, without what its ranks run.

    Args:
        plan: Of the run.
        meeting: A file that all agents see.
        num_agents: They share the ranks evenly.
    """
    return [
        *(sys.executable, "-m", "areal.infra.ranks"),
        *("--nnodes", str(num_agents)),
        *("--nproc-per-node", str(plan.num_ranks // num_agents)),
        *("--max-restarts", str(plan.max_restarts)),
        # Through a file: the agent's own server would listen on all addresses, without a key.
        *("--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file"),
        *("--rdzv-endpoint", str(meeting)),
    ]


def _devices(first: int, count: int) -> dict[str, str]:
    """Return which GPUs a process sees; nothing on a machine without.

    A machine with fewer GPUs than processes shares them.
    """
    devices = visible_devices()
    if not devices:
        return {}
    chosen = {devices[(first + i) % len(devices)]: None for i in range(count)}
    return {"CUDA_VISIBLE_DEVICES": ",".join(chosen)}


def visible_devices() -> list[str]:
    """Return the GPUs that this process sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [device for device in visible.split(",") if device]
    return sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))


def report_to_launcher(error: ArealError) -> bool:
    """Hand an error that would come back after a restart to the launcher, if there is one.

    Returns:
        False where nobody has started this process, and it has to speak for itself.
    """
    path = os.environ.get(VERDICT_VARIABLE)
    if path is None:
        return False
    # The agent ends ranks as soon as one has, and this one is ending.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not isinstance(error, RankError):
        # Complete or absent: the launcher looks at any moment.
        partial = Path(f"{path}.{os.getpid()}")
        partial.write_text(str(error))
        partial.replace(path)
    return True


def is_launched() -> bool:
    """Return whether this process is one that a launcher, or torchrun, has started."""
    return PARENT_VARIABLE in os.environ or "TORCHELASTIC_RUN_ID" in os.environ

"""Workers as jobs of Slurm: one batch job a role, with one task a worker."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from areal.api.cli_args import SchedulingSpec
from areal.api.errors import ConfigError
from areal.infra.managed_process import PARENT_VARIABLE, ManagedProcess, Process
from areal.infra.scheduler.base import Command, CommandScheduler
from areal.infra.scheduler.exceptions import WorkerCreationError

logger = logging.getLogger("SlurmScheduler")

_PROGRAMS = ("sbatch", "squeue", "scancel", "srun")
_STATE_VALID_S = 5.0
_CALL_TIMEOUT_S = 60.0
_TELL_EVERY_S = 600.0
# Slurm gives a cancelled job 30 seconds before it kills what is left.
_KILL_WAIT_S = 40.0
_ALIVE_S = 60.0
_LOST = -9
_CANCELLED = 143  # as a command that was told to end
# What a job does not leave again; squeue names it for some minutes.
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
_LAUNCHER = "launcher"

_BATCH = """\
#!/bin/bash
{options}
set -a; . {environment}; set +a
# The launcher's sign of life: a job whose launcher was killed ends by itself.
( while sleep 10; do
    age=$(( $(date +%s) - $(stat -c %Y {alive} 2>/dev/null || echo 0) ))
    [ "$age" -lt {alive_s} ] || scancel "$SLURM_JOB_ID"
  done ) &
watcher=$!
{commands}
srun {srun_options} bash {tasks}
code=$?
kill "$watcher"
exit "$code"
"""


class BatchJob:
    """A job that ``sbatch`` has queued."""

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self._state = "PENDING"
        self._is_over = False
        self._asked_at = float("-inf")
        self._sent: set[int] = set()
        self._tell_at = 0.0  # that it waits

    def is_over(self) -> bool:
        """Return whether it has ended; Slurm is asked every five seconds at most."""
        if not self._is_over and time.monotonic() - self._asked_at > _STATE_VALID_S:
            self._asked_at = time.monotonic()
            query = ("--noheader", "--states=all", "--jobs", self.id, "--format", "%T|%r")
            found = _call("squeue", *query)
            if found.returncode == 0 or "Invalid job id" in found.stderr:
                state, _, reason = found.stdout.strip().partition("|")
                self._is_over = not state or state in _OVER
                self._state = state
                if self.is_waiting() and time.monotonic() >= self._tell_at:
                    self._tell_at = time.monotonic() + _TELL_EVERY_S
                    logger.warning("job %s of Slurm waits for its place: %s", self.id, reason)
            else:  # a controller that is busy is no evidence of the job
                logger.warning("squeue: %s", found.stderr.strip())
        return self._is_over

    def is_waiting(self) -> bool:
        """Return whether it had no place yet when Slurm was asked last."""
        return self._state in ("PENDING", "CONFIGURING")

    def end_state(self) -> str:
        """Return how a job that is over ended, such as "NODE_FAIL"; "" where Slurm has forgotten.

        What ``squeue`` no longer knows, ``sacct`` does where there is accounting.
        """
        if not self._state and shutil.which("sacct") is not None:
            query = ("--noheader", "--parsable2", "--allocations", "--format=State")
            words = _call("sacct", *query, "--jobs", self.id).stdout.split()
            self._state = words[0] if words else ""
        return self._state

    def signal(self, number: int) -> None:
        """Send a signal to all tasks, once, whoever of them is meant."""
        if number in self._sent:
            return
        self._sent.add(number)
        _call("scancel", f"--signal={signal.Signals(number).name.removeprefix('SIG')}", self.id)

    def cancel(self) -> None:
        """End it, and wait until it has left the queue."""
        _call("scancel", self.id)
        give_up_at = time.monotonic() + _KILL_WAIT_S
        while not self.is_over() and time.monotonic() < give_up_at:
            self._asked_at = float("-inf")
            time.sleep(0.2)


class StepJob:
    """Tasks beside those of a job, on its nodes and devices."""

    def __init__(self, job_id: str, process: ManagedProcess) -> None:
        self.id = job_id
        self._process = process

    def is_over(self) -> bool:
        return self._process.exit_code() is not None

    def end_state(self) -> str:
        return ""

    def signal(self, number: int) -> None:
        self._process.signal(number)  # srun passes it on

    def cancel(self) -> None:
        self._process.stop()


class SlurmProcess(Process):
    """One task of a job.

    Args:
        command: What it runs.
        scheduler: Submits it again.
    """

    def __init__(self, command: Command, scheduler: SlurmScheduler) -> None:
        super().__init__(command.name, command.log_path)
        self.command = command
        self.job: BatchJob | StepJob | None = None
        self._scheduler = scheduler
        self._code: int | None = None  # of one that noted nothing

    @property
    def exit_path(self) -> Path:
        """Where the task notes how it ended."""
        return self.command.log_path.with_suffix(".exit")

    def start(self) -> None:
        """Submit it by itself."""
        # The others of its role go on, on the rest of their machines.
        self._scheduler.submit(self.name.replace("/", "-"), [self], is_part=True)

    def exit_code(self) -> int | None:
        """Return how it ended.

        Where it has noted nothing, -9: Slurm has ended its job. A job that somebody cancelled gives
        143: it is not wanted again.
        """
        if self.job is None:
            return None
        if (code := self._noted()) is not None or self._code is not None:
            return self._code if code is None else code
        if not self.job.is_over():
            return None
        # What was written last may be on its way through the file system.
        if (code := self._noted()) is not None:
            return code
        state = self.job.end_state() or "gone from the queue"
        logger.warning("%s has ended: job %s of Slurm is %s", self.name, self.job.id, state)
        self._code = _CANCELLED if state.startswith("CANCELLED") else _LOST
        return self._code

    def _noted(self) -> int | None:
        try:
            text = self.exit_path.read_text().strip()
        except OSError:
            return None
        return int(text) if text else None

    def signal(self, number: int) -> None:
        if self.job is not None and self.exit_code() is None:
            self.job.signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def stop(self, grace_s: float = 10.0) -> None:
        give_up_at = time.monotonic() + grace_s
        if self.job is None or self.job.is_over():
            return
        while self.exit_code() is None and time.monotonic() < give_up_at:
            time.sleep(0.1)
        self.job.cancel()


class SlurmScheduler(CommandScheduler):
    """Submits a batch job for each role.

    Batch files, logs and the workers' addresses lie in the log folder, which all nodes must see, as
    well as the folder that the run is started in.

    Args:
        n_gpus_per_node: Devices of one machine; a role that has devices takes whole machines.
        container_type: In the place of that of each specification: "apptainer", or "none".
        container_mounts: In the place of ``mount`` of each specification.
        srun_additional_args: In the place of those of each specification.
        startup_timeout: How long workers may take, with the time in the queue, in seconds.
        options: Those of ``CommandScheduler``.

    Raises:
        ConfigError: This machine does not submit jobs.
    """

    def __init__(
        self,
        n_gpus_per_node: int = 8,
        container_type: str | None = None,
        container_mounts: str | None = None,
        srun_additional_args: str | None = None,
        startup_timeout: float = 300.0,
        **options: Any,
    ) -> None:
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"scheduler.type=slurm needs {', '.join(missing)} on the PATH; start the run on a "
                "machine that submits jobs"
            )
        super().__init__(
            n_gpus_per_node=n_gpus_per_node, startup_timeout=startup_timeout, **options
        )
        self._container_type = container_type
        self._mounts = container_mounts
        self._srun_options = srun_additional_args
        self._submitted: list[Future[BatchJob]] = []
        self._repository.add(_LAUNCHER, os.getpid(), keepalive_ttl=_ALIVE_S)

    def start(self, role: str, commands: Sequence[Command], together: bool = True) -> list[Process]:
        processes = [SlurmProcess(command, self) for command in commands]
        self.submit(role, processes, together)
        return list(processes)

    def submit(
        self,
        role: str,
        processes: Sequence[SlurmProcess],
        together: bool = True,
        is_part: bool = False,
    ) -> None:
        """Queue the tasks of a role, or run them beside those of another.

        Args:
            role: Of the tasks; names the files.
            processes: Get the job.
            together: Whether the options of srun decide what happens to the others when one fails.
            is_part: Whether they may take a part of a machine.

        Raises:
            ValueError: They would take parts of machines.
            WorkerCreationError: Slurm refuses them.
        """
        folder = self.log_dir / "slurm"
        folder.mkdir(parents=True, exist_ok=True)
        for process in processes:
            process.exit_path.unlink(missing_ok=True)
        first = processes[0].command
        tasks = folder / f"{role}.sh"
        tasks.write_text(tasks_file(processes))
        near: Any = self._neighbour(first)
        if near is not None and near.job is not None:
            job: BatchJob | StepJob = self._step(role, near.job.id, tasks, processes)
        else:
            job = self._batch(role, folder, tasks, processes, together, is_part)
        for process in processes:
            process.job = job
            process._code = None
            process._note_start()

    def _step(
        self, role: str, job_id: str, tasks: Path, processes: Sequence[SlurmProcess]
    ) -> StepJob:
        size = f"--ntasks={len(processes)}"
        argv = ["srun", f"--jobid={job_id}", "--overlap", size, "bash", str(tasks)]
        process = ManagedProcess(
            role, argv, processes[0].command.environment, tasks.with_suffix(".log")
        )
        process.start()
        return StepJob(job_id, process)

    def _batch(
        self,
        role: str,
        folder: Path,
        tasks: Path,
        processes: Sequence[SlurmProcess],
        together: bool,
        is_part: bool,
    ) -> BatchJob:
        first = processes[0].command
        environment = folder / f"{role}.env"
        # The key is in it; a batch file can be read by everybody.
        environment.touch(mode=0o600)
        environment.write_text(
            "".join(f"{k}={shlex.quote(v)}\n" for k, v in sorted(first.environment.items()))
        )
        batch = folder / f"{role}.sbatch"
        text = batch_file(
            f"{self.experiment_name}_{self.trial_name}:{role}",
            first.spec,
            len(processes),
            self.n_gpus_per_node,
            log_path=folder / f"{role}.log",
            environment=environment,
            alive=self.names_root / _LAUNCHER / "ENTRY",
            tasks=tasks,
            srun_options=self._srun_options,
            container=container(first.spec, self._container_type, self._mounts),
            together=together,
            is_part=is_part,
        )
        batch.write_text(text)
        # In a thread: a job that is submitted while a signal arrives is known, and ended.
        self._submitted.append(self._threads.submit(_submit, batch))
        return self._submitted[-1].result()

    def await_places(self, processes: Sequence[Process]) -> None:
        jobs = {process.job for process in processes if isinstance(process, SlurmProcess)}
        while any(
            isinstance(job, BatchJob) and not job.is_over() and job.is_waiting() for job in jobs
        ):
            time.sleep(0.1)

    def close(self) -> None:
        for submitted in self._submitted:
            if submitted.exception() is None and not submitted.result().is_over():
                submitted.result().cancel()
        super().close()


def _submit(batch: Path) -> BatchJob:
    # A site may let jobs have nothing of the environment.
    found = _call("sbatch", "--parsable", "--export=ALL", str(batch))
    if found.returncode:
        raise WorkerCreationError(f"sbatch refuses {batch}: {found.stderr.strip()}")
    # With several clusters their name follows.
    return BatchJob(found.stdout.strip().partition(";")[0])


def batch_file(
    job_name: str,
    spec: SchedulingSpec,
    num_tasks: int,
    n_gpus_per_node: int,
    *,
    log_path: Path,
    environment: Path,
    alive: Path,
    tasks: Path,
    srun_options: str | None = None,
    container: str = "",
    together: bool = True,
    is_part: bool = False,
) -> str:
    """Return the text of a batch file.

    Args:
        job_name: As ``squeue`` shows it.
        spec: Resources of each task.
        num_tasks: How many tasks run side by side.
        n_gpus_per_node: Devices of one machine.
        log_path: Of the batch job itself; each task has a log of its own.
        environment: A file of variables.
        alive: A file that is touched as long as the job is wanted.
        tasks: What every task runs.
        srun_options: In the place of those of ``spec``.
        container: What every task runs in, a command.
        together: Whether ``srun_options`` decide what happens to the others when a task fails.
        is_part: Whether the tasks may take a part of a machine.

    Raises:
        ValueError: The tasks take parts of machines.
    """
    options = {
        "job-name": job_name,
        "output": str(log_path),
        "ntasks": num_tasks,
        "cpus-per-task": max(1, spec.cpu),
        "chdir": os.getcwd(),
    }
    num_gpus = spec.gpu * num_tasks
    srun = spec.srun_additional_args if srun_options is None else srun_options
    if num_gpus:
        srun += f" --gpus-per-task={spec.gpu}"  # a task sees its own devices alone
        n_gpus_per_node = num_gpus if is_part else n_gpus_per_node
        if num_gpus % n_gpus_per_node or num_tasks % (num_gpus // n_gpus_per_node):
            raise ValueError(
                f"{job_name}: {num_tasks} workers of {spec.gpu} devices take parts of machines "
                f"of {n_gpus_per_node}; choose sizes that fill them, or correct "
                "cluster.n_gpus_per_node"
            )
        num_nodes = num_gpus // n_gpus_per_node
        options |= {"nodes": num_nodes, "ntasks-per-node": num_tasks // num_nodes}
        options |= {"gres": f"gpu:{n_gpus_per_node}"}
        options |= {"mem": f"{spec.mem * num_tasks // num_nodes}G"} if spec.mem else {}
    elif spec.mem:
        options["mem-per-cpu"] = f"{max(1, (spec.mem << 10) // max(1, spec.cpu))}M"
    chosen = {
        "nodelist": spec.nodelist,
        "exclude": spec.exclude,
        "reservation": spec.reservation,
    }
    options |= {name: value for name, value in chosen.items() if value is not None}
    flags = ["no-requeue", *(["exclusive"] if spec.exclusive else [])]
    lines = [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in options.items()]
    srun += "" if together else " --kill-on-bad-exit=0"
    # The options are shell words, such as --chdir $PWD.
    return _BATCH.format(
        options="\n".join([*lines, *(f"#SBATCH --{flag}" for flag in flags)]),
        environment=shlex.quote(str(environment)),
        alive=shlex.quote(str(alive)),
        alive_s=int(_ALIVE_S),
        commands="\n".join(spec.additional_bash_cmds or []),
        srun_options=f"{srun} --ntasks={num_tasks} {container}".strip(),
        tasks=shlex.quote(str(tasks)),
    ).replace("\n\nsrun", "\nsrun")


def tasks_file(processes: Sequence[SlurmProcess]) -> str:
    """Return the text of what each task runs: its own command, into its own log."""
    cases = []
    for index, process in enumerate(processes):
        shared = processes[0].command.environment.items()
        own = [f"{k}={v}" for k, v in process.command.environment.items() - shared]
        command = shlex.join([*(["env", *sorted(own)] if own else []), *process.command.argv])
        log, note = (shlex.quote(str(p)) for p in (process.command.log_path, process.exit_path))
        cases.append(f"{index}) {command} >>{log} 2>&1 </dev/null; echo $? >{note} ;;")
    # A task notes how its command ended, also when both are told to end; and its parent is Slurm.
    head = ["trap : TERM", f"unset {PARENT_VARIABLE}", "case $SLURM_PROCID in"]
    return "\n".join([*head, *cases, "esac", ""])


def container(spec: SchedulingSpec, kind: str | None = None, mounts: str | None = None) -> str:
    """Return the command that runs another one in the container of a specification; "" for none.

    The default image is on AReaL's own cluster; elsewhere, unless one is named, there is no
    container.

    Raises:
        ValueError: The kind is unknown.
    """
    kind = kind or spec.container_type
    if kind not in ("apptainer", "none"):
        raise ValueError(f"container_type {kind!r} is unknown; set it to apptainer or none")
    is_named = spec.image != SchedulingSpec().image or Path(spec.image).exists()
    if kind == "none" or not spec.image or not is_named:
        return ""
    devices = ["--nv"] if spec.gpu else []
    return shlex.join(["apptainer", "exec", *devices, "--bind", mounts or spec.mount, spec.image])


def _call(*argv: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_CALL_TIMEOUT_S,
            start_new_session=True,  # Ctrl-C is the launcher's
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"{argv[0]} gave no answer")

"""sbatch, squeue, scancel and srun that run a job on this machine; each is this file by its name.

They take the options that ``SlurmScheduler`` gives, refuse all others, and keep one folder a job
below FAKE_SLURM. As long as there is a file ``full`` beside them no job begins.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(os.environ.get("FAKE_SLURM", "/nonexistent"))
DIRECTIVES = {
    "job-name",
    "output",
    "ntasks",
    "cpus-per-task",
    "chdir",
    "mem-per-cpu",
    "no-requeue",
    "nodes",
    "ntasks-per-node",
    "gres",
    "mem",
}
WAIT_FOR_ROOM = 'while [ -e "$FULL" ]; do sleep 0.05; done; rm "$PENDING"; exec bash "$1"'


def install(folder: Path) -> None:
    """Puts the four programs into a folder."""
    folder.mkdir(parents=True)
    for name in ("sbatch", "squeue", "scancel", "srun"):
        script = folder / name
        script.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
        script.chmod(0o755)


def sbatch() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parsable", action="store_true", required=True)
    # As the site may have set it; the command line wins.
    parser.add_argument("--export", default=os.environ.get("SBATCH_EXPORT", "ALL"))
    parser.add_argument("script", type=Path)
    asked = parser.parse_args()
    script = asked.script
    options = {}
    for line in script.read_text().splitlines():
        if found := re.fullmatch(r"#SBATCH --([a-z-]+)(?:=(.*))?", line):
            options[found[1]] = " ".join(shlex.split(found[2] or ""))
    if unknown := options.keys() - DIRECTIVES:
        sys.exit(f"sbatch: error: unrecognized options {unknown}")
    STATE.mkdir(exist_ok=True)
    number = len(list(STATE.glob("[0-9]*"))) + 1
    job = STATE / str(number)
    job.mkdir()
    kept = os.environ if asked.export == "ALL" else {"PATH": os.environ["PATH"]}
    environment = {
        **kept,
        "FAKE_SLURM": str(STATE),
        "FULL": str(STATE / "full"),
        "PENDING": str(job / "pending"),
        "SLURM_JOB_ID": str(number),
        "SLURM_NTASKS": options["ntasks"],
    }
    (job / "pending").touch()
    with open(options["output"], "ab") as log:
        process = subprocess.Popen(
            ["bash", "-c", WAIT_FOR_ROOM, "bash", str(script)],
            cwd=options["chdir"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (job / f"group-{process.pid}").touch()
    (job / "batch").write_text(str(process.pid))
    print(number)
    return 0


def groups(job: Path) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in job.glob("group-*")]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def squeue() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--noheader", action="store_true", required=True)
    parser.add_argument("--states", choices=["all"])
    parser.add_argument("--jobs", required=True)
    parser.add_argument("--format", required=True, choices=["%T|%r"])
    options = parser.parse_args()
    job = STATE / options.jobs
    if not job.is_dir():
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    if is_running(int((job / "batch").read_text())):
        print("PENDING|Resources" if (job / "pending").exists() else "RUNNING|None")
    elif (job / "state").exists():  # as for some minutes after its end
        print((job / "state").read_text() + "|None" if options.states else "")
    else:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    return 0


def scancel() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--signal")
    parser.add_argument("job")
    options = parser.parse_args()
    job = STATE / options.job
    batch = int((job / "batch").read_text())
    number = signal.Signals[f"SIG{options.signal or 'TERM'}"]
    # A signal goes to the steps alone; to be cancelled concerns the batch shell as well.
    send(job, number, except_for=batch if options.signal else None)
    if not options.signal:
        (job / "state").write_text("CANCELLED")
        give_up_at = time.monotonic() + 5  # as KillWait
        while any(map(is_running, groups(job))) and time.monotonic() < give_up_at:
            time.sleep(0.05)
        send(job, signal.SIGKILL)
    return 0


def send(job: Path, number: int, except_for: int | None = None) -> None:
    for group in groups(job):
        if group != except_for:
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                continue


def srun() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unbuffered", action="store_true")
    parser.add_argument("--mpi")
    parser.add_argument("-K", dest="kills", action="store_true")
    parser.add_argument("--kill-on-bad-exit", dest="kills", type=int)
    parser.add_argument("--chdir")
    parser.add_argument("--jobid", default=os.environ.get("SLURM_JOB_ID"))
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--ntasks", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    tasks = []
    for index in range(options.ntasks):
        environment = {**os.environ, "SLURM_PROCID": str(index), "SLURM_JOB_ID": options.jobid}
        task = subprocess.Popen(
            options.command, cwd=options.chdir, env=environment, start_new_session=True
        )
        (STATE / options.jobid / f"group-{task.pid}").touch()
        tasks.append(task)

    def pass_on(number: int, _: object) -> None:
        for task in tasks:
            if task.poll() is None:
                os.killpg(task.pid, number)

    signal.signal(signal.SIGTERM, pass_on)
    while any(task.poll() is None for task in tasks):
        if options.kills and any(task.poll() for task in tasks):
            pass_on(signal.SIGKILL, None)
        time.sleep(0.02)
    return max(abs(task.returncode) for task in tasks)


if __name__ == "__main__":
    sys.exit(globals()[Path(sys.argv[0]).name]())

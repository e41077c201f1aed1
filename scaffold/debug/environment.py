"""Check what a distributed job needs before it starts, for ``scaffold debug env``."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from scaffold.analysis.process import run_text
from scaffold.debug.memory import size_text
from scaffold.debug.mesh import Launch, Mesh, meshes_of_config, read_launch, read_mesh
from scaffold.errors import RequestError
from scaffold.report import Report

DEFAULT_PORT = 29500  # of torchrun, where no other one is given
# Well above the usual defaults, which are too little for a job: 64 MB of /dev/shm in a container,
# 1024 open files in a shell.
MIN_SHARED_BYTES = 1 << 30
MIN_FILES = 4096
MATTER = ("NCCL_", "GLOO_", "TORCH_", "MASTER_", "CUDA_VISIBLE_", "OMP_NUM_", "FI_", "UCX_")
RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")

PROBE = Path(__file__).parents[1] / "runners" / "rank_recorder" / "env_probe.py"
TIMEOUT_S = 120


class Remark(NamedTuple):
    """One thing that was looked at: "ok", "warn" or "bad", and what to do where it is not ok."""

    state: str
    about: str
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Place:
    """The facts that the checks look at.

    Args:
        said: What the interpreter said of itself.
        meshes: The layouts that ranks have to fill.
    """

    env: Mapping[str, str]
    said: Mapping[str, Any]
    python: Interpreter
    launch: Launch
    meshes: Sequence[Mesh]


def check_environment(
    argv: tuple[str, ...],
    root: Path,
    *,
    mesh: str | None = None,
    config: str | None = None,
    python: str | None = None,
) -> Report:
    """Return what was found; the report fails where a job could not start.

    Args:
        argv: Arguments of torchrun, perhaps with torchrun before and a program behind.
        config: A YAML file that names layouts.
        python: The interpreter of the job, or None to find it.

    Raises:
        RequestError: A layout or the file with layouts cannot be read.
    """
    meshes = [read_mesh(mesh)] if mesh else []
    meshes += meshes_of_config(root / config) if config else []
    chosen = find_interpreter(python, argv, root)
    launch = read_launch(argv)
    place = Place(dict(os.environ), ask_versions(chosen), chosen, launch, meshes)
    found = [remark for check in CHECKS for remark in check(place)]
    extra = {
        "findings": [each._asdict() for each in found],
        "python": {"path": chosen.path, "why": chosen.why},
        "versions": dict(place.said),
        "world": launch.world if argv else None,
    }
    is_ok = all(each.state != "bad" for each in found)
    return Report("debug env", ok=is_ok, text=_text(found), extra={"debug": extra})


def _text(found: Sequence[Remark]) -> str:
    width = max(len(each.about) for each in found)
    rows: list[str] = []
    for each in found:
        rows.append(f"{each.state:<5} {each.about:<{width}}  {each.text}")
        rows += [f"      {'':<{width}}  next: {each.hint}"] if each.hint else []
    bad = sum(each.state == "bad" for each in found)
    warned = sum(each.state == "warn" for each in found)
    rows.append(f"verdict: {bad} in the way, {warned} to look at")
    return "\n".join(rows) + "\n"


# --- checks -------------------------------------------------------------------------------------


def check_versions(place: Place) -> list[Remark]:
    version, python = place.said.get("python", "?"), place.python
    rows = [Remark("ok", "python", f"{version}, {python.path}: {python.why}")]
    packages: Mapping[str, str] = place.said.get("packages", {})
    lack = place.said.get("error") or ("" if "torch" in packages else "is not installed there")
    rows += [Remark("bad", "torch", lack, "give another --python")] if lack else []
    shown = ", ".join(f"{name} {version}" for name, version in packages.items())
    return [*rows, Remark("ok", "packages", shown)] if shown else rows


def check_devices(place: Place) -> list[Remark]:
    torch: Mapping[str, Any] | None = place.said.get("torch")
    if torch is None:
        return []
    devices: list[str] = torch["devices"]
    backends = ", ".join(torch["backends"]) or "none"
    built = f"CUDA {torch['cuda']}" if torch["cuda"] else "no CUDA"
    nccl = f", NCCL {torch['nccl']}" if torch["nccl"] else ""
    first = Remark("ok", "backends", f"{backends}; torch is built with {built}{nccl}")
    if not torch["backends"]:
        first = Remark("bad", "backends", "torch is built without torch.distributed")
    counted = ", ".join(sorted({f"{devices.count(each)} x {each}" for each in devices}))
    per_node = place.launch.per_node
    # NCCL refuses two ranks of a communicator on one device.
    if devices and per_node is not None and per_node > len(devices):
        text = f"{counted}, and {per_node} ranks are to share them"
        hint = "start one rank for each device, or use gloo"
        return [first, Remark("bad", "devices", text, hint)]
    return [first, Remark("ok", "devices", counted or "no accelerator found: gloo on the CPU")]


def check_mesh(place: Place) -> list[Remark]:
    """Check that the ranks that are started fill the layouts."""
    launch, rows = place.launch, list[Remark]()
    world = launch.world if launch.world is not None and launch.world > 1 else None
    if world is not None:
        rows.append(Remark("ok", "world", f"{world} ranks: {launch.nodes} x {launch.per_node}"))
    for mesh in place.meshes:
        faults = mesh.faults(world)
        hint = "change --nproc-per-node, --nnodes or the layout"
        rows += [Remark("bad", "mesh", f"{mesh.origin}: {fault}", hint) for fault in faults]
        if not faults:
            count = f" = {mesh.ranks} ranks" if mesh.ranks is not None else ""
            rows.append(Remark("ok", "mesh", f"{mesh.origin}: {mesh.text()}{count}"))
    return rows


def check_port(place: Place) -> list[Remark]:
    """Check that ranks can meet at the address that they are given."""
    if place.launch.port == 0:
        return [Remark("ok", "port", "torchrun chooses one")]
    address = place.launch.address or place.env.get("MASTER_ADDR", "localhost")
    given = place.env.get("MASTER_PORT", "")
    port = place.launch.port or (int(given) if given.isdigit() else DEFAULT_PORT)
    about = f"{address}:{port}"
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        text = f"MASTER_ADDR {address!r} cannot be resolved: {error}"
        return [Remark("bad", "port", text, "give an address that every machine resolves")]
    # Only the machine that holds the address can see whether the port is free.
    if not any(_is_ours(str(row[4][0])) for row in found):
        return [Remark("ok", "port", f"{about} is on another machine; not tried")]
    holder = port_holder(port)
    if holder is not None:
        hint = "give another --master-port, or end that process"
        # A launcher without a given port may choose another one.
        state = "bad" if place.launch.port or given else "warn"
        return [Remark(state, "port", f"{about} is taken by {holder}", hint)]
    return [Remark("ok", "port", f"{about} is free")]


def port_holder(port: int) -> str | None:
    """Return who listens on a port of this machine, or None where it is free."""
    # macOS shows the connections of others to root alone; binding the port is tried then.
    with suppress(psutil.AccessDenied, OSError):
        for row in psutil.net_connections("tcp"):
            if row.status == psutil.CONN_LISTEN and row.laddr and row.laddr[1] == port:
                return _who(row.pid)
    with socket.socket() as tried:
        # As the store of torch does: a port that was just left counts as free.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
        except OSError as error:
            return f"somebody else ({error.strerror})"
    return None


def _who(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return f"process {pid}: {' '.join(process.cmdline())[:80] or process.name()}"
    return f"process {pid}"


def _is_ours(address: str) -> bool:
    own = {
        each.address.partition("%")[0] for rows in psutil.net_if_addrs().values() for each in rows
    }
    return address.startswith("127.") or address in own | {"::1", "0.0.0.0"}


def check_host(place: Place) -> list[Remark]:
    """Check that this machine's name resolves to an address that others can reach."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        text = f"{name!r} cannot be resolved: {error}"
        return [Remark("warn", "host", text, "name it in /etc/hosts, or set GLOO_SOCKET_IFNAME")]
    several = place.launch.nodes is None or place.launch.nodes > 1
    # gloo announces the address of the host name, which works on one machine alone.
    if address.startswith("127.") and several:
        text = f"{name} is {address}, which other machines cannot reach"
        return [Remark("bad", "host", text, "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME")]
    return [Remark("ok", "host", f"{name} is {address}")]


def check_variables(place: Place) -> list[Remark]:
    """Check the variables that torch, NCCL and gloo read."""
    rows: list[Remark] = []
    interfaces = set(psutil.net_if_addrs())
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        wanted = [each.strip("=^") for each in place.env.get(name, "").split(",") if each]
        # NCCL takes the names as prefixes: "eth" means every eth*.
        missing = [each for each in wanted if not any(one.startswith(each) for one in interfaces)]
        if missing and not place.env[name].startswith("^"):
            hint = f"there are {', '.join(sorted(interfaces))}"
            rows.append(Remark("bad", name, f"there is no interface {missing[0]!r}", hint))
    left = {name: place.env[name] for name in RANKS if name in place.env}
    if left:
        shown = " ".join(f"{name}={value}" for name, value in left.items())
        hint = "unset them, unless a scheduler starts each rank"
        rows.append(Remark("warn", "ranks", f"this shell has {shown}", hint))
    said = {name: value for name, value in sorted(place.env.items()) if name.startswith(MATTER)}
    shown = " ".join(f"{name}={value}" for name, value in said.items())
    return [*rows, Remark("ok", "variables", shown or "none of NCCL, gloo or torch is set")]


def check_limits(place: Place) -> list[Remark]:
    rows: list[Remark] = []
    with suppress(ImportError):
        import resource  # there is none on Windows

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # RLIM_INFINITY is negative.
        state = "ok" if files < 0 or files >= MIN_FILES else "warn"
        hint = "" if state == "ok" else f"ulimit -n {MIN_FILES}"
        text = f"{'unlimited' if files < 0 else files} open files for a process"
        rows.append(Remark(state, "files", text, hint))
    with suppress(OSError):
        space = shutil.disk_usage("/dev/shm")
        state = "ok" if space.free >= MIN_SHARED_BYTES else "warn"
        hint = "" if state == "ok" else "docker run --shm-size=8g, or --ipc=host"
        text = f"{size_text(space.free)} of {size_text(space.total)} free in /dev/shm"
        rows.append(Remark(state, "shared", text, hint))
    return rows


CHECKS: tuple[Callable[[Place], list[Remark]], ...] = (
    check_versions,
    check_devices,
    check_mesh,
    check_port,
    check_host,
    check_variables,
    check_limits,
)


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and why it was chosen."""

    path: str
    why: str


def find_interpreter(asked: str | None, argv: Sequence[str], root: Path) -> Interpreter:
    """Return the interpreter that the ranks of a job would run in.

    In this order: --python, the one that the launcher's script names, `.venv` of the folder, the
    active environment, `python3`.

    Raises:
        RequestError: The one that was asked for does not exist.
    """
    if asked is not None:
        found = shutil.which(asked)
        if found is None:
            raise RequestError(
                f"there is no interpreter {asked!r}", code="program_missing", hint="fix --python"
            )
        return Interpreter(found, "--python")
    launcher = shutil.which(argv[0]) if argv else None
    # A torchrun installed by pip names the interpreter of its environment in its first line.
    named = _named_by(launcher) if launcher else None
    if named:
        return Interpreter(named, f"the first line of {launcher}")
    places = [(root / ".venv", "the folder's .venv")]
    places += [
        (Path(os.environ[name]), f"the active environment, {name}")
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
        if os.environ.get(name)
    ]
    for folder, why in places:
        python = folder / "bin" / "python"
        if python.is_file():
            return Interpreter(str(python), why)
    return Interpreter(shutil.which("python3") or sys.executable, "python3 on PATH")


def _named_by(script: str) -> str | None:
    try:
        with open(script, "rb") as file:
            # Bounded, as the launcher may be a binary without any line end.
            line = file.readline(500)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    is_python = bool(words) and Path(words[0]).name.startswith("python")
    return words[0] if is_python and Path(words[0]).is_file() else None


def ask_versions(python: Interpreter) -> dict[str, Any]:
    """Return the versions that an interpreter reports; under "error", why it reports none."""
    try:
        argv = [python.path, str(PROBE)]
        done = run_text(argv, None, TIMEOUT_S, PYTHONDONTWRITEBYTECODE="1")
        # Packages may print something when they are imported, before the answer.
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return {"error": f"it cannot be asked: {error}"}

"""Kills the real commands at random moments: the tree is as before or as after, byte for byte."""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scaffold.transaction import disk
from scaffold.transaction.state import has_journal
from tests.faulty_disk import FaultyDisk

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no fork, no SIGKILL"),
    # The child runs one command and is gone; nothing waits for the threads it lacks.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

ROOT = Path(__file__).parents[3]
# Without the target's formatters, which take longest and write nothing to the target.
COMMANDS = {
    "add": ["add-reward", "second", "--style", "exact", "--no-format"],
    "remove": ["remove", "reward/first"],
    "update": ["update", "reward/first", "--no-format"],
    "eject": ["eject", "reward/math"],
    "uninstall": ["uninstall"],
}
NEXT = ["add-reward", "third", "--style", "math", "--no-format"]
FULL = dict.fromkeys(COMMANDS, 60) | {"add": 300}

Tree = dict[str, tuple[bytes, int]]


def tree(root: Path) -> Tree:
    """Returns every file of a target, and of git's folder, with its mode; state apart."""
    files = (path for path in root.rglob("*") if not path.is_dir())
    return {
        str(path.relative_to(root)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in files
        if "areal-scaffold" not in path.parts
    }


def different(one: Tree, other: Tree) -> list[str]:
    """Returns the paths at which two trees differ."""
    return [path for path in sorted({*one, *other}) if one.get(path) != other.get(path)]


def start(root: Path, command: list[str]) -> int:
    """Runs a command in a child that has all of its imports already, and returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        from scaffold.cli.main import main

        main([*command, "--target", str(root)])
    except SystemExit as done:
        os._exit(int(done.code or 0))
    finally:
        os._exit(99)


def finish(child: int) -> int:
    """Waits for a child and returns its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Case(NamedTuple):
    """Is a command with all that it may leave, and how long it takes."""

    base: Path
    command: list[str]
    allowed: tuple[Tree, Tree]
    allowed_next: tuple[Tree, Tree]
    takes_s: float
    writes_s: float


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a project with a reward, a template of its own that moved on, and git."""
    folder = tmp_path_factory.mktemp("base")
    root = folder / "my_rl"
    for argv in (["new", "my_rl"], ["add-reward", "first", "--style", "exact"]):
        done = [sys.executable, "-m", "scaffold", *argv, "--target", str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(done, check=True, capture_output=True, env=environment)
        folder = root
    shutil.rmtree(root / ".scaffold" / "state", ignore_errors=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert finish(start(root, ["eject", "reward/exact"])) == 0
    template = root / ".scaffold" / "templates" / "reward" / "exact"
    manifest = (template / "template.toml").read_text()
    (template / "template.toml").write_text(manifest.replace("version = ", "version = 9", 1))
    with (template / "reward.py.jinja").open("a") as file:
        file.write("\n\nWEIGHT = 1.0\n")
    (root / "my_rl" / "uncommitted.py").write_bytes(b"a person's work \xff\r\n")
    (root / "train.py").chmod(0o755)
    from scaffold.cli.main import main

    scratch = root.parent / "warm"  # what commands import late is imported before they are forked
    shutil.copytree(root, scratch)
    for argv in (COMMANDS["update"], *COMMANDS.values(), NEXT):
        with contextlib.suppress(SystemExit):
            main([*argv, "--target", str(scratch)])
    shutil.rmtree(scratch)
    return root


@pytest.fixture(scope="module")
def case_of(base: Path) -> Callable[[str], Case]:
    """Returns a function that runs a command once to the end, and the next one after it."""

    def case(name: str) -> Case:
        allowed: list[Tree] = []
        allowed_next: list[Tree] = []
        takes_s: list[float] = []
        for commands in ([], [COMMANDS[name]]):
            with copied(base) as root:
                for command in commands:
                    began = time.perf_counter()
                    assert finish(start(root, command)) == 0
                    takes_s.append(time.perf_counter() - began)
                allowed.append(tree(root))
                assert finish(start(root, NEXT)) == 0
                allowed_next.append(tree(root))
        assert allowed[0] != allowed[1]
        with copied(base) as root:
            child = start(root, COMMANDS[name])
            wait_for_journal(root, child)
            began = time.perf_counter()
            assert finish(child) == 0
            writes_s = time.perf_counter() - began
        before, after = allowed
        return Case(
            base,
            COMMANDS[name],
            (before, after),
            (allowed_next[0], allowed_next[1]),
            takes_s[0],
            writes_s,
        )

    return case


@contextlib.contextmanager
def copied(base: Path) -> Iterator[Path]:
    """Makes a copy of the base at a place that is the same each time."""
    root = base.parent / "copy" / "my_rl"
    shutil.copytree(base, root)
    try:
        yield root
    finally:
        shutil.rmtree(root.parent)


def wait_for_journal(root: Path, child: int) -> None:
    """Waits until a command begins to write, or until it is gone."""
    while (
        not has_journal(root)
        and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    ):
        time.sleep(0.0002)


def kill_after(root: Path, child: int, delay_s: float) -> bool:
    """Kills a child after a while; tells whether it was still alive."""
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    return finish(child) == -signal.SIGKILL


def kill_many(case: Case, count: int, seed: int) -> Counter[str]:
    """Kills a command again and again, and looks at what every kill and what follows leaves.

    Half of the kills come at any time from the start, the other half once writing has begun. Those
    that come too late are repeated.
    """
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    while seen["killed"] < count:
        number = sum((seen["as before"], seen["as after"]))
        with copied(case.base) as root:
            child = start(root, case.command)
            if number % 2:
                wait_for_journal(root, child)
                was_alive = kill_after(root, child, chance.uniform(0, case.writes_s))
            else:
                was_alive = kill_after(root, child, chance.uniform(0, case.takes_s * 1.2))
            seen["killed"] += was_alive
            seen["with a journal"] += has_journal(root)
            if number % 4 < 2:
                assert finish(start(root, ["recover"])) == 0
                left, allowed = tree(root), case.allowed
            else:
                assert finish(start(root, NEXT)) == 0
                left, allowed = tree(root), case.allowed_next
            assert left in allowed, (number, [different(left, each) for each in allowed])
            seen["as before" if left == allowed[0] else "as after"] += 1
            assert not has_journal(root)
    return seen


@pytest.mark.heavy
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_all_or_nothing(case_of: Callable[[str], Case], name: str):
    # The unit tests of the transaction die at every step of it, one after the other.
    seen = kill_many(case_of(name), 3, seed=1)
    print(name, dict(seen))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_very_often_leaves_all_or_nothing(
    case_of: Callable[[str], Case], name: str
):
    seen = kill_many(case_of(name), FULL[name], seed=time.time_ns())
    print(name, dict(seen))
    assert seen["with a journal"] > 0
    assert seen["as before"] > 0
    assert seen["as after"] > 0


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_process_leaves_all_or_nothing(case_of: Callable[[str], Case], count: int):
    """The same without a fork: interpreter, imports and all."""
    case = case_of("add")
    chance = random.Random(count)
    seen: Counter[str] = Counter()
    formatted = [word for word in case.command if word != "--no-format"]
    argv = [sys.executable, "-m", "scaffold", *formatted, "--target"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    took_s = 0.0  # of the shortest run that came to its end, the first of which is not killed
    while seen["killed"] < count:
        with copied(case.base) as root:
            began = time.perf_counter()
            process = subprocess.Popen(
                [*argv, str(root)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if took_s:
                time.sleep(chance.uniform(0.5, 1.1) * took_s)
                process.kill()
            process.wait()
            was_killed = process.returncode == -signal.SIGKILL
            if not was_killed:
                took_s = min(took_s or math.inf, time.perf_counter() - began)
            seen["killed"] += was_killed
            seen["with a journal"] += has_journal(root)
            assert finish(start(root, ["recover"])) == 0
            left = tree(root)
            assert left in case.allowed, [different(left, each) for each in case.allowed]
    print(dict(seen))


SKILL = "---\nname: {0}\ndescription: Use when testing.\n---\n\n# {0}\n\nDo it.\n"


METRIC = "class {0}Metric:\n    name = '{1}'\n\n    def compute(self, values):\n        return 1\n"
INIT = ["init", "--like", "pkg/alpha.py", "--kind", "metric", "--yes", "--no-import"]


def write_metrics(root: Path) -> None:
    """Writes a package with three siblings and the table that they stand in."""
    names = ("alpha", "beta", "gamma")
    (root / "pkg").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1"\n')
    for name in names:
        (root / "pkg" / f"{name}.py").write_text(METRIC.format(name.title(), name))
    imports = "".join(f"from pkg.{name} import {name.title()}Metric\n" for name in names)
    rows = "".join(f'    "{name}": {name.title()}Metric,\n' for name in names)
    (root / "pkg" / "__init__.py").write_text(f"{imports}\nMETRICS = {{\n{rows}}}\n")


@pytest.mark.parametrize(
    "command",
    [
        ["skills", "sync"],
        ["skills", "install", "../source"],
        pytest.param(INIT, marks=pytest.mark.heavy),
    ],
    ids=["sync", "install", "init"],
)
def test_recover_needs_a_journal_and_no_target(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some commands write to any repository, and one of them may be killed there."""
    write_metrics(tmp_path / "base")
    for folder, name in (("base", "one"), ("source", "two")):
        skill = tmp_path / folder / ".agents" / "skills" / name / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(SKILL.format(name))
    subprocess.run(["git", "init", "-q", tmp_path / "base"], check=True)
    before, ends = tree(tmp_path / "base"), set[str]()
    root = tmp_path / "base"
    for at in (*range(1, 60, 6), 10_000):
        root = shutil.copytree(tmp_path / "base", tmp_path / f"at{at}")
        monkeypatch.chdir(root)
        child = os.fork()
        if child == 0:
            kill_at(at, command)
        finish(child)
        if has_journal(root):
            monkeypatch.chdir(root / ".agents" / "skills")
            argv = [sys.executable, "-m", "scaffold", "recover"]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            ends.add(done.stdout.split()[-1])
    whole = tree(root)
    assert ends == {"undone", "finished"}
    assert whole != before
    for made in tmp_path.glob("at*"):
        assert tree(made) in (before, whole), different(tree(made), whole)


def kill_at(at: int, command: list[str]) -> None:
    """Runs a command in this process, which kills itself at a step of writing."""
    from scaffold.cli.main import main

    silence = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silence, stream)
    disk.DISK = FaultyDisk(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    try:
        main(command)
    except SystemExit:
        pass
    finally:
        os._exit(0)

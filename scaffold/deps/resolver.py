"""Ask a resolver in a scratch folder whether requirements go together, and read its answer."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from subprocess import CompletedProcess
from typing import Any, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name
from scaffold.deps.download import is_offline, run_pip, run_tool, unreachable
from scaffold.deps.lock_changes import differences, locked
from scaffold.deps.pin import Pin
from scaffold.deps.pins import RESOLVERS, is_requirements
from scaffold.errors import ScaffoldError

# `-r base.txt`, `--constraint=limits.txt`; then `-e .`, `./local` and `file:///x`, which are built.
_INCLUDE = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[ =]\s*(\S+)")
_LOCAL = re.compile(r"^\s*(-e|--editable)\b|^\s*(\.|/|file:)")

_MOST_ROWS = 12
# How pip reports a conflict: indented, who wants what; else, as of a missing release, its errors.
_PIP_WANTS = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)
_PIP_MISSES = re.compile(r"^ERROR: No matching distribution found for (.+)$", re.MULTILINE)
_PIP_LISTS = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_BUILDS = re.compile(r"building (?:from source|source distributions) is disabled")
_PIP_ERRORS = re.compile(r"^ERROR: .*$", re.MULTILINE)


@dataclass(frozen=True)
class Group:
    """A list of requirements that are installed together.

    Args:
        name: What to call it: the file, or the file and its table.
        lines: The requirements; for a file with ``-r`` and ``-c`` the options themselves.
        files: The texts of the files that the options name, by path.
        left_out: What is not resolved, because it would be built or lies outside.
    """

    name: str
    lines: tuple[str, ...]
    files: Mapping[str, str]
    left_out: tuple[str, ...] = ()


def groups_of(files: Files, pins: Iterable[Pin]) -> list[Group]:
    """Return the groups of a tree that have pins."""
    found: dict[str, Group] = {}
    # What takes each file of requirements in; the setup of setuptools is computed as often as not.
    takers: dict[str, list[str]] = {}
    for path in files.paths:
        if is_requirements(files, path):
            for inner in _included(path, files.text(path) or ""):
                takers.setdefault(inner, []).append(path)
    for pin in pins:
        if pin.variant or pin.path.rpartition("/")[2] == "tox.toml":
            group = _of_toml(pin, files.text(pin.path) or "")
            found.setdefault(group.name, group)
        elif is_requirements(files, pin.path) and not pin.why_fixed:
            around = _reached(pin.path, lambda path: takers.get(path, []))
            # Of files that take each other in, none is the outermost one.
            for root in [each for each in around if each not in takers] or [pin.path]:
                found.setdefault(root, _of_requirements(files, root))
    return [each for each in found.values() if each.lines]


def _reached(start: str, following: Callable[[str], Iterable[str]]) -> list[str]:
    """Return a path and all that it leads to, each once."""
    found = [start]
    for path in found:
        found += [each for each in dict.fromkeys(following(path)) if each not in found]
    return found


def _of_toml(pin: Pin, text: str) -> Group:
    table = tomllib.loads(text)
    if pin.group.startswith("tool.poetry"):
        return Group(pin.path, (), {})  # poetry's own resolver reads its own ranges
    # An extra or a group is installed together with the project's own dependencies.
    asked = [] if pin.group == "build-system.requires" else ["project.dependencies"]
    name = pin.path if pin.group in asked else f"{pin.path} {pin.group}"
    asked += [] if pin.group in asked else [pin.group]
    groups: dict[str, Any] = table.get("dependency-groups", {})
    lines: list[str] = []
    left_out: list[str] = []
    for dotted in asked:  # it grows while it is read
        for row in _list_at(table, dotted):
            if isinstance(row, str):
                # tox takes options of pip as well, and its own folder in braces.
                is_asked = not (_LOCAL.match(row) or row.lstrip().startswith(("-", "{")))
                (lines if is_asked else left_out).append(row)
                continue
            wanted = normal_name(str(row["include-group"]) if "include-group" in row else "")
            more = (f"dependency-groups.{each}" for each in groups if normal_name(each) == wanted)
            asked += [each for each in more if each not in asked]
    return Group(name, tuple(lines), {}, tuple(f"{pin.path}: {each}" for each in left_out))


def _list_at(value: Any, dotted: str) -> list[Any]:
    for key in dotted.split("."):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return cast("list[Any]", value) if isinstance(value, list) else []


def _included(path: str, text: str) -> list[str]:
    folder = PurePosixPath(path).parent
    rows = (_INCLUDE.match(row) for row in text.splitlines())
    return [os.path.normpath(folder / found[1]) for found in rows if found]


def _of_requirements(files: Files, root: str) -> Group:
    """Return a requirements file with all that it takes in, without what would be built."""

    def included(path: str) -> list[str]:
        return [each for each in _included(path, files.text(path) or "") if each in files.paths]

    taken: dict[str, str] = {}
    left_out: list[str] = []
    for path in _reached(root, included):
        rows = (files.text(path) or "").splitlines()
        left_out += [f"{path}: {row.strip()}" for row in rows if _LOCAL.match(row)]
        taken[path] = "".join(f"{row}\n" for row in rows if not _LOCAL.match(row))
    return Group(root, (f"-r {root}",), taken, tuple(left_out))


@dataclass
class Resolution:
    """A resolver's answer.

    Args:
        said: The resolver's own words where they do not go together, on who wants what.
        left_out: The requirements that it was not asked about.
        changed: The packages that the new lock has in another release, with both; "" for none.
    """

    group: str
    resolver: str
    ok: bool
    said: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()


def resolve_with_pip(group: Group, python: str | None) -> Resolution:
    """Resolve a group with pip: a dry run from wheels alone, so that nothing is built.

    Of a release without a wheel only its name is known, so that what it needs is left out.

    Raises:
        ScaffoldError: The index cannot be reached, or pip ends without an answer.
    """
    unbuilt: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="scaffold-deps-") as scratch:
        folder = Path(scratch)
        ask = partial(run_pip, python or sys.executable, folder=folder)
        # The layout of the tree is kept, as -r and -c are relative to the file that has them.
        asked = "asked-requirements.txt"
        _write(folder / "tree", {**group.files, asked: "\n".join(group.lines) + "\n"})
        # --ignore-installed: the running environment must not satisfy anything.
        options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--retries", "1"]
        options += ["--progress-bar", "off", "-r", str(folder / "tree" / asked)]
        while True:
            done = ask(["install", *options, "--find-links", str(folder)])
            said = f"{done.stdout}\n{done.stderr}"
            missing = _PIP_MISSES.search(said)
            if missing is None or not _stand_in(folder, wanted := Requirement(missing[1]), ask):
                break
            unbuilt[wanted.name] = None
    left_out = (*group.left_out, *(f"what {each} needs" for each in unbuilt))
    if done.returncode == 0:
        return Resolution(group.name, "pip", True, left_out=left_out)
    if is_offline(said):
        raise unreachable(said)
    errors = _PIP_ERRORS.findall(said)
    # A traceback of pip is no verdict about the requirements.
    if "ERROR: Exception:" in errors or not errors:
        raise ScaffoldError(
            f"pip ended with {done.returncode} and no answer for {group.name}",
            code="resolver_failed",
            hint=said.strip()[-400:] or "run it with --no-resolve",
        )
    # Hundreds of releases hide the sentence that lists them.
    errors = [re.sub(r" \(from versions: .{200,}\)$", "", each) for each in errors]
    rows = tuple(dict.fromkeys(_PIP_WANTS.findall(done.stderr + done.stdout) or errors))
    return Resolution(group.name, "pip", False, rows, left_out)


def _stand_in(
    folder: Path, wanted: Requirement, ask: Callable[[list[str]], CompletedProcess[str]]
) -> bool:
    """Write wheels that have nothing but a name for the releases that have none; False for none."""
    listed = _PIP_LISTS.search(ask(["index", "versions", "--pre", wanted.name]).stdout)
    name, is_new = canonicalize_name(wanted.name).replace("-", "_"), False
    for version in wanted.specifier.filter(listed[1].split(", ") if listed else []):
        stem = f"{name}-{version}"
        place = folder / f"{stem}-py3-none-any.whl"
        is_new = is_new or not place.exists()
        with zipfile.ZipFile(place, "w") as file:
            info = f"Metadata-Version: 2.1\nName: {wanted.name}\nVersion: {version}\n"
            file.writestr(f"{stem}.dist-info/METADATA", info)
            file.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    return is_new


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")


def own_resolver(paths: Sequence[str], pyproject: str) -> str:
    """Return the resolver whose lock or table a project has; "pip" where it has none."""
    # Only files at the top: a lock of an example is not that of the project.
    names = {path.rpartition("/")[2] for path in paths if "/" not in path}
    for name in RESOLVERS:
        if f"{name}.lock" in names or re.search(rf"^\[tool\.{name}\b", pyproject, re.MULTILINE):
            return name
    return "pip"


def resolve_with_lock(
    resolver: str, manifests: Mapping[str, str], names: Sequence[str], group: str
) -> Resolution | None:
    """Resolve a project in a scratch copy with the tool of its lock; None where pip has to answer.

    That is where the tool is not installed, or would have to build what has no wheel.

    Args:
        resolver: "uv", "poetry" or "pdm".
        manifests: The texts of the project files and the lock, edited, by path.
    """
    program = shutil.which(resolver)
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="scaffold-deps-") as scratch:
        folder = Path(scratch)
        _write(folder, manifests)
        error = partial(
            ScaffoldError,
            code="resolver_failed",
            hint="run it by hand, or plan with --no-resolve",
        )
        command = [program, *_words(resolver, names)]
        done = run_tool(command, folder, error, NO_COLOR="1", UV_NO_PROGRESS="1")
        place = folder / f"{resolver}.lock"
        lock = place.read_text(encoding="utf-8") if place.is_file() else ""
    said = f"{done.stdout}\n{done.stderr}"
    if done.returncode == 0:
        before = locked(manifests.get(f"{resolver}.lock", ""))
        # Without a lock before, everything would be new.
        changed = tuple(differences(before, locked(lock))) if before else ()
        return Resolution(group, resolver, True, changed=changed)
    if is_offline(said):
        raise unreachable(said)
    if _BUILDS.search(said):
        return None
    rows = [row.strip() for row in said.splitlines() if row.strip()]
    return Resolution(group, resolver, False, tuple(rows[-_MOST_ROWS:]))


def _words(resolver: str, names: Sequence[str]) -> list[str]:
    if resolver == "uv":
        upgraded = [word for name in names for word in ("--upgrade-package", name)]
        # Without --upgrade-package uv would keep the locked release; --no-build runs no backend.
        return ["lock", "--no-build", "--no-progress", "--color", "never", *upgraded]
    if resolver == "poetry":
        return ["update", "--lock", "--no-interaction", "--no-ansi", *names]
    return ["lock", "--no-isolation", "--update-reuse"]

"""Ask a resolver in a scratch folder whether requirements go together, and read its answer."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scaffold.deps.download import is_offline, run_pip, run_tool, unreachable
from scaffold.deps.groups import Group
from scaffold.deps.lock_changes import differences, locked
from scaffold.deps.pins import RESOLVERS
from scaffold.errors import ScaffoldError

_MOST_ROWS = 12
# What pip says of a conflict: indented, who wants what; else, as of a missing release, its errors.
_PIP_WANTS = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)
_PIP_MISSES = re.compile(r"^ERROR: No matching distribution found for (.+)$", re.MULTILINE)
_PIP_LISTS = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_BUILDS = re.compile(r"building (?:from source|source distributions) is disabled")
_PIP_ERRORS = re.compile(r"^ERROR: .*$", re.MULTILINE)


@dataclass
class Resolution:
    """A resolver's answer.

    Args:
        ok: Whether a set of releases was found.
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

"""Ask a resolver in a scratch folder whether requirements go together, and read its answer."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from scaffold.deps.download import is_offline, run_pip, run_tool, unreachable
from scaffold.deps.groups import Group
from scaffold.deps.lock_changes import locked
from scaffold.errors import ScaffoldError

_EXTRAS = r"(?:\[[^\]]*\])?"
# pip: "    The user requested click==8.0" and "    black[d] 24.1.0 depends on click>=8.0.0".
_WANTS = re.compile(
    r"^\s+(?P<by>The user requested(?: \(constraint\))?"
    rf"|[A-Za-z0-9][\w.-]*{_EXTRAS} \S+ depends on)\s+(?P<what>\S.*)$",
    re.MULTILINE,
)
_SPEC = r"[<>=!~^][^\s,;)]*(?:,\s?[<>=!~][^\s,;)]*)*"
# uv: "Because black<=24.1.0 depends on click>=8.0.0 and ..."; Poetry: "Because thing depends on
# black (24.1.0) which depends on click (>=8.0.0), ...". What one sentence ends with may begin the
# next, so it is only looked at.
_SENTENCE = re.compile(
    rf"(?P<by>[A-Za-z0-9][\w.-]*){_EXTRAS}(?P<version>{_SPEC}|\s?\([^)]*\))?(?: which)? depends on "
    rf"(?=(?P<what>[A-Za-z0-9][\w.-]*{_EXTRAS})(?P<spec>{_SPEC}|\s?\([^)]+\)))"
)
# pip, of a release that no index has.
_ABSENT = re.compile(r"(?:satisfies the requirement|No matching distribution found for) (\S+)")


class Want(NamedTuple):
    """One side of a conflict: who asks, and for what."""

    by: str
    requirement: str


@dataclass
class Resolution:
    """A resolver's answer.

    Args:
        group: What was resolved.
        resolver: The program that was asked.
        ok: Whether a set of releases was found.
        versions: The releases found, by distribution.
        wants: Who wants what, where they do not go together.
        text: The resolver's own words.
        left_out: The requirements that it was not asked about.
        changed: The packages that the new lock has in another release, with both; "" for none.
    """

    group: str
    resolver: str
    ok: bool
    versions: dict[str, str] = field(default_factory=dict[str, str])
    wants: list[Want] = field(default_factory=list[Want])
    text: str = ""
    left_out: tuple[str, ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()


def resolve_with_pip(group: Group, python: str | None) -> Resolution:
    """Resolve a group with pip: a dry run from wheels alone, so that nothing is built.

    Raises:
        ScaffoldError: The index cannot be reached, or pip ends without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="scaffold-deps-") as scratch:
        folder = Path(scratch)
        # The layout of the tree is kept, as -r and -c are relative to the file that has them.
        asked = "asked-requirements.txt"
        _write(folder / "tree", {**group.files, asked: "\n".join(group.lines) + "\n"})
        # --ignore-installed: the running environment must not satisfy anything.
        options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--retries", "1"]
        options += ["--progress-bar", "off", "--report", str(folder / "report.json")]
        words = ["install", *options, "-r", str(folder / "tree" / asked)]
        done = run_pip(python or sys.executable, words, folder)
        said = f"{done.stdout}\n{done.stderr}"
        if done.returncode == 0:
            report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            rows = (each["metadata"] for each in report["install"])
            found: dict[str, str] = {canonicalize_name(row["name"]): row["version"] for row in rows}
            return Resolution(group.name, "pip", True, found, left_out=group.left_out)
    if is_offline(said):
        raise unreachable(said)
    wants = _pip_wants(said)
    lines = [row for row in said.splitlines() if row.startswith("ERROR")]
    # A traceback of pip is no verdict about the requirements.
    if "ERROR: Exception:" in lines or not (wants or lines):
        raise ScaffoldError(
            f"pip ended with {done.returncode} and no answer for {group.name}",
            code="resolver_failed",
            hint=said.strip()[-400:] or "run it with --no-resolve",
        )
    text = "\n".join(lines)
    return Resolution(group.name, "pip", False, {}, wants, text, group.left_out)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")


def _pip_wants(said: str) -> list[Want]:
    found: list[Want] = []
    for each in _WANTS.finditer(said):
        by = each["by"].removesuffix(" depends on")
        by = "the manifest" if by.startswith("The user") else by
        found.append(Want(by, each["what"].strip()))
    if not found:
        found = [Want("the manifest", each) for each in dict.fromkeys(_ABSENT.findall(said))]
    return list(dict.fromkeys(found))


def own_resolver(paths: Sequence[str], pyproject: str) -> str:
    """Return the resolver whose lock or table a project has; "pip" where it has none."""
    # Only files at the top: a lock of an example is not that of the project.
    names = {path.rpartition("/")[2] for path in paths if "/" not in path}
    for name in ("uv", "poetry", "pdm"):
        if f"{name}.lock" in names or re.search(rf"^\[tool\.{name}\b", pyproject, re.MULTILINE):
            return name
    return "pip"


def resolve_with_lock(
    resolver: str, manifests: Mapping[str, str], names: Sequence[str], group: str
) -> Resolution | None:
    """Resolve a project in a scratch copy with the tool of its lock; None where it is not there.

    Args:
        resolver: "uv", "poetry" or "pdm".
        manifests: The texts of the project files and the lock, edited, by path.
        names: The packages whose pins moved.
        group: What to call what is resolved.
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
        before, after = locked(manifests.get(f"{resolver}.lock", "")), locked(lock)
        # Without a lock before, everything would be new.
        changed = tuple(
            (name, before.get(name, ""), after.get(name, ""))
            for name in sorted(before.keys() | after.keys() if before else ())
            if before.get(name) != after.get(name)
        )
        return Resolution(group, resolver, True, after, [], _last_lines(said), changed=changed)
    if is_offline(said):
        raise unreachable(said)
    # uv wraps its sentences to the width of a terminal.
    flat = " ".join(said.split())
    wants = dict.fromkeys(
        Want(each["by"] + _specifier(each["version"]), each["what"] + _specifier(each["spec"]))
        for each in _SENTENCE.finditer(flat)
    )
    return Resolution(group, resolver, False, {}, list(wants), _last_lines(said))


def _specifier(written: str | None) -> str:
    """Return a specifier without brackets; Poetry writes an exact release without operator."""
    bare = (written or "").replace(" ", "").strip("()")
    return f"=={bare}" if bare[:1].isdigit() else bare.removeprefix("*")


def _words(resolver: str, names: Sequence[str]) -> list[str]:
    if resolver == "uv":
        upgraded = [word for name in names for word in ("--upgrade-package", name)]
        # Without --upgrade-package uv would keep the locked release; --no-build runs no backend.
        return ["lock", "--no-build", "--no-progress", "--color", "never", *upgraded]
    if resolver == "poetry":
        return ["update", "--lock", "--no-interaction", "--no-ansi", *names]
    return ["lock", "--no-isolation", "--update-reuse"]


def _last_lines(said: str) -> str:
    return "\n".join(row for row in said.strip().splitlines()[-12:] if row.strip())

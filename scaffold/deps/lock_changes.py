"""The releases that locks and exact pins hold, and what changed in them since a commit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output, no_repository, run_git
from scaffold.deps.pins import is_requirements
from scaffold.errors import RequestError

_LOCK = re.compile(r"(^|/)(uv|poetry|pdm)[^/]*\.lock$|(^|/)pylock[^/]*\.toml$")
_PINNING = re.compile(r"(^|/)(pyproject[^/]*\.toml|setup\.(py|cfg))$")
_EXACT = re.compile(
    r"(?:^|[\"'])\s*(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]\n]*\])?\s*==\s*(?P<version>[\w.+!]+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class LockChange:
    """A package that is in another release now.

    Args:
        old: Its release then, "" where it was not there; several are joined by commas.
        new: Its release now, "" where it is gone.
    """

    name: str
    old: str
    new: str
    paths: tuple[str, ...]

    @property
    def is_move(self) -> bool:
        """Whether it is one release before and another one after."""
        return bool(self.old and self.new) and "," not in self.old + self.new

    @property
    def is_major(self) -> bool:
        """Whether the first number of the release that counts is another one."""
        try:
            old, new = Version(self.old).release, Version(self.new).release
        except InvalidVersion:
            return False
        # 0.4 -> 0.5 breaks as 1 -> 2 does.
        count = 2 if old[0] == new[0] == 0 else 1
        return old[:count] != new[:count]


def lock_changes(files: Files, since: str) -> list[LockChange]:
    """Return what changed in a tree's locks and exact pins since a commit, by name.

    Raises:
        TargetError: The tree is in no repository.
        RequestError: There is no such commit.
    """
    if run_git(files.root, "rev-parse", "--git-dir").returncode:
        raise no_repository(files.root)
    asked = ("rev-parse", "--verify", "--quiet", f"{since}^{{commit}}")
    if not git_output(files.root, *asked):
        raise RequestError(
            f"there is no commit {since!r} in this repository",
            code="revision_unknown",
            hint="give --since the commit before the upgrade, such as HEAD~1 or main",
        )
    found: dict[tuple[str, str, str], list[str]] = {}
    listed = git_output(files.root, "ls-tree", "-r", "--name-only", "-z", since) or b""
    before = set(listed.decode("utf-8", "surrogateescape").split("\0"))
    for path in sorted(before | set(files.paths)):
        if not (_LOCK.search(path) or _PINNING.search(path) or is_requirements(files, path)):
            continue
        # With a lock that went or came, everything would be new.
        if path not in before or path not in files.paths:
            continue
        data = git_output(files.root, "cat-file", "blob", f"{since}:./{path}") or b""
        old = releases_in(path, data.decode("utf-8", "replace"))
        new = releases_in(path, files.text(path) or "")
        for each in differences(old, new):
            found.setdefault(each, []).append(path)
    return [LockChange(*key, tuple(paths)) for key, paths in sorted(found.items())]


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the packages whose releases differ, each with both; "" where it is not there."""
    rows = (
        (name, old.get(name, ""), new.get(name, "")) for name in sorted(old.keys() | new.keys())
    )
    return [each for each in rows if each[1] != each[2]]


def releases_in(path: str, text: str) -> dict[str, str]:
    """Return the releases that a lock, or a manifest with exact pins, holds by name."""
    if _LOCK.search(path):
        return locked(text)
    found: dict[str, set[str]] = {}
    for each in _EXACT.finditer(text):
        found.setdefault(canonicalize_name(each["name"]), set()).add(each["version"])
    return _joined(found)


def locked(text: str) -> dict[str, str]:
    """Return the releases in a lock of uv, poetry or pdm; of several of one package all."""
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    found: dict[str, set[str]] = {}
    for each in [*read.get("package", []), *read.get("packages", [])]:
        if "version" in each:
            found.setdefault(canonicalize_name(each["name"]), set()).add(each["version"])
    return _joined(found)


def _joined(found: dict[str, set[str]]) -> dict[str, str]:
    return {name: ", ".join(sorted(each)) for name, each in found.items()}

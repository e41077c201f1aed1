"""What installing, renewing or removing one skill comes to: changes, and what is in its way."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.skills.install.lock import LockedFile, LockedSkill
from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.source_tree import SkillFile
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest

State = Literal["intact", "edited", "missing", "added"]


class Found(NamedTuple):
    """What is at a place: bytes and run bit, no plain file, or nothing (``data`` None)."""

    data: bytes | None
    executable: bool = False
    is_odd: bool = False
    """Whether it is a link, a folder, a pipe or a device, which is nobody's to replace."""


@dataclass(frozen=True)
class FilePlan:
    """What becomes of the files of one skill.

    Args:
        kept: Files that a person edited or deleted and that stay so; the source has them unchanged.
        conflicts: Files that a person edited and that are to become something else.
        blocked: Places of files where something else is that no option removes.
        lost: Edited files that are given up because somebody said so.
    """

    changes: tuple[Change, ...]
    kept: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def plan_files(
    target: Path,
    old: Iterable[LockedFile],
    new: Mapping[str, SkillFile],
    given_up: Container[str] = (),
) -> FilePlan:
    """Work out how the files of a skill become others; nothing is written.

    Args:
        new: The files to be, by path; none to remove the skill.
        given_up: Paths whose edits somebody has given up.

    Raises:
        ScaffoldError: A file cannot be read.
    """
    before = {file.path: file for file in old}
    changes: list[Change] = []
    kept: list[str] = []
    conflicts: list[str] = []
    blocked: list[str] = []
    lost: list[str] = []
    for path in sorted({*before, *new}):
        now, was, want = find(target, path), before.get(path), new.get(path)
        if _is_wanted(now, want):
            continue
        # What this tool never wrote is ours only if the place is empty.
        is_ours = now == Found(None) if was is None else is_intact(now, was)
        if not is_ours and path in given_up and not now.is_odd:
            # Of a file that was deleted there is no edit to copy.
            lost += [path] * (now.data is not None)
        # The source has not changed, so a person's edit conflicts with nothing.
        elif not is_ours and want is not None and was == _locked(path, want):
            kept.append(path)
            continue
        elif not is_ours:
            (blocked if now.is_odd else conflicts).append(path)
            continue
        if want is None:
            changes.append(Change(path, "deleted", now.data, None))
        else:
            action = "created" if now.data is None else "updated" if is_ours else "replaced"
            changes.append(Change(path, action, now.data, want.data, want.executable))
    return FilePlan(tuple(changes), tuple(kept), tuple(conflicts), tuple(blocked), tuple(lost))


def find(target: Path, path: str) -> Found:
    """Return what is at a path.

    Raises:
        ScaffoldError: It cannot be read.
    """
    place = target / path
    try:
        # is_symlink() first: exists() follows a link, and a dangling one looks like nothing.
        if place.is_symlink() or (place.exists() and not place.is_file()):
            return Found(None, is_odd=True)
        data = place.read_bytes()
        # Windows reports run bits by the ending of a name.
        return Found(data, bool(place.stat().st_mode & 0o111) and os.name != "nt")
    except (FileNotFoundError, NotADirectoryError):
        return Found(None)
    except OSError as error:
        raise ScaffoldError(
            f"{place} cannot be read: {error.strerror}",
            code="source_unreadable",
            hint="give read permission, or move it away",
        ) from error


def is_intact(now: Found, file: LockedFile) -> bool:
    # git may have checked the file out with CRLF.
    if now.data is None or file.sha256 not in (digest(now.data), digest(_as_text(now.data))):
        return False
    return now.executable == file.executable or os.name == "nt"


def file_states(target: Path, skill: LockedSkill) -> Iterator[tuple[str, State]]:
    """Yield every file of an installed skill, and those that are beside them, with its state."""
    known = {file.path for file in skill.files}
    for file in skill.files:
        now = find(target, file.path)
        if now == Found(None):
            yield file.path, "missing"
        else:
            yield file.path, "intact" if is_intact(now, file) else "edited"
    for root in skill.roots:
        for path in _standing(target, f"{root}/{skill.name}"):
            if path not in known:
                yield path, "added"


def locked_files(files: Mapping[str, SkillFile]) -> tuple[LockedFile, ...]:
    return tuple(_locked(path, file) for path, file in sorted(files.items()))


def _locked(path: str, file: SkillFile) -> LockedFile:
    return LockedFile(path, digest(file.data), file.executable)


def grown(old: Iterable[Permission], new: Iterable[Permission]) -> list[Permission]:
    """Return what a skill may do or hides by now that it did not before."""
    known = {each.identity for each in old if each.state != "dropped"}
    return [each for each in new if each.state != "dropped" and each.identity not in known]


def _is_wanted(now: Found, want: SkillFile | None) -> bool:
    # A removal has nothing left to do where the file is gone.
    if want is None or now.data is None:
        return want is None and now == Found(None)
    is_same = want.data in (now.data, _as_text(now.data))
    return is_same and (now.executable == want.executable or os.name == "nt")


def _as_text(data: bytes) -> bytes:
    """Return a text with the ends of lines that it had before git checked it out."""
    return data if b"\0" in data else data.replace(b"\r\n", b"\n")


def _standing(target: Path, folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(target / folder):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        inside = Path(place).relative_to(target).as_posix()
        yield from (f"{inside}/{name}" for name in sorted(names) if not name.endswith(".pyc"))

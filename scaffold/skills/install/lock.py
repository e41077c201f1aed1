"""The lock file: what was installed, from which commit, with the hash of every file.

``.scaffold/skills-lock.toml`` belongs into version control beside the skills. Updates, checks and
removals go by it, and by nothing else: a file that it does not name is never touched. Version 2
(version 1 has no subagents): a key ``schema`` and one table ``[[skills]]`` per skill or subagent
with ``[[skills.permissions]]`` and ``[[skills.files]]``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from scaffold.config import FieldError, Fields
from scaffold.errors import LedgerError, RequestError, ScaffoldError, is_private
from scaffold.skills.install.address import BUILTIN, Source, checked, is_address
from scaffold.skills.install.front_matter import MAX_NAME, NAME
from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.places import AGENT_ROOTS, ROOTS
from scaffold.skills.install.subagents import PREFIX, is_subagent, subagent_path

LOCK_SCHEMA = 2
"""The newest format of the lock file that this version reads."""

LOCK = ".scaffold/skills-lock.toml"

_HEAD = (
    "# Written by `scaffold skills install`: commit it with the skills. Updates, checks and\n"
    "# removals go by it.\n"
)


@dataclass(frozen=True)
class LockedFile:
    """A file as it was written.

    Args:
        path: Relative to the target.
    """

    path: str
    sha256: str
    executable: bool = False


@dataclass(frozen=True)
class LockedSkill:
    """Everything that is known of an installed skill.

    Args:
        name: As it is installed; of a subagent with ``agents/`` before it.
        source: Where it came from; a folder in a repository relative to that.
        kind: What the source is: "builtin", "folder" or "git".
        revision: The branch, tag or commit that was asked for.
        commit: The commit that has its files.
        version: The version of the tool, for its own pack.
        path: Its folder in the source.
        prefix: What was put before its name.
        grant_tools: Whether what it grants itself was left in.
        allow_hidden: Its files whose hidden text was agreed to.
        permissions: What it brought then.
    """

    name: str
    source: str
    kind: str
    revision: str
    commit: str
    version: str
    path: str
    prefix: str
    grant_tools: bool
    roots: tuple[str, ...]
    allow_hidden: tuple[str, ...]
    permissions: tuple[Permission, ...]
    files: tuple[LockedFile, ...]

    def origin(self, target: Path) -> Source:
        """Return the source to read the skill from again.

        Raises:
            LedgerError: The lock file names none that skills are read from.
        """
        if self.kind == "builtin":
            return Source("builtin")
        kind = "git" if self.kind == "git" else "folder"
        is_remote = kind == "git" and is_address(self.source)
        # Folders are kept relative to the repository, so that a clone finds them too.
        place = self.source if is_remote else os.path.abspath(target / self.source)
        try:
            return checked(Source(kind, place, self.revision))
        except RequestError as error:
            raise LedgerError(
                f"{LOCK} gives that as the source of {self.name}: {error.message}",
                code=error.code,
                hint="remove it with --remove, then install it from its new location",
            ) from error

    def described(self) -> str:
        pin = self.commit[:12] or self.version or "files as they stood"
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.source}{at} ({pin})"


def source_text(source: Source, target: Path, *, user: bool) -> str:
    """Return how the lock file names a source: nothing of one machine where that can be."""
    if source.kind == "builtin":
        return BUILTIN
    # A git repository on this disk has a path for its place, too.
    is_folder = source.kind == "folder" or os.path.isabs(source.place)
    if is_folder and not user:
        try:
            return Path(os.path.relpath(source.place, target)).as_posix()
        except ValueError:  # on another drive
            return Path(source.place).as_posix()
    return source.place


def read_lock(target: Path) -> dict[str, LockedSkill]:
    """Return the installed skills of a target by their names; none without a lock file.

    Raises:
        LedgerError: The file cannot be read, or a newer version wrote it.
    """
    try:
        data = (target / LOCK).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _invalid(f"{LOCK}: {error.strerror}") from error
    return parse_lock(data)


def parse_lock(data: bytes) -> dict[str, LockedSkill]:
    """Read the text of a lock file.

    Raises:
        LedgerError: It is none, a newer version wrote it, or it names files of others.
    """
    try:
        fields = Fields(tomllib.loads(data.decode()), LOCK)
        fields.check_schema(LOCK_SCHEMA, LedgerError)
        found = [_read_skill(row) for row in fields.tables("skills")]
        fields.done()
    except (FieldError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        text = str(error)
        raise _invalid(text if text.startswith(LOCK) else f"{LOCK}: {text}") from error
    by_name = {skill.name: skill for skill in found}
    if len(by_name) != len(found):
        raise _invalid(f"{LOCK} names a skill twice")
    return by_name


def dump_lock(skills: Mapping[str, LockedSkill]) -> bytes | None:
    """Return the text of a lock file, or None where nothing is installed."""
    import tomli_w  # not needed where nothing is written

    if not skills:
        return None
    rows = [_dump_skill(skills[name]) for name in sorted(skills)]
    return (_HEAD + tomli_w.dumps({"schema": LOCK_SCHEMA, "skills": rows})).encode()


def _dump_skill(skill: LockedSkill) -> dict[str, Any]:
    row: dict[str, Any] = {
        **asdict(skill),
        "roots": list(skill.roots),
        "allow_hidden": list(skill.allow_hidden),
        "permissions": [_filled(asdict(each)) for each in skill.permissions],
        "files": [_filled(asdict(each)) for each in skill.files],
    }
    return _filled(row)


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    # Defaults are left out, which keeps diffs of the lock file short.
    return {key: value for key, value in row.items() if value not in ("", [], False)}


def _read_skill(fields: Fields) -> LockedSkill:
    name = fields.text("name")
    plain = name.removeprefix(PREFIX)
    if not NAME.fullmatch(plain) or len(plain) > MAX_NAME:
        raise FieldError(f"{fields.where}: {name!r} is not the name of a skill or subagent")
    roots, known = fields.texts("roots"), AGENT_ROOTS if is_subagent(name) else ROOTS
    if not roots or not set(roots) <= set(known):
        raise FieldError(f"{fields.where}: roots must be of {', '.join(known)}")
    kind = fields.text("kind")
    if kind not in ("builtin", "folder", "git"):
        raise FieldError(f"{fields.where}: {kind!r} is not a source kind")
    texts = ("revision", "commit", "version", "path", "prefix")
    skill = LockedSkill(
        name,
        fields.text("source"),
        kind,
        *(fields.text(key, "") for key in texts),
        grant_tools=fields.boolean("grant_tools", False),
        roots=roots,
        allow_hidden=fields.texts("allow_hidden", ()),
        permissions=tuple(_read_permission(row) for row in fields.tables("permissions")),
        files=tuple(_read_file(row, name, roots) for row in fields.tables("files")),
    )
    fields.done()
    return skill


def _read_permission(row: Fields) -> Permission:
    found = Permission(
        cast("Any", row.text("kind")),
        row.text("file"),
        row.integer("line"),
        row.text("what"),
        cast("Any", row.text("state", "")),
    )
    row.done()
    return found


def _read_file(row: Fields, name: str, roots: Iterable[str]) -> LockedFile:
    """Read a row that names a file; one of anything but the skill would be deleted with it."""
    found = LockedFile(row.text("path"), row.text("sha256"), row.boolean("executable", False))
    row.done()
    parts = found.path.split("/")
    if is_subagent(name):
        is_own = found.path in [subagent_path(root, name) for root in roots]
    else:
        is_own = any(found.path.startswith(f"{root}/{name}/") for root in roots)
    # Removals delete what is named here, so a forged row must not reach any other file.
    if not is_own or {"", ".", ".."} & set(parts) or is_private(found.path):
        raise FieldError(f"{row.where}: {found.path!r} is not a file of {name}")
    return found


def _invalid(message: str) -> ScaffoldError:
    return LedgerError(
        message, code="skill_lock_invalid", hint="repair it, or restore it from version control"
    )

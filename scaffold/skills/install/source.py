"""Where skills come from: a folder, a commit of a git repository, or the pack of this tool."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from scaffold import __version__
from scaffold.skills.install import git
from scaffold.skills.install.heads import NAME, check_name, read_head
from scaffold.skills.install.tree import (
    SKILL_FILE,
    Entry,
    SkillFile,
    Tree,
    What,
    read_skill,
    tree_of_folder,
)
from scaffold.spec import RequestError, ScaffoldError, nearest

BUILTIN = "builtin"
"""What the pack that comes with the tool is called."""

Kind = Literal["builtin", "folder", "git"]

_SCP = re.compile(r"\w[\w.-]*@\w[\w.-]*:(?!//)\S+")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SCHEMES = ("https", "ssh", "file")
_FORMS = "a folder, https://..., ssh://..., file://..., user@host:path, or builtin"


@dataclass(frozen=True)
class Source:
    """Says where skills come from.

    Args:
        kind: "builtin", "folder" (its files as they stand) or "git" (a commit).
        place: The folder or address; "" for the pack of the tool.
        revision: The branch, tag or commit that was asked for; "" for none.
    """

    kind: Kind
    place: str = ""
    revision: str = ""

    def __str__(self) -> str:
        """Returns it as people write it."""
        if self.kind == "builtin":
            return BUILTIN
        return self.place + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True)
class Skill:
    """Is a skill as it stands in a source.

    Args:
        name: The name in its front matter.
        path: Its folder in the source; "" for the source itself.
        files: Its files by their paths in the folder.
        commit: The commit that has exactly these files, or "" where none is known to.
    """

    name: str
    path: str
    files: dict[str, SkillFile]
    commit: str = ""


@dataclass(frozen=True)
class Opened:
    """Is a source whose files can be read.

    Args:
        source: What it is.
        tree: Its files.
        commit: The commit that they were read from; "" for a folder.
        version: The version of the tool for its own pack, else "".
        head: For a folder: the commit its repository stands at, with the files in it.
    """

    source: Source
    tree: Tree
    commit: str = ""
    version: str = ""
    head: tuple[str, dict[str, git.Blob]] = ("", {})


def parse_source(text: str, revision: str, here: Path) -> Source:
    """Returns what a SOURCE on the command line means.

    Args:
        text: A folder, an address, or "builtin"; each but the last may end in ``@REVISION``.
        revision: A revision given apart from it, or "".
        here: What a relative folder is relative to.

    Raises:
        RequestError: It is nothing that skills can be read from.
    """
    if text == BUILTIN:
        if revision:
            raise _wrong(f"{BUILTIN} comes with the tool and has no revision {revision!r}")
        return Source("builtin")
    place, pinned = _split_revision(text, here)
    if pinned and revision and pinned != revision:
        raise _wrong(f"two revisions are named: {pinned!r} and {revision!r}")
    revision = pinned or revision
    if revision:
        _check_revision(revision)
    if is_address(place):
        _check_address(place)
        return Source("git", place, revision)
    folder = _folder(place, here)
    if folder is None:
        raise _wrong(f"there is no folder {place!r}", _hint_for(place))
    return Source("git" if revision else "folder", str(folder), revision)


def open_source(source: Source, scratch: Path) -> Opened:
    """Makes the files of a source readable; a remote is fetched.

    Args:
        source: What to read.
        scratch: A temporary folder that outlives what is returned.

    Raises:
        ScaffoldError: It cannot be read or reached.
    """
    if source.kind == "builtin":
        return Opened(source, tree_of_folder(pack_folder()), version=__version__)
    if source.kind == "folder":
        folder = Path(source.place)
        return Opened(source, tree_of_folder(folder), head=git.head_files(folder))
    if not is_address(source.place):
        folder = Path(source.place)
        commit = git.resolve(folder, source.revision)
    else:
        folder = scratch
        commit = git.fetch(source.place, source.revision, folder)
    listed = git.list_commit(folder, commit)
    entries = {path: _git_entry(blob) for path, blob in listed.items()}
    return Opened(source, Tree(entries, lambda keys: git.read_blobs(folder, keys)), commit)


def find_skills(opened: Opened) -> dict[str, list[str]]:
    """Returns the folders of the skills in a source by their last part, the likelier ones first.

    A skill below another one is a part of it. Where one stands in several places that clients read,
    that which people edit is taken.
    """
    folders = sorted(
        path.rpartition("/")[0]
        for path in opened.tree.entries
        if path.rpartition("/")[2] == SKILL_FILE
    )
    if "" in folders:
        return {"": [""]}
    outer: list[str] = []
    for folder in folders:
        if not any(folder.startswith(f"{each}/") for each in outer):
            outer.append(folder)
    ranks = {folder: _rank(folder) for folder in outer}
    if any(rank < _ODD for rank in ranks.values()):
        ranks = {folder: rank for folder, rank in ranks.items() if rank < _ODD}
    found: dict[str, list[str]] = {}
    for folder in sorted(ranks, key=lambda each: (ranks[each], each)):
        found.setdefault(folder.rpartition("/")[2], []).append(folder)
    return {
        name: [each for each in places if ranks[each] == ranks[places[0]]]
        for name, places in found.items()
    }


def take_skills(opened: Opened, wanted: Sequence[str]) -> list[Skill]:
    """Reads skills of a source; all of them where none is named.

    Args:
        opened: The source.
        wanted: Names of skills, or their folders in the source.

    Raises:
        ScaffoldError: There is no such skill, there are two, or one is unsound.
    """
    found = find_skills(opened)
    if not found:
        raise ScaffoldError(
            f"{opened.source} holds no skill: no folder with a {SKILL_FILE}",
            code="skill_unknown",
            hint="name the folder or repository that holds the skills",
        )
    names = list(dict.fromkeys(each.strip("/") for each in wanted)) or list(found)
    return [_take(opened, _folder_of(opened, found, name)) for name in names]


def take_again(opened: Opened, path: str, name: str) -> Skill:
    """Reads a skill anew from the folder where it was, or from where one of its name is by now.

    Raises:
        ScaffoldError: It is gone, or unsound.
    """
    is_there = (f"{path}/{SKILL_FILE}" if path else SKILL_FILE) in opened.tree.entries
    return _take(opened, path) if is_there else take_skills(opened, [name])[0]


def pack_folder() -> Path:
    """Returns the skills that come with the tool: inside the package, else in its checkout.

    Raises:
        ScaffoldError: The installation has none.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_data" / "skills", package.parent / ".agents" / "skills"):
        if folder.is_dir():
            return folder
    raise ScaffoldError(
        "this installation of the tool has no skills",
        code="source_invalid",
        hint="reinstall areal-scaffold",
    )


_ODD = 3
_COPIES = (".claude/skills", ".codex/skills", ".opencode/skills", ".opencode/skill")


def _rank(folder: str) -> int:
    """Returns how likely a folder is that of a skill for others, and the source of its copies."""
    above = folder.rpartition("/")[0]
    if above in ("", ".agents/skills", "skills"):
        return 0
    if above.endswith(_COPIES):
        return 2
    return 1 if f"/{above}".endswith("/skills") else _ODD


def _take(opened: Opened, folder: str) -> Skill:
    files = read_skill(opened.tree, folder)
    where = f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE
    name = check_name(read_head(files[SKILL_FILE].data, where).fields["name"].strip(), where)
    return Skill(name, folder, files, opened.commit or _commit_of(opened, folder))


def _commit_of(opened: Opened, folder: str) -> str:
    """Returns the commit of a folder's repository if it has the skill exactly as it stands."""
    commit, blobs = opened.head
    start = f"{folder}/" if folder else ""
    mine = {path: e for path, e in opened.tree.entries.items() if path.startswith(start)}
    theirs = {path: blob for path, blob in blobs.items() if path.startswith(start)}
    if not commit or mine.keys() != theirs.keys():
        return ""
    data = opened.tree.read(entry.key for entry in mine.values())
    is_same = all(
        _git_entry(blob)[:2] == mine[path][:2]
        and git.blob_id(data[mine[path].key], blob.oid) == blob.oid
        for path, blob in theirs.items()
    )
    return commit if is_same else ""


def _folder_of(opened: Opened, found: dict[str, list[str]], wanted: str) -> str:
    places = found.get(wanted)
    if places is None and f"{wanted}/{SKILL_FILE}" in opened.tree.entries:
        return wanted
    if places is None:
        places = _by_front_matter(opened, found, wanted)
    if not places:
        raise ScaffoldError(
            f"{opened.source} holds no skill {wanted!r}{nearest(wanted, filter(None, found))}",
            code="skill_unknown",
            hint="name one of these, or its folder in the source",
        )
    if len(places) > 1:
        raise ScaffoldError(
            f"{opened.source} holds {wanted or 'a skill'} twice: {', '.join(places)}",
            code="skill_ambiguous",
            hint="name the folder that is meant",
        )
    return places[0]


def _by_front_matter(opened: Opened, found: dict[str, list[str]], wanted: str) -> list[str]:
    """Returns the folders of skills that are named otherwise than their folders."""
    if not NAME.fullmatch(wanted):
        return []
    matching: list[str] = []
    for folder in (each for places in found.values() for each in places):
        path = f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE
        entry = opened.tree.entries[path]
        if entry.what != "file" or entry.size_bytes > 1 << 20:
            continue
        try:
            head = read_head(opened.tree.read([entry.key])[entry.key], path)
        except ScaffoldError:
            continue  # that one is broken, which is told when it is asked for
        if head.fields["name"].strip() == wanted:
            matching.append(folder)
    return matching


def _git_entry(blob: git.Blob) -> Entry:
    what = _GIT_MODES.get(blob.mode, "file")
    return Entry(what, blob.mode == "100755", blob.size_bytes, blob.oid)


_GIT_MODES: dict[str, What] = {"120000": "link", "160000": "submodule"}


def _folder(text: str, here: Path) -> Path | None:
    """Returns the folder that a text names, or None where none stands there."""
    try:
        folder = Path(os.path.abspath(here / Path(text).expanduser()))
        return folder if text and folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a text that no path can be, or nobody's home
        return None


def is_address(place: str) -> bool:
    """Tells whether a place is that of a remote, and no folder of this disk."""
    is_drive = os.name == "nt" and re.match(r"[A-Za-z]:[\\/]", place) is not None
    return not is_drive and bool(_URL.match(place) or _SCP.fullmatch(place))


def checked(source: Source) -> Source:
    """Returns a source that somebody else wrote down, if skills may be read from it.

    Raises:
        RequestError: They may not.
    """
    if source.revision:
        _check_revision(source.revision)
    if source.kind == "git" and is_address(source.place):
        _check_address(source.place)
    elif _folder(source.place, Path()) is None:
        raise _wrong(f"there is no folder {source.place}", "name the source anew: --remove first")
    return source


def _check_revision(revision: str) -> None:
    if not git.REVISION.fullmatch(revision) or ".." in revision:
        raise _wrong(f"{revision!r} is no name of a branch, tag or commit", "name one of these")


def with_revision(source: Source, revision: str) -> Source:
    """Returns a source at another revision.

    Raises:
        RequestError: It is no revision.
    """
    if source.kind == "builtin":
        raise _wrong(f"{BUILTIN} comes with the tool and has no revision {revision!r}")
    _check_revision(revision)
    return replace(source, kind="git", revision=revision)


def _split_revision(text: str, here: Path) -> tuple[str, str]:
    """Splits ``PLACE@REVISION``; an ``@`` of a user, a host or a scope in a path is none."""
    if (_URL.match(text) or _SCP.fullmatch(text)) and _folder(text, here) is None:
        start = text.find("://") + 3 if "://" in text else text.find(":")
        start = max(text.find("/", start), 0) if "://" in text else start
    elif _folder(text, here) is not None:
        return text, ""
    else:
        start = 0
    place, sign, revision = text[start:].rpartition("@")
    if not sign or not revision or place.endswith("/"):
        return text, ""
    return text[:start] + place, revision


def _check_address(place: str) -> None:
    if any(ord(char) <= 32 or ord(char) == 127 for char in place):
        raise _wrong(f"{place!r} holds a space or a control character")
    if _SCP.fullmatch(place) and "://" not in place:
        return
    scheme = place.partition(":")[0]
    if scheme not in _SCHEMES or not place.startswith(f"{scheme}://"):
        raise _wrong(f"{place!r} is no address that skills are fetched from")
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise _wrong(f"{place!r} is no address: {error}") from error
    if parts.password or (scheme == "https" and parts.username):
        raise _wrong(
            "the address holds a name or a password, which the lock file would make public",
            "take it out; git's credential helpers are asked as always",
        )
    host = parts.hostname or ("x" if scheme == "file" else "-")
    if host.startswith("-") or (parts.username or "").startswith("-"):
        raise _wrong(f"{place!r} names no host")


def _hint_for(place: str) -> str:
    if re.fullmatch(r"[\w.-]+/[\w.-]+", place):
        return f"a repository is named by its address: https://github.com/{place}"
    return f"name {_FORMS}"


def _wrong(message: str, hint: str = "") -> RequestError:
    return RequestError(message, code="source_invalid", hint=hint or f"name {_FORMS}")

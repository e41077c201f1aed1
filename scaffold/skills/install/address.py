"""SOURCE as people write it: a folder, the address of a repository, or the pack of this tool."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import RequestError
from scaffold.skills.install import git

BUILTIN = "builtin"
"""What the pack that comes with the tool is called."""

Kind = Literal["builtin", "folder", "git"]

# `git@host:path`, the short form of an address for ssh.
_SCP = lazy_re(r"\w[\w.-]*@\w[\w.-]*:(?!//)\S+")
_URL = lazy_re(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SCHEMES = ("https", "ssh", "file")
_FORMS = "a folder, https://..., ssh://..., file://..., user@host:path, or builtin"


@dataclass(frozen=True)
class Source:
    """Where skills come from.

    Args:
        kind: "builtin", "folder" (its files as they are) or "git" (a commit).
        place: The folder or address; "" for the pack of the tool.
        revision: The branch, tag or commit that was asked for; "" for none.
    """

    kind: Kind
    place: str = ""
    revision: str = ""

    def __str__(self) -> str:
        """Return it as people write it."""
        if self.kind == "builtin":
            return BUILTIN
        return self.place + (f"@{self.revision}" if self.revision else "")


def parse_source(text: str, revision: str, here: Path) -> Source:
    """Return what a SOURCE on the command line means.

    Args:
        text: A folder, an address, or "builtin"; each but the last may end in ``@REVISION``.
        revision: A revision given apart from it, or "".

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


def checked(source: Source) -> Source:
    """Return a source that somebody else wrote down, if skills may be read from it.

    Raises:
        RequestError: They may not.
    """
    # A lock file can be edited by anybody: what it names is checked like an argument.
    if source.revision:
        _check_revision(source.revision)
    if source.kind == "git" and is_address(source.place):
        _check_address(source.place)
    # A pinned folder is a repository on this disk, so it has to be there as well.
    elif _folder(source.place, Path()) is None:
        raise _wrong(
            f"there is no folder {source.place}",
            "remove it first with --remove, then install it from the new source",
        )
    return source


def _check_revision(revision: str) -> None:
    if not git.REVISION.fullmatch(revision) or ".." in revision:
        raise _wrong(
            f"{revision!r} is not the name of a branch, tag or commit", "name one of these"
        )


def with_revision(source: Source, revision: str) -> Source:
    """Return a source at another revision.

    Raises:
        RequestError: It is no revision.
    """
    if source.kind == "builtin":
        raise _wrong(f"{BUILTIN} comes with the tool and has no revision {revision!r}")
    _check_revision(revision)
    return replace(source, kind="git", revision=revision)


def _folder(text: str, here: Path) -> Path | None:
    """Return the folder that a text names, or None where there is none."""
    try:
        folder = Path(os.path.abspath(here / Path(text).expanduser()))
        return folder if text and folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a text that no path can be, or nobody's home
        return None


def is_address(place: str) -> bool:
    """Return whether a place is that of a remote, and no folder of this disk."""
    # C:\folder looks like a scheme with a path.
    is_drive = os.name == "nt" and re.match(r"[A-Za-z]:[\\/]", place) is not None
    return not is_drive and bool(_URL.match(place) or _SCP.fullmatch(place))


def _split_revision(text: str, here: Path) -> tuple[str, str]:
    """Split ``PLACE@REVISION``; an ``@`` of a user, a host or a scope in a path is none."""
    # A folder of that very name wins over every other reading of the text.
    if (_URL.match(text) or _SCP.fullmatch(text)) and _folder(text, here) is None:
        # The user's "@" precedes the path, where the search for a revision must not begin.
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
    # Control characters could split a request or hide the rest of the address on a terminal.
    if any(ord(char) <= 32 or ord(char) == 127 for char in place):
        raise _wrong(f"{place!r} contains a space or a control character")
    if _SCP.fullmatch(place) and "://" not in place:
        return
    scheme = place.partition(":")[0]
    if scheme not in _SCHEMES or not place.startswith(f"{scheme}://"):
        raise _wrong(f"{place!r} is not an address that skills can be fetched from")
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise _wrong(f"{place!r} is not an address: {error}") from error
    if parts.password or (scheme == "https" and parts.username):
        raise _wrong(
            "the address contains a user name or password, which the lock file would make public",
            "remove it; git's credential helpers are used",
        )
    host = parts.hostname or ("x" if scheme == "file" else "-")
    # ssh would read such a host or user as an option.
    if host.startswith("-") or (parts.username or "").startswith("-"):
        raise _wrong(f"{place!r} names no host")


def _hint_for(place: str) -> str:
    if re.fullmatch(r"[\w.-]+/[\w.-]+", place):
        return f"a repository is named by its address: https://github.com/{place}"
    return f"name {_FORMS}"


def _wrong(message: str, hint: str = "") -> RequestError:
    return RequestError(message, code="source_invalid", hint=hint or f"name {_FORMS}")

"""Unpack the text of a distribution: sources and metadata, nothing that runs, nothing outside."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from scaffold.errors import ScaffoldError

_TEXTS = (".py", ".pyi", ".pyx")
_METADATA = frozenset(
    {"METADATA", "PKG-INFO", "RECORD", "entry_points.txt", "top_level.txt"}
    | {"pyproject.toml", "setup.cfg", "setup.py"}
)
_COMPILED = (".so", ".pyd")
# A larger member is data and is left out; an archive with more bytes or members is refused.
MAX_MEMBER_BYTES = 8_000_000
MAX_BYTES = 600_000_000
MAX_MEMBERS = 200_000


def unpack(archive: Path, folder: Path) -> None:
    """Write the sources and metadata of a wheel or source archive below a folder.

    Extensions become empty files: their names count, their content is not text. Links are left
    out, and so is all that lies deeper than what a release is read for.

    Raises:
        ScaffoldError: The archive is broken, too large, or names a path outside of itself.
    """
    total = 0
    try:
        for number, (name, data) in enumerate(_members(archive)):
            total += len(data)
            if number > MAX_MEMBERS or total > MAX_BYTES:
                raise unreadable(archive, "it unpacks to more than the size limit of a package")
            place = folder / _safe(archive, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise unreadable(archive, str(error)) from error


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the wanted members by their path below the one folder of a source archive."""
    if archive.name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as file:
            # file_size is what the archive claims; zipfile reads no more than that.
            sizes = {each.filename: each.file_size for each in file.infolist() if not each.is_dir()}
            shared = "" if archive.name.endswith(".whl") else _shared(sizes)
            for name in filter(lambda name: _is_wanted(name, sizes[name]), sizes):
                yield name[len(shared) :], b"" if name.endswith(_COMPILED) else file.read(name)
        return
    with tarfile.open(archive) as file:
        # Links and devices are left out here, so none can redirect a later member.
        members = {each.name: each for each in file.getmembers() if each.isfile()}
        shared = _shared(members)
        for name, each in members.items():
            if _is_wanted(name, each.size):
                opened = file.extractfile(each) or io.BytesIO()
                yield name[len(shared) :], b"" if name.endswith(_COMPILED) else opened.read()


def _is_wanted(name: str, size: int) -> bool:
    if name.endswith(_COMPILED):
        return True
    last = name.rpartition("/")[2]
    return (name.endswith(_TEXTS) or last in _METADATA) and size <= MAX_MEMBER_BYTES


def _shared(names: Iterable[str]) -> str:
    """Return the one folder that everything in a source archive lies in, with its slash."""
    tops = {name.partition("/")[0] for name in names if "/" in name}
    return f"{tops.pop()}/" if len(tops) == 1 else ""


def _safe(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    # Backslash and colon are separators and drives on Windows, where the same archive is read too.
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts:
        raise unreadable(archive, f"it holds the path {name!r}")
    return path


def unreadable(archive: Path, reason: str) -> ScaffoldError:
    """Return the error for an archive that cannot be unpacked."""
    return ScaffoldError(
        f"{archive.name} cannot be read: {reason}",
        code="release_unreadable",
        hint="nothing was installed; ask the index for another release",
    )

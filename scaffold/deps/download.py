"""Fetch a release by pip's own configuration, and unpack its text; nothing is installed.

Pip downloads wheels alone: for a source archive it would run that archive's build backend. Where
a release has no wheel for this interpreter, the link that pip lists is fetched as a file.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from scaffold.analysis.process import end_like_ctrl_c, run_text
from scaffold.errors import RequestError, ScaffoldError

LIMIT_S = 600
MAX_ARCHIVE_BYTES = 800_000_000

# "Skipping link: No binaries permitted for x: https://host/x-1.0.tar.gz (from https://index/x/)".
_SKIPPED = re.compile(r"Skipping link: .*?: ((?:https?|file)://\S+?)(?:#\S*)?(?: \(from |$)", re.M)
# "Could not find a version that satisfies the requirement x==9 (from versions: 1.0, 1.1)".
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_OFFLINE = re.compile(
    r"NewConnectionError|Max retries|ConnectTimeout|Temporary failure|Name or service not known"
    r"|Could not fetch URL|Connection refused|ProxyError|getaddrinfo|SSLError|ReadTimeout"
    r"|Failed to establish"
)

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


def parse_version(text: str) -> Version:
    """Read a version.

    Raises:
        RequestError: It is none.
    """
    try:
        return Version(text)
    except InvalidVersion as error:
        raise RequestError(
            f"{text!r} is not a version",
            code="requirement_invalid",
            hint="give one release, such as 8.1.8",
        ) from error


def fetch_release(name: str, version: Version, python: str | None = None) -> Path:
    """Return the folder with the text of a release, from the cache or the package index.

    Raises:
        ScaffoldError: The index cannot be reached, has no such release, or its archive is broken.
    """
    place = _cache_folder() / f"{name}-{version}"
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, as a rename is atomic within one file system alone.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=place.parent) as scratch:
        folder = Path(scratch)
        archive = _download(name, version, folder / "archive", python or sys.executable)
        unpack(archive, folder / "tree")
        try:
            os.rename(folder / "tree", place)
        except OSError:
            if not place.is_dir():  # another run was faster
                raise
    return place


def _download(name: str, version: Version, folder: Path, python: str) -> Path:
    folder.mkdir()
    options = ["--no-deps", "--only-binary", ":all:", "--retries", "1", "--dest", str(folder)]
    # Only at -vv does pip list the links that it skips.
    done = run_pip(python, ["-vv", "download", *options, f"{name}=={version}"], folder)
    found = [each for each in folder.iterdir() if each.name.endswith(".whl")]
    if done.returncode == 0 and found:
        return found[0]
    said = f"{done.stdout}\n{done.stderr}"
    links = [link for link in _SKIPPED.findall(said) if _is_release(link, name, version)]
    if not links:
        raise _refusal(name, version, said)
    # A wheel of any platform is text enough, and a tar is what sdists are.
    links.sort(key=lambda link: (not link.endswith(".whl"), not link.endswith(".tar.gz"), link))
    return _fetch(links[0], folder)


def run_pip(python: str, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run pip in a scratch folder, where no file of the tree configures it.

    Raises:
        ScaffoldError: The interpreter has no pip, or that does not end.
    """
    command = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    error = partial(
        ScaffoldError, code="interpreter_lacks", hint="name a Python that has pip with --python EXE"
    )
    # Without PYTHONSAFEPATH `-m pip` would import a pip.py of the folder it runs in.
    done = run_tool(command, folder, error, PIP_NO_COLOR="1", PYTHONSAFEPATH="1")
    if "No module named pip" in done.stderr:
        raise error(f"{python} has no pip")
    return done


def run_tool(
    command: list[str], folder: Path, error: Callable[[str], ScaffoldError], **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that asks an index; the error is what a caller sees where it cannot start.

    Raises:
        ScaffoldError: It did not end within ``LIMIT_S``.
    """
    end_like_ctrl_c()
    try:
        return run_text(command, folder, LIMIT_S, **settings)
    except subprocess.TimeoutExpired as reason:
        raise ScaffoldError(
            f"the package index gave no answer within {LIMIT_S} s",
            code="index_unreachable",
            hint="try again, or plan with --no-resolve, which asks no index",
        ) from reason
    except OSError as reason:
        raise error(f"{command[0]} does not answer: {reason}") from reason


def _is_release(link: str, name: str, version: Version) -> bool:
    file = unquote(urlsplit(link).path).rpartition("/")[2]
    try:
        found = (
            parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
        )
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False
    return (found[0], found[1]) == (canonicalize_name(name), version)


def _fetch(link: str, folder: Path) -> Path:
    """Fetch one file that pip listed and did not take.

    Raises:
        ScaffoldError: The link needs credentials, which pip does not print, or does not answer, or
            the file is too large.
    """
    import ssl  # with it 40 ms that wheels do without
    import urllib.error
    import urllib.request

    parts = urlsplit(link)
    # pip masks the password in what it prints, so such a link cannot work.
    if "@" in parts.netloc or parts.scheme not in ("https", "http", "file"):
        raise ScaffoldError(
            f"the index lists {link}, which cannot be fetched without pip's credentials",
            code="release_unknown",
            hint="choose a release with a wheel for this interpreter",
        )
    place = folder / unquote(parts.path).rpartition("/")[2]
    # urllib ignores pip's own setting of certificates.
    certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=certificates)
    try:
        with urllib.request.urlopen(link, timeout=60, context=context) as answer:
            data = answer.read(MAX_ARCHIVE_BYTES + 1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise unreachable(str(error)) from error
    if len(data) > MAX_ARCHIVE_BYTES:
        raise unreadable(place, f"it is larger than {MAX_ARCHIVE_BYTES} bytes")
    place.write_bytes(data)
    return place


def _refusal(name: str, version: Version, said: str) -> ScaffoldError:
    versions = _VERSIONS.search(said)
    known = [each for each in (versions[1] if versions else "none").split(", ") if each != "none"]
    # An index that lists versions did answer, whatever warnings are beside it.
    if not known and is_offline(said):
        return unreachable(said)
    newest = ", ".join(known[-8:]) or "none"
    return ScaffoldError(
        f"the package index has no release {version} of {name} that can be read as files",
        code="release_unknown",
        hint=f"the newest that it lists: {newest}; `pip config list` shows which index is asked",
    )


def is_offline(said: str) -> bool:
    """Return whether what pip said is about a network that does not answer."""
    return _OFFLINE.search(said) is not None


def unreachable(said: str) -> ScaffoldError:
    """Return the error for an index that does not answer, with pip's own words."""
    rows = [row.strip() for row in said.splitlines() if _OFFLINE.search(row)]
    reason = rows[0] if rows else said.strip()
    return ScaffoldError(
        f"the package index cannot be reached: {reason[:300]}",
        code="index_unreachable",
        hint="check the network, and `pip config list` for the index and the proxy",
    )


def _cache_folder() -> Path:
    """Return the folder of unpacked releases, one for each set of indexes that pip uses."""
    import platformdirs  # few commands fetch anything

    # Two indexes may serve different files under one name and version.
    told = sorted((key, value) for key, value in os.environ.items() if key.startswith("PIP_"))
    asked = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
    return platformdirs.user_cache_path("areal-scaffold", appauthor=False) / "deps" / asked


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
    return ScaffoldError(
        f"{archive.name} cannot be read: {reason}",
        code="release_unreadable",
        hint="nothing was installed; ask the index for another release",
    )

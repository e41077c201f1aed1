"""What the last check of a repository found, kept outside of it, so that the next one is quick.

A document is not checked again while its text, its neighbours' form, the settings, the list of
files and every text that any verdict was drawn from are what they were. When in doubt everything is
checked: a check from memory must never say something else than a fresh one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import scaffold
from scaffold.repository.files import Files
from scaffold.skills.check.claim import Claim, Finding, Fix, Judged, Verdict
from scaffold.skills.check.documents import Document
from scaffold.skills.check.settings import Settings

# Any module of the tool may have a say in a verdict, and one that is added, too.
_TOOL = os.path.dirname(scaffold.__file__)


class Remembered(NamedTuple):
    """Is what was found in one document.

    Args:
        findings: Everything to report of it.
        judged: Its claims, without what their finders knew.
    """

    findings: list[Finding]
    judged: list[Judged]


@dataclass
class Memory:
    """Is what is known of earlier checks of one repository.

    Args:
        place: The file that it is kept in, or None: nothing is kept.
        known: What was found in documents, by a key of all that it followed from.
        texts: The size and time of every text that verdicts were drawn from.
        fresh: What this run adds.
    """

    place: Path | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    texts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    fresh: dict[str, Any] = field(default_factory=dict[str, Any])

    def recall(self, key: str) -> Remembered | None:
        """Returns what was found for a key, or None."""
        row = self.known.get(key)
        if row is None:
            return None
        self.fresh[key] = row
        try:
            findings = [_finding(each) for each in row["findings"]]
            return Remembered(findings, [_judged(each) for each in row["judged"]])
        except (KeyError, TypeError):
            return None

    def keep(self, key: str, findings: Sequence[Finding], judged: Sequence[Judged]) -> None:
        """Remembers what was found for a key."""
        rows = [_row(each) for each in judged]
        self.fresh[key] = {"findings": [each.to_json() for each in findings], "judged": rows}

    def write(self, files: Files, identity: str) -> None:
        """Writes what is known now; a disk that takes nothing is no fault of the check."""
        if self.place is None or self.fresh == self.known:
            return
        texts = {**self.texts, **{path: stamp(files, path) for path in files.read}}
        content = {"identity": identity, "texts": texts, "documents": self.fresh}
        beside = self.place.with_name(f"{self.place.name}.{os.getpid()}")
        with suppress(OSError):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(content), encoding="utf-8")
            beside.replace(self.place)


def recall_memory(files: Files, identity: str) -> Memory:
    """Returns what is known of a repository, as far as nothing that it followed from has changed.

    Args:
        files: The repository's files.
        identity: Of the tool, the settings and the list of files.
    """
    place = memory_file(files.root)
    try:
        content: Any = json.loads(place.read_text(encoding="utf-8"))
        if content["identity"] != identity:
            return Memory(place)
        texts = cast("dict[str, list[int]]", content["texts"])
        if any(stamp(files, path) != known for path, known in texts.items()):
            return Memory(place)
        return Memory(place, dict(content["documents"]), texts)
    except (OSError, ValueError, KeyError, TypeError):
        return Memory(place)


def memory_file(root: Path) -> Path:
    """Returns the file for a repository, in the user's cache folder.

    Source:
        The XDG Base Directory Specification, and the folders that Windows and macOS have for it.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return _cache_folder() / "areal-scaffold" / "skills-check" / f"{name}.json"


def _cache_folder() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


def identity_of(files: Files, settings: Settings) -> str:
    """Returns what all results depend on beside texts: the tool, the settings, the files there are.

    Ignored paths follow from the ``.gitignore`` files, which are counted as texts.
    """
    digest = hashlib.sha256("\n".join(tool_state(_TOOL)).encode("utf-8", "surrogateescape"))
    digest.update(repr(settings).encode())
    digest.update(files.listing)
    return digest.hexdigest()


def tool_state(folder: str) -> list[str]:
    """Returns the path, the size and the time of every source below a folder, sorted."""
    found: list[str] = []
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    known = entry.stat()
                    found.append(f"{entry.path} {known.st_size} {known.st_mtime_ns}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return sorted(found)


def document_key(document: Document, across: Sequence[Finding], *, is_copy: bool) -> str:
    """Returns what the findings of one document follow from, beside the repository."""
    head = f"{document.path}\0{document.kind}\0{is_copy}\0"
    digest = hashlib.sha256(head.encode("utf-8", "surrogateescape"))
    digest.update(b"installed\0" if document.is_installed else b"\0")
    digest.update(document.text.encode("utf-8", "surrogateescape"))
    digest.update(repr(across).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def stamp(files: Files, path: str) -> list[int]:
    """Returns what tells that a file has changed: its size, time and mode."""
    try:
        found = os.stat(files.root / path)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_mode]


def _finding(row: dict[str, Any]) -> Finding:
    given: dict[str, Any] = dict(row)
    if given["fix"] is not None:
        given["fix"] = Fix(**given["fix"])
    return Finding(**given)


def _row(judged: Judged) -> list[Any]:
    claim, verdict = judged.claim, judged.verdict
    return [claim.kind, claim.text, claim.line, claim.column, verdict.state, verdict.reason]


def _judged(row: list[Any]) -> Judged:
    kind, text, line, column, state, reason = row
    return Judged(Claim(kind, text, line, column), Verdict(state, reason))

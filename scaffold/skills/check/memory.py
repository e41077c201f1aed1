"""What the last check of a repository found, kept outside of it, so that the next one is quick.

A document is not checked again while its text, its neighbours' form, the files that it alone looked
into, the settings, the list of files and every text that any verdict was drawn from are what they
were. So a skill that was edited is checked alone, and after an edit of code, which an index that
all share is drawn from, everything is. When in doubt everything is checked: a check from memory
must never say something else than a fresh one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import scaffold
from scaffold.analysis.files.files import Files
from scaffold.findings import Finding, Fix
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Asked, Judged, Reference, Verdict
from scaffold.skills.check.settings import Settings

# Any module of the tool may have a say in a verdict, and one that is added, too.
_TOOL = os.path.dirname(scaffold.__file__)


class Task(NamedTuple):
    """One document to check.

    Args:
        document: The document.
        across: What was found in it beside the others.
        is_copy: Whether it has the content of another one, and counts there.
    """

    document: Document
    across: tuple[Finding, ...]
    is_copy: bool


class Remembered(NamedTuple):
    """What was found in one document.

    Args:
        findings: The faults of its form.
        judged: Its references, as the files alone answer them.
    """

    findings: list[Finding]
    judged: list[Judged]

    def to_row(self, looked_into: dict[str, list[int]]) -> dict[str, Any]:
        """Return it as plain data, without what the finders of claims knew (trees, spans).

        Args:
            looked_into: The stamps of the files that it followed from beside those read for all.
        """
        findings = [each.to_json() for each in self.findings]
        rows = [_row(each) for each in self.judged]
        return {"findings": findings, "judged": rows, "looked_into": looked_into}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Remembered:
        """Return what `to_row` gave.

        Raises:
            KeyError: It is no such row; a TypeError or a ValueError may tell the same.
        """
        findings = [_finding(each) for each in row["findings"]]
        return cls(findings, [_judged(each) for each in row["judged"]])


@dataclass
class Memory:
    """What is known of earlier checks of one repository.

    Args:
        files: The repository's files.
        place: The file that it is kept in, or None: nothing is kept.
        known: What was found in documents, by a key of all that it followed from.
        texts: The size and time of every text that verdicts were drawn from.
        fresh: What is known after this run: what it recalled, and what it found.
        num_new: How much of that it found.
    """

    files: Files
    place: Path | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    texts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    fresh: dict[str, Any] = field(default_factory=dict[str, Any])
    num_new: int = 0

    def recall(self, key: str) -> Remembered | None:
        """Return what was found for a key, or None."""
        row = self.known.get(key)
        try:
            if row is None or stamps(self.files, row["looked_into"]) != row["looked_into"]:
                return None
            found = Remembered.from_row(row)
        except (KeyError, TypeError, ValueError):
            return None
        self.fresh[key] = row
        return found

    def keep(self, key: str, row: dict[str, Any]) -> Remembered:
        """Return what was found now for a key, as `Remembered.to_row` gave it, and keep it."""
        self.fresh[key] = row
        self.num_new += 1
        return Remembered.from_row(row)

    def write(self, identity: str) -> None:
        """Write what is known now; a disk that takes nothing is no fault of the check."""
        if self.place is None or (not self.num_new and len(self.fresh) == len(self.known)):
            return
        texts = {**self.texts, **stamps(self.files, self.files.read)}
        content = {"identity": identity, "texts": texts, "documents": self.fresh}
        beside = self.place.with_name(f"{self.place.name}.{os.getpid()}")
        with suppress(OSError):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(content), encoding="utf-8")
            beside.replace(self.place)


def recall_memory(files: Files, identity: str) -> Memory:
    """Return what is known of a repository, as far as nothing that it followed from has changed.

    Args:
        files: The repository's files.
        identity: Of the tool, the settings and the list of files.
    """
    place = memory_file(files.root)
    try:
        content: Any = json.loads(place.read_text(encoding="utf-8"))
        if content["identity"] != identity:
            return Memory(files, place)
        texts = cast("dict[str, list[int]]", content["texts"])
        if stamps(files, texts) != texts:
            return Memory(files, place)
        return Memory(files, place, dict(content["documents"]), texts)
    except (OSError, ValueError, KeyError, TypeError):
        return Memory(files, place)


def memory_file(root: Path) -> Path:
    """Return the file for a repository, in the user's cache folder."""
    import platformdirs  # not needed with --no-cache

    name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    cache = platformdirs.user_cache_path("areal-scaffold", appauthor=False)
    return cache / "skills-check" / f"{name}.json"


def history_file(root: Path) -> Path:
    """Return the file for what the history of a repository answered, beside `memory_file`."""
    return memory_file(root).with_suffix(".history.json")


def identity_of(files: Files, settings: Settings) -> str:
    """Return what all results depend on beside texts: the tool, the settings, the files there are.

    Ignored paths follow from the ``.gitignore`` files, which are counted as texts.
    """
    digest = hashlib.sha256("\n".join(tool_state(_TOOL)).encode("utf-8", "surrogateescape"))
    digest.update(repr(settings).encode())
    digest.update(files.listing)
    return digest.hexdigest()


def tool_state(folder: str) -> list[str]:
    """Return the path, the size and the time of every source below a folder, sorted."""
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


def document_key(task: Task) -> str:
    """Return what the findings of one document follow from, beside the repository."""
    document, across, is_copy = task
    head = f"{document.path}\0{document.kind}\0{is_copy}\0"
    digest = hashlib.sha256(head.encode("utf-8", "surrogateescape"))
    digest.update(b"installed\0" if document.is_installed else b"\0")
    digest.update(document.text.encode("utf-8", "surrogateescape"))
    digest.update(repr(across).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def stamps(files: Files, paths: Iterable[str]) -> dict[str, list[int]]:
    """Return what shows that files have changed: their size, time and mode."""
    return {path: _stamp(files, path) for path in paths}


def _stamp(files: Files, path: str) -> list[int]:
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
    reference, verdict, *rest = judged
    fix = list(verdict.fix) if verdict.fix is not None else None
    asked = [list(verdict.asked.paths), *verdict.asked[1:]] if verdict.asked is not None else None
    said = [*verdict[:5], fix, asked, *verdict[7:]]
    return [list(reference[:4]), said, *rest]


def _judged(row: list[Any]) -> Judged:
    reference, said, near, wide, group = row
    reason, evidence, rule, message, now, fix, asked, *others = said
    verdict = Verdict(
        reason, evidence, rule, message, now,
        Fix(*fix) if fix is not None else None,
        Asked(tuple(asked[0]), *asked[1:]) if asked is not None else None,
        *others,
    )  # fmt: skip
    return Judged(Reference(*reference), verdict, near, wide, group)

"""Rendered files as their target writes them: place, header, docstrings, formatting."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import ScaffoldError
from scaffold.target.formatters import Formatter, find_formatters, format_files
from scaffold.target.style import FileStyle, apply_file_style, learn_file_style, learn_test
from scaffold.target.target import Target
from scaffold.transaction.change import Change

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile

MAX_SIBLINGS = 40
"""How many files beside the new one are read to learn from; more would tell no more."""

MAX_TESTS = 20_000
"""In a folder with more files of tests, nothing is learned from where they are."""


def find_file_style(target: Target, names: Mapping[str, str]) -> FileStyle:
    """Return the style of a unit's files: as the target configures it, else as its files have it.

    Args:
        target: Where the unit goes.
        names: The unit's names; ``source`` determines which files it will be beside.
    """
    siblings = _siblings(target.root, names.get("source", ""))
    learned = learn_file_style(siblings)
    header = target.style.get("header", "").strip("\n")
    test = target.style.get("test", "")
    # Only where the manifest puts tests below the folder of the tests is there anything to learn.
    if not test and names.get("test", "").startswith(target.tests + "/"):
        test = learn_test((PurePosixPath(path).stem for path in siblings), _tests(target))
    return FileStyle(
        header + "\n" if header else learned.header,
        target.style.get("docstrings", learned.docstrings),
        {"test": test} if test else {},
    )


def restyle(
    target: Target,
    files: Sequence[RenderedFile],
    file_style: FileStyle,
    *,
    with_format: bool = True,
) -> tuple[tuple[RenderedFile, ...], tuple[str, ...]]:
    """Return rendered files as the target would write them, and warnings.

    Args:
        target: Where they go.
        files: What was rendered.
        file_style: How the target writes.
        with_format: Whether the target's formatters run; they are programs that it names.
    """
    texts = {file.path: apply_file_style(file.path, file.data, file_style) for file in files}
    formatters = _formatters(target) if with_format else ()
    texts, warnings = format_files(target.root, texts, formatters)
    return tuple(replace(file, data=texts[file.path]) for file in files), warnings


def tidy(target: Target, changes: Iterable[Change], entries: Iterable[Entry]) -> tuple[Change, ...]:
    """Return changes in which an edited registry is formatted, if it was before the edit.

    A formatter may break a line that an entry made too long. Where the file was not in its form
    before, or an entry cannot be found afterwards, the edit stays as it is.
    """
    found = tuple(changes)
    edited = {each.path: each for each in found if each.action == "edited" and each.before}
    formatters = [each for each in _formatters(target) if any(map(each.takes, edited))]
    if not formatters:
        return found
    before = {path: change.before or b"" for path, change in edited.items()}
    after = {path: change.after or b"" for path, change in edited.items()}
    # A registry that was not in the formatter's form before would change all over.
    was, _ = format_files(target.root, before, formatters)
    now, _ = format_files(target.root, after, formatters)
    rows = list(entries)
    fresh = {
        path
        for path in edited
        if was[path] == before[path] and now[path] != after[path] and _holds(now, path, rows)
    }
    return tuple(c._replace(after=now[c.path]) if c.path in fresh else c for c in found)


def _holds(texts: Mapping[str, bytes], path: str, entries: Iterable[Entry]) -> bool:
    try:
        return all(shapes.has_entry(texts[path], each) for each in entries if each.file == path)
    except ScaffoldError:
        return False


def _formatters(target: Target) -> tuple[Formatter, ...]:
    return find_formatters(target.root, target.format)


def _siblings(root: Path, source: str) -> dict[str, str]:
    folder = (root / source).parent
    if not source.endswith(".py") or not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py")
    paths = [path for path in found if path.is_file()]  # no pipe, nor a link to a device
    return {path.name: _text_or_empty(path) for path in paths[:MAX_SIBLINGS]}


def _tests(target: Target) -> list[str]:
    found: list[str] = []
    for folder, names, files in os.walk(target.root / target.tests):
        # os.walk descends into what is left in this list.
        names[:] = [name for name in names if not name.startswith((".", "_", "node_modules"))]
        inside = Path(folder).relative_to(target.root)
        found += [(inside / name).as_posix() for name in files if name.endswith(".py")]
        if len(found) > MAX_TESTS:
            return []
    return found


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""

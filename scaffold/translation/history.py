"""The sections of a page as they were when they were translated, from git's history."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.translation.reading import read_page

MAX_REVISIONS = 300
"""So many states of a page are looked at; a translation older than that is begun anew."""


def old_sections(files: Files, path: str, hashes: frozenset[str]) -> dict[str, str]:
    """Return the text of the sections that had these hashes, as far as git has them."""
    found: dict[str, str] = {}
    if not (hashes and files.has_git):
        return found
    for text in _states(files, path):
        page = read_page(path, text)
        for section in page.sections:
            if section.hash in hashes:
                found.setdefault(section.hash, page.text(section))
        # Each state costs a process and a parse.
        if len(found) == len(hashes):
            break
    return found


def _states(files: Files, path: str) -> Iterator[str]:
    """Yield the states of a file, the newest first; renames are followed."""
    limit = f"--max-count={MAX_REVISIONS}"
    # %x01 separates the entries: git quotes control characters in the names of files.
    argv = ("log", "--follow", "--format=%x01%H", "--name-only", limit, "--", path)
    listed = git_output(files.root, *argv) or b""
    for entry in listed.decode("utf-8", "surrogateescape").split("\x01")[1:]:
        commit, *names = [row for row in entry.split("\n") if row]
        if names:
            data = git_output(files.root, "cat-file", "blob", f"{commit}:{names[0]}")
            if data is not None:
                yield data.decode("utf-8-sig", "replace")

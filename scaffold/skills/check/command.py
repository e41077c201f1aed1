"""The command ``scaffold skills check``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scaffold.report import Report
from scaffold.skills.check.checking import Outcome, check_repository
from scaffold.skills.check.output.human import to_text
from scaffold.skills.check.output.json import to_json
from scaffold.skills.repository.files import Files
from scaffold.skills.repository.whole import Repository
from scaffold.spec import RequestError, TargetError

FORMATS = ("human", "json", "sarif", "github")


@dataclass(frozen=True)
class CheckWish:
    """Is what a check is asked for.

    Args:
        start: The folder it was started in, absolute.
        paths: Skills, folders or further Markdown files; none means all guidance.
        show_undecided: Whether people see the claims that could not be decided, too.
    """

    start: Path
    paths: tuple[str, ...] = ()
    show_undecided: bool = False


def check_skills(wish: CheckWish) -> Report:
    """Checks the guidance of the repository around a folder.

    Raises:
        TargetError: There is no such path, or the repository's settings are wrong.
    """
    root, chosen = find_root(wish)
    repository = Repository.at(root)
    pages = _pages(chosen, repository.files)
    outcome = check_repository(repository, pages)
    if chosen:
        outcome = narrowed(outcome, chosen)
    report = Report("skills check", ok=outcome.is_clean)
    report.text = to_text(outcome, show_undecided=wish.show_undecided)
    report.extra = to_json(outcome)
    return report


def _pages(chosen: Sequence[str], files: Files) -> list[str]:
    """Returns the Markdown that was pointed at, alone or by its folder."""
    return [
        path
        for path in files.paths
        if path.endswith((".md", ".mdc"))
        and any(path == each or path.startswith(f"{each}/") for each in chosen)
    ]


def find_root(wish: CheckWish) -> tuple[Path, list[str]]:
    """Returns the repository's root, and the chosen paths relative to it.

    The root is that of git around the first path; without git, the path itself where it is a
    folder and the folder it was started in otherwise.

    Raises:
        TargetError: A path does not exist.
        RequestError: Two paths are of different repositories.
    """
    places = [wish.start / path for path in wish.paths] or [wish.start]
    for place in places:
        if not os.path.lexists(place):
            raise TargetError(
                f"there is no {place}", code="target_missing", hint="name a folder or a file"
            )
    first = places[0].resolve()
    folder = first if first.is_dir() else first.parent
    root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if root is None:
        inside = first.is_relative_to(wish.start)
        root = folder if first.is_dir() and not inside else wish.start
        root = folder if wish.paths and first.is_dir() else root
    chosen: list[str] = []
    for place in places if wish.paths else []:
        real = place.resolve()
        if not real.is_relative_to(root):
            raise RequestError(f"{place} is not in {root}", code="usage")
        if real != root:
            chosen.append(real.relative_to(root).as_posix())
    return root, chosen


def narrowed(outcome: Outcome, chosen: Sequence[str]) -> Outcome:
    """Returns the part of an outcome that is about the chosen files and folders."""

    def counts(path: str) -> bool:
        return any(path == each or path.startswith(f"{each}/") for each in chosen)

    judged = {path: rows for path, rows in outcome.judged.items() if counts(path)}
    findings = [each for each in outcome.findings if counts(each.path)]
    return Outcome(findings, judged, len({*judged, *(each.path for each in findings)}))

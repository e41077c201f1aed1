"""The command `scaffold review`: it looks at a change and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.errors import TargetError
from scaffold.findings import write_findings
from scaffold.report import Report
from scaffold.vcs.repository import open_repository
from scaffold.vcs.review.analysis import Analysis, analyse
from scaffold.vcs.review.findings import RULES
from scaffold.vcs.review.report import to_data, to_markdown
from scaffold.vcs.review.revisions import Which, compare
from scaffold.vcs.review.settings import read_settings

if TYPE_CHECKING:
    import git

COMMAND = "review"


def review(folder: Path, which: Which, form: str = "human", *, quick: bool = False) -> Report:
    """Return the CHANGE_ANALYSIS_REPORT of a change.

    Args:
        folder: A folder of the repository.
        which: The states to compare.
        form: One of `scaffold.findings.FORMATS`; people read Markdown.
        quick: Whether pyright and ruff are left out.

    Raises:
        ScaffoldError: There is no repository, no such revision, or a setting is wrong.
    """
    repository = open_repository(folder)
    try:
        return _review(repository, which, form, quick=quick)
    except git_errors() as error:
        said = str(getattr(error, "stderr", "") or error).strip().removeprefix("stderr:")
        raise TargetError(
            f"git cannot read the repository of {str(folder)!r}: {said.strip(' ')}",
            code="repository_missing",
            hint="`git fsck` shows what it lacks; a fresh clone has all of it",
        ) from error
    finally:
        repository.close()


def git_errors() -> tuple[type[Exception], ...]:
    """Return what GitPython raises where git fails, or where an object is not there."""
    import git

    return git.GitCommandError, git.BadObject


def _review(repository: git.Repo, which: Which, form: str, *, quick: bool) -> Report:
    # Settings come from the old state: a change does not choose the rules that it is judged by.
    comparison = compare(repository, which)
    try:
        return _report(analyse(comparison, read_settings(comparison.old), quick=quick), form)
    finally:
        comparison.close()


def _report(analysis: Analysis, form: str) -> Report:
    comparison = analysis.comparison
    text = to_markdown(analysis)
    if not analysis.files:
        text = (
            f"nothing to review: {comparison.new_name} does not differ from {comparison.old_name} "
            f"({comparison.why})\n"
        )
    report = Report(COMMAND, text=text, extra={"review": to_data(analysis)})
    return write_findings(report, form, analysis.findings, RULES)

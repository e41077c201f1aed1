"""The command `scaffold review`: it looks at a change and writes nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from scaffold.findings import write_findings
from scaffold.report import Report
from scaffold.vcs.repository import open_repository
from scaffold.vcs.review.analysis import analyse
from scaffold.vcs.review.findings import RULES
from scaffold.vcs.review.report import to_data, to_markdown
from scaffold.vcs.review.revisions import Which, compare
from scaffold.vcs.review.settings import read_settings

COMMAND = "review"


def review(folder: Path, which: Which, form: str = "human", *, quick: bool = False) -> Report:
    """Return the CHANGE_ANALYSIS_REPORT of a change.

    Args:
        form: One of `scaffold.findings.FORMATS`; people read Markdown.

    Raises:
        ScaffoldError: There is no repository, no such revision, or a setting is wrong.
    """
    with open_repository(folder) as repository, closing(compare(repository, which)) as comparison:
        # Settings come from the old state: a change does not choose the rules that judge it.
        analysis = analyse(comparison, read_settings(comparison.old), quick=quick)
        text = to_markdown(analysis)
        if not analysis.files:
            text = (
                f"nothing to review: {comparison.new_name} does not differ from "
                f"{comparison.old_name} ({comparison.why})\n"
            )
        report = Report(COMMAND, text=text, extra={"review": to_data(analysis)})
        return write_findings(report, form, analysis.findings, RULES)

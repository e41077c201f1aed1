"""Is what this repository tells agents and readers true? Its own checker says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import Outcome, check_repository
from scaffold.skills.check.report.human import to_text

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Checks all guidance, the README and the English pages."""
    repository = Repository.at(ROOT)
    pages = [
        path
        for path in repository.files.paths
        if path in ("README.md", "CONTRIBUTING.md")
        or (path.startswith(("docs/en/", "docs/decisions/")) and "/rules/" not in path)
    ]
    return check_repository(repository, [page for page in pages if page.endswith(".md")])


def test_nothing_is_wrong(outcome: Outcome) -> None:
    assert not outcome.findings, to_text(outcome)


def test_most_of_what_the_skills_claim_is_decided(outcome: Outcome) -> None:
    """Silence about texts without claims would look like proof."""
    rows = [
        row
        for path, judged in outcome.judged.items()
        if path.startswith(".agents/skills/")
        for row in judged
    ]
    decided = sum(row.verdict.reason == "true" for row in rows)
    assert len(rows) > 200
    assert decided > 0.5 * len(rows)

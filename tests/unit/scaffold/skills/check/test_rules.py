"""Every rule finds what its fixture breaks, there and only there, and leaves near misses alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import Outcome, check_repository
from scaffold.skills.check.rules import RULES
from scaffold.skills.check.since import since
from tests.skill_fixtures import RuleFixture, Tree, read_fixture, read_fixtures, unpack

FIXTURES = read_fixtures()


def test_every_rule_has_a_fixture() -> None:
    assert sorted(FIXTURES) == sorted(RULES)


@pytest.mark.parametrize("fixture", FIXTURES.values(), ids=FIXTURES)
def test_what_breaks_a_rule_is_found(fixture: RuleFixture, tmp_path: Path) -> None:
    outcome = checked(fixture.bad, tmp_path, fixture.before)
    found = [f"{each.path}:{each.line}" for each in outcome.findings if each.rule == fixture.rule]
    assert found == sorted(fixture.bad.places, key=_order), told(outcome)
    assert {each.rule for each in outcome.findings} == {fixture.rule}, told(outcome)


@pytest.mark.parametrize("fixture", FIXTURES.values(), ids=FIXTURES)
def test_what_only_looks_broken_is_left_alone(fixture: RuleFixture, tmp_path: Path) -> None:
    outcome = checked(fixture.near_miss, tmp_path, fixture.before)
    assert outcome.num_documents > 0, "the tree holds no guidance at all"
    assert not outcome.findings, told(outcome)


@pytest.mark.parametrize(
    "text",
    [
        "loose\n== bad\n== near-miss\n",
        "== bad\n?? a.md:1\n-- a.md --\n",
        "== bad\n-- a.md --\n== near-miss\n-- a.md --\n",
        "== bad\n?? a.md:1\nloose\n-- a.md --\n== near-miss\n-- a.md --\n",
    ],
)
def test_a_broken_fixture_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rule.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"rule\.txt"):
        read_fixture(path)


def test_a_fixture_keeps_modes_links_and_escapes(tmp_path: Path) -> None:
    path = tmp_path / "rule.txt"
    path.write_text(
        "== bad\n?? a.md:1\n-- a.md -- mode=755 escaped\n\\u200bé\n-- b.md -> a.md --\n"
        "== near-miss\n-- a.md --\n"
    )
    tree = read_fixture(path).bad
    root = unpack(tree, tmp_path / "tree")
    assert (root / "a.md").read_text() == "\u200bé\n"
    assert (root / "a.md").stat().st_mode & 0o777 == 0o755
    assert (root / "b.md").readlink() == Path("a.md")


def checked(tree: Tree, folder: Path, before: Tree | None = None) -> Outcome:
    """Checks a tree of a fixture; where one was before it, what was broken since."""
    repository = Repository.at(unpack(tree, folder / "repository", before))
    outcome = check_repository(repository)
    return outcome if before is None else since(outcome, repository, "HEAD")


def told(outcome: Outcome) -> str:
    """Returns the findings, for the message of a failing test."""
    return "\n".join(
        f"{each.path}:{each.line} {each.rule}: {each.message} ({each.evidence})"
        for each in outcome.findings
    )


def _order(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line)

"""The subjects and the tests near to a change, for the description of a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from scaffold.analysis.files.revision import tree_files
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.analysis.project.test_marks import marks_of
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.pull_request.risks import Risk, Surroundings
from scaffold.vcs.repository import Repository
from scaffold.vcs.review.domains import SEVERITIES, UNKNOWN, Domain, domains_of, tests_of
from scaffold.vcs.review.settings import read_settings
from scaffold.vcs.roles import role_of


def surroundings_of(
    repository: Repository, old: str, new: str, changes: Sequence[FileChange], key: KeyChanges
) -> Surroundings:
    """Return the subjects of a change, the gravest first, and the test files near to it.

    Near are those that change, and those that are named after a changed file.

    Args:
        old: The commit that the change begins at; its settings of reviews count.

    Raises:
        RequestError: The settings of reviews are wrong.
    """
    with closing(tree_files(repository.root, old)) as before:
        settings = read_settings(before)
    own: dict[str, Domain] = {}
    for each in changes:
        role = role_of(each.path, None, settings.roles)
        if role != "test":
            names = [one.name for one in key.symbols if one.path == each.path]
            own[each.path] = domains_of(each.path, role, names, settings.domains)[0]
    # A set has another order in each process.
    ranked = sorted(dict.fromkeys(own.values()), key=lambda each: SEVERITIES.index(each.severity))
    risks = [
        Risk(
            domain.title,
            domain.severity,
            domain.look,
            tuple(path for path, found in own.items() if found == domain),
        )
        for domain in ranked
        if domain.severity in ("HIGH", "MEDIUM")
    ]
    with closing(tree_files(repository.root, new)) as files:
        tests = [path for path in files.paths if role_of(path, None, settings.roles) == "test"]
        changed = {each.path for each in changes}
        named = tests_of(UNKNOWN, own, tests)
        near = tuple(path for path in tests if path in changed or path in named)
        marks = {path: marks_of(files.text(path) or "") for path in near}
        return Surroundings(tuple(risks), near, marks, PytestNames(files).default_markers)

"""The whole analysis of a change, from two states of a repository to findings and readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.analysis.project.test_marks import marks_of, selected
from scaffold.analysis.python.index import PythonIndex
from scaffold.findings import Finding
from scaffold.vcs.definitions import SymbolChange, why_unread, with_moves
from scaffold.vcs.dependencies import DependencyChange, dependency_changes
from scaffold.vcs.review.changed_file import ChangedFile, read_changed_files, shifted_constructors
from scaffold.vcs.review.diagnostics import new_diagnostics
from scaffold.vcs.review.domains import (
    SEVERITIES,
    Domain,
    Settings,
    Severity,
    domains_of,
    expert_for,
    read_agents,
    tests_of,
    worst,
)
from scaffold.vcs.review.findings import (
    ChangedDefault,
    broken_calls,
    broken_syntax,
    changed_defaults,
    lost_modules,
    lost_names,
)
from scaffold.vcs.review.revisions import Comparison
from scaffold.vcs.review.uses import Key, Use, Uses, dropped_imports, watched_definitions
from scaffold.vcs.roles import SOURCE, role_of

_SOUGHT = (SOURCE, "manifest", "config", "ci", "other", "guidance")
"""The roles of files whose definitions have users that matter to a reviewer."""


@dataclass(frozen=True)
class Reading:
    """One reading that the change wants.

    Args:
        tests: Test files to run for it: those named after the files, then those of the domain.
        agent: The subagent of the repository for it; None where it has nobody.
    """

    domain: Domain
    paths: tuple[str, ...]
    tests: tuple[str, ...]
    agent: str | None
    why: str


class Deselected(NamedTuple):
    """A test file of which the markers that ``addopts`` names leave tests out.

    Args:
        runs: How many of its tests pytest runs where it is asked for nothing else.
        markers: The expression of ``addopts``.
    """

    path: str
    runs: int
    tests: int
    markers: str


@dataclass(frozen=True)
class Analysis:
    """The whole analysis that a review begins with.

    Args:
        domains: What each of them is about, its own domain first.
        tests: The test files that use each definition that changed, by the definition.
        deselected: The tests near to the change that pytest leaves out unasked.
        findings: What is certainly broken.
        readings: The readings that the change wants, the gravest first.
        notes: What was not read, and why.
    """

    comparison: Comparison
    files: tuple[ChangedFile, ...]
    domains: dict[str, tuple[Domain, ...]]
    symbols: tuple[SymbolChange, ...]
    dependencies: tuple[DependencyChange, ...]
    uses: tuple[Use, ...]
    tests: dict[Key, tuple[str, ...]]
    deselected: tuple[Deselected, ...]
    findings: tuple[Finding, ...]
    defaults: tuple[ChangedDefault, ...]
    readings: tuple[Reading, ...]
    notes: tuple[str, ...]

    @property
    def severity(self) -> Severity:
        """The gravest severity of a file's own domain."""
        return worst(each[0] for each in self.domains.values())

    @property
    def untested(self) -> tuple[SymbolChange, ...]:
        """The public callables of sources that changed and that no test is seen to use."""
        return tuple(
            each
            for each in self.symbols
            if each.role == SOURCE
            and each.how in ("added", "head", "body")
            and each.symbol.is_public
            and each.symbol.kind != "constant"
            # Python calls special methods itself, so no test names them.
            and not each.last_name.startswith("__")
            and not self.tests.get((each.path, each.name))
        )


def analyse(comparison: Comparison, settings: Settings, *, quick: bool = False) -> Analysis:
    files = read_changed_files(comparison, settings.roles)
    users, before = Uses(comparison.new), PythonIndex(comparison.old)
    found = [each for file in files for each in file.symbol_changes()]
    found += [each for file in files for each in shifted_constructors(file, before, users.index)]
    symbols = with_moves(found)
    dependencies = tuple(
        change
        for each in files
        for change in dependency_changes(each.path, each.old_text, each.new_text)
    )
    roles = ((path, role_of(path, None, settings.roles)) for path in comparison.new.paths)
    is_test = {path for path, role in roles if role == "test"}.__contains__
    sought = [each for each in symbols if each.role in _SOUGHT]
    wanted = watched_definitions([each for each in sought if each.how != "added"])
    changes = (each.change for each in files if each.path.endswith(".py"))
    both = [each.path for each in changes if each.old_path == each.new_path]
    # `lost` are places that still name what is gone.
    uses, lost = users.find([*wanted, *dropped_imports(both, before, users.index)])
    # What is new can be in use only where something changed.
    fresh = watched_definitions([each for each in sought if each.how == "added"])
    uses += users.find(fresh, {each.path for each in files}.__contains__)[0]
    own = {
        *broken_calls(wanted, uses, users.index, before),
        *lost_names(lost),
        *lost_modules(files, users, comparison.old),
        *broken_syntax(files),
    }
    checked, notes = list[Finding](), ["pyright and ruff: --quick leaves them out"]
    if not quick:
        near = (each.path for each in (*uses, *lost))
        beside = list(dict.fromkeys((*near, *users.importers(each.path for each in files))))
        checked, notes = new_diagnostics(
            comparison.old, comparison.new, files, beside, users.guards_of
        )
    # One fault is one finding: what the reader of calls explains comes first.
    for each in checked:
        if (each.path, each.line) not in {(one.path, one.line) for one in own}:
            own.add(each)
    domains = {
        file.path: domains_of(
            file.path,
            file.role,
            [each.name for each in symbols if each.path == file.path],
            settings.domains,
        )
        for file in files
    }
    tests = _tests(sought, uses, is_test)
    unread = [
        f"the definitions of {each.path}: {why_unread(each.path)}"
        for each in files
        if each.is_unread_source and not each.change.is_submodule
    ]
    readings = tuple(_readings(comparison, domains, settings, is_test))
    near_tests = {path for rows in (*tests.values(), *(e.tests for e in readings)) for path in rows}
    return Analysis(
        comparison,
        files,
        domains,
        symbols,
        dependencies,
        tuple(uses),
        tests,
        tuple(_deselected(comparison.new, sorted(near_tests))),
        tuple(sorted(own, key=lambda each: (each.path, each.line, each.rule, each.claim))),
        changed_defaults(files, uses, users.index),
        readings,
        tuple(dict.fromkeys([*users.notes, *notes, *unread])),
    )


def _tests(
    symbols: Sequence[SymbolChange], uses: Sequence[Use], is_test: Callable[[str], bool]
) -> dict[Key, tuple[str, ...]]:
    """Return the test files that use each definition; an import alone runs none."""
    found: dict[Key, set[str]] = {(each.path, each.name): set() for each in symbols}
    for use in uses:
        if use.how != "import" and is_test(use.path):
            found.setdefault(use.key, set()).add(use.path)
    return {key: tuple(sorted(paths)) for key, paths in found.items()}


def _deselected(files: Files, paths: Sequence[str]) -> Iterator[Deselected]:
    """Yield the test files that a plain run of pytest does not run, or not whole."""
    markers = PytestNames(files).default_markers
    for path in paths if markers else ():
        marks = marks_of(files.text(path) or "")
        runs = len(selected(marks, markers))
        if runs < len(marks):
            yield Deselected(path, runs, len(marks), markers)


def _readings(
    comparison: Comparison,
    domains: dict[str, tuple[Domain, ...]],
    settings: Settings,
    is_test: Callable[[str], bool],
) -> Iterator[Reading]:
    """Yield one reading for each domain that is a file's own, with its other files."""
    # From the old state, so that a change cannot appoint its own reviewer.
    agents = read_agents(comparison.old)
    all_tests = [path for path in comparison.new.paths if is_test(path)]
    wanted = {each[0].id: each[0] for each in domains.values()}
    for domain in sorted(wanted.values(), key=lambda each: SEVERITIES.index(each.severity)):
        paths = tuple(sorted(path for path, rows in domains.items() if rows[0].id == domain.id))
        expert = expert_for(domain, agents, settings.agents or {})
        agent, why = expert or (None, "the repository has no subagent for it")
        yield Reading(domain, paths, tests_of(domain, paths, all_tests), agent, why)

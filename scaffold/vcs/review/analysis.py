"""The whole analysis of a change, from two states of a repository to readings and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.index import PythonIndex
from scaffold.findings import Finding
from scaffold.vcs.dependencies import DependencyChange, dependency_changes
from scaffold.vcs.review.changed_file import ChangedFile, Line, read_changed_files
from scaffold.vcs.review.checklist import Reading, read_agents, readings
from scaffold.vcs.review.definition_changes import SymbolChange, symbol_changes
from scaffold.vcs.review.findings import (
    broken_calls,
    lost_modules,
    lost_names,
    unread_syntax,
)
from scaffold.vcs.review.revisions import Comparison
from scaffold.vcs.review.roles import SOURCE, role_of
from scaffold.vcs.review.rule import RISKS, Risk, Rule, RuleSet, worst
from scaffold.vcs.review.rule_matching import Matcher, Signal, is_at
from scaffold.vcs.review.settings import Settings, passes_of, rules_of
from scaffold.vcs.review.test_reach import Reach, reach_of
from scaffold.vcs.review.uses import Use, Uses
from scaffold.vcs.review.watched_definitions import Key, watched_definitions
from scaffold.vcs.symbols import why_unread

_SOUGHT = (SOURCE, "manifest", "config", "ci", "other", "guidance")
"""The roles of files whose definitions have users that matter to a reviewer."""


@dataclass(frozen=True)
class Analysis:
    """The whole analysis that a review begins with.

    Args:
        comparison: The two states.
        files: The changed files.
        symbols: What happened to definitions.
        dependencies: What happened to dependencies.
        uses: Who uses the definitions that changed.
        reach: How tests reach them.
        findings: What is certainly broken.
        signals: What the rules see, the gravest first.
        readings: The passes that the change wants.
        active: The names of the sets of rules that were asked.
        notes: What was not read, and why.
    """

    comparison: Comparison
    files: tuple[ChangedFile, ...]
    symbols: tuple[SymbolChange, ...]
    dependencies: tuple[DependencyChange, ...]
    uses: tuple[Use, ...]
    reach: dict[Key, Reach]
    findings: tuple[Finding, ...]
    signals: tuple[Signal, ...]
    readings: tuple[Reading, ...]
    active: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def risk(self) -> Risk:
        """The gravest risk that a rule names."""
        return worst(each.rule.risk for each in self.signals)

    def risk_of(self, path: str) -> Risk:
        """Return the gravest risk that a rule names for a file."""
        return worst(each.rule.risk for each in self.signals if each.path == path)


def analyse(comparison: Comparison, settings: Settings) -> Analysis:
    """Return the analysis of a change.

    Args:
        comparison: The two states.
        settings: The rules, and the repository's settings of them.
    """
    files = read_changed_files(comparison, settings.roles)
    symbols = _with_exports(symbol_changes(files), comparison)
    dependencies = tuple(
        change
        for each in files
        for change in dependency_changes(each.path, each.old_text, each.new_text)
    )
    users = Uses(comparison.new)
    is_test = _test_teller(comparison.new, settings)
    sought = [each for each in symbols if each.role in _SOUGHT]
    wanted = watched_definitions([each for each in sought if each.how != "added"])
    # `lost` are places that still name what is gone.
    found, lost = users.find(wanted)
    # What is new can be in use only where something changed.
    fresh = watched_definitions([each for each in sought if each.how == "added"])
    found += users.find(fresh, {each.path for each in files}.__contains__)[0]
    reach = reach_of(sought, found, users, is_test)
    findings = sorted(
        {
            *broken_calls(wanted, found, users.index, PythonIndex(comparison.old)),
            *lost_names(lost),
            *lost_modules(files, users, comparison.old),
            *unread_syntax(files),
        },
        key=lambda each: (each.path, each.line, each.rule),
    )
    active = tuple(each for each in settings.sets if _is_active(each, comparison.new, files))
    rules = rules_of(settings, active)
    signals = list(Matcher(files, symbols, dependencies).signals(rules))
    has_tests = any(is_test(path) for path in comparison.new.paths)
    signals += _fact_signals(rules, findings, sought, reach, has_tests=has_tests)
    notes = [*users.notes, *_unread(files)]
    if not has_tests:
        notes.append("tests: this repository has none that its path shows to be one")
    # Gravest first; id and path make the order the same in every run.
    signals.sort(key=lambda each: (RISKS.index(each.rule.risk), each.rule.id, each.path))
    roles = {each.role for each in files}
    chosen = settings.agents or {}
    # From the old state, so that a change cannot appoint its own reviewer.
    agents = read_agents(comparison.old)
    return Analysis(
        comparison,
        files,
        symbols,
        dependencies,
        tuple(found),
        reach,
        tuple(findings),
        tuple(signals),
        readings(signals, roles, passes_of(settings), agents, chosen),
        tuple(each.name for each in active),
        tuple(dict.fromkeys(notes)),
    )


def _test_teller(files: Files, settings: Settings) -> Callable[[str], bool]:
    known = {path: role_of(path, None, settings.roles) == "test" for path in files.paths}
    return lambda path: known.get(path, False)


def _with_exports(
    changes: Sequence[SymbolChange], comparison: Comparison
) -> tuple[SymbolChange, ...]:
    """Return changes of definitions, with those marked that their package offered before."""
    index = PythonIndex(comparison.old)
    return tuple(
        replace(each, is_exported=_is_exported(each, comparison.old, index))
        if each.how in ("removed", "head") and each.symbol.is_public and each.role == SOURCE
        else each
        for each in changes
    )


def _is_exported(change: SymbolChange, files: Files, index: PythonIndex) -> bool:
    """Return whether a package around a definition, or a list in its module, offers it."""
    path = change.old_path or ""
    top = change.name.partition(".")[0]
    folder, _, name = path.rpartition("/")
    if name == "__init__.py":
        return True
    while folder:
        # Each package around the file may re-export its names, not only the nearest.
        package = f"{folder}/__init__.py"
        # The word is looked for first: resolving a name costs the parse of the package.
        if package in files.paths and top in (files.text(package) or ""):
            found = index.find_in(package, top)
            if found.exists and found.path == path:
                return True
        folder = folder.rpartition("/")[0]
    return False


def _is_active(rules: RuleSet, files: Files, changed: Sequence[ChangedFile]) -> bool:
    """Return whether the repository is in the field of a set, judged by its imports."""
    if not rules.active_imports:
        return True
    if any(set(rules.active_imports) & (each.new_imports | each.old_imports) for each in changed):
        return True
    names = "|".join(re.escape(each) for each in rules.active_imports)
    pattern = re.compile(rf"^[ \t]*(?:from|import)[ \t]+(?:{names})\b".encode(), re.MULTILINE)
    return any(pattern.search(files.data(path) or b"") for path in files.python)


def _fact_signals(
    rules: Sequence[Rule],
    findings: Sequence[Finding],
    symbols: Sequence[SymbolChange],
    reach: dict[Key, Reach],
    *,
    has_tests: bool,
) -> Iterator[Signal]:
    """Yield the signals of rules about facts, file by file."""
    untested = [
        each
        for each in unreached(symbols, reach)
        if has_tests and reach[each.path, each.name].imported is None
    ]
    for rule in rules:
        for fact in rule.when.facts:
            places = [(each.path, each.line, each.claim) for each in findings if each.rule == fact]
            if fact == "untested":
                places = [(each.path, each.symbol.start, each.name) for each in untested]
            for path in sorted({path for path, _, _ in places if is_at(rule.when, path)}):
                lines = tuple(Line("new", line, said) for at, line, said in places if at == path)
                yield Signal(rule, path, lines)


def unreached(symbols: Sequence[SymbolChange], reach: dict[Key, Reach]) -> Iterator[SymbolChange]:
    """Yield the public callables of sources that changed and that no test is seen to use."""
    for each in symbols:
        is_asked = each.role == SOURCE and each.symbol.is_public and each.symbol.kind != "constant"
        # Python calls special methods itself, so no test names them.
        is_special = each.last_name.startswith("__")
        how = each.how in ("added", "head", "body")
        if is_asked and how and not is_special and not reach[each.path, each.name].is_seen:
            yield each


def _unread(files: Sequence[ChangedFile]) -> Iterator[str]:
    for each in files:
        if each.is_unread_source and not each.change.is_submodule:
            yield f"the definitions of {each.path}: {why_unread(each.path)}"

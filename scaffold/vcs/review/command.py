"""The command `scaffold review`, and its CHANGE_ANALYSIS_REPORT as Markdown and as data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import closing
from pathlib import Path
from typing import Any

from scaffold.findings import write_findings
from scaffold.report import Report
from scaffold.vcs.definitions import SymbolChange
from scaffold.vcs.repository import listed, open_repository
from scaffold.vcs.review.analysis import Analysis, analyse
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.domains import SEVERITIES, read_settings
from scaffold.vcs.review.findings import RULES
from scaffold.vcs.review.revisions import Which, compare
from scaffold.vcs.review.uses import Key

COMMAND = "review"

# How much of each list a report shows; `--json` has all of it.
_MOST_USES = 8
_MOST_ROWS = 60
_MOST_PLACES = 20
_STATUS = {
    "A": "added", "C": "copied", "D": "deleted", "M": "changed", "R": "renamed", "T": "other type",
    "U": "unmerged",
}  # fmt: skip
_HOW = {"head": "head changed", "body": "body changed"}
_COLUMNS = {
    "severity": "CRITICAL, HIGH, MEDIUM or LOW",
    "file:line": "`path:12`",
    "claim": "what happens, for which input",
    "evidence": "the lines, a run, a source",
    "fix": "what would fix it",
    "confidence": "certain, likely or a question",
}
TEMPLATE = "".join(
    f"| {' | '.join(cells)} |\n" for cells in (_COLUMNS, ["---"] * len(_COLUMNS), _COLUMNS.values())
)


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


def to_markdown(analysis: Analysis) -> str:
    sections = {
        "Summary": _summary(analysis),
        "Files": _files(analysis),
        "Findings": _findings(analysis),
        "Changed defaults": _defaults(analysis),
        "Symbols": _symbols(analysis),
        "Callers": _callers(analysis),
        "Tests": _tests(analysis),
        "Readings": _readings(analysis),
        "Not read": (f"- {each}" for each in analysis.notes),
    }
    bodies = {heading: "\n".join(rows).rstrip() for heading, rows in sections.items()}
    parts = [f"## {heading}\n\n{body or 'None.'}\n" for heading, body in bodies.items()]
    head = "# CHANGE_ANALYSIS_REPORT\n"
    return "\n".join([head, *parts, f"## Findings template\n\n{TEMPLATE}"])


def to_data(analysis: Analysis) -> dict[str, Any]:
    """Return the report as the JSON that its schema describes."""
    comparison = analysis.comparison
    change = {"status": "change.status", "old_path": "change.old_path", "role": "role"}
    counts = {"added": "change.added_count", "removed": "change.removed_count"}
    heads = {"old_head": "old.head", "new_head": "new.head"}
    domain = {each: f"domain.{each}" for each in ("title", "severity", "look")}
    found = _rows(analysis.findings, "path", "line", "claim", "evidence", fact="rule")
    files = _rows(analysis.files, "path", is_binary="change.is_binary", **change, **counts)
    for each in files:
        domains = analysis.domains[each["path"]]
        each |= {"domains": [one.id for one in domains], "severity": domains[0].severity}
    public = {"is_public": "symbol.is_public", "kind": "symbol.kind", "line": "symbol.start"}
    symbols = _rows(analysis.symbols, "path", "name", "how", "old_path", **public, **heads)
    for row, each in zip(symbols, analysis.symbols, strict=True):
        row["breaks"] = each.breaks if each.how == "head" else None
    callers = _rows(analysis.uses, "path", "line", "inside", "how")
    for row, each in zip(callers, analysis.uses, strict=True):
        row["of"] = {"path": each.key[0], "name": each.key[1]}
    tests = sorted(analysis.tests.items())
    return {
        "old": comparison.old_name,
        "new": comparison.new_name,
        "why": comparison.why,
        "commits": list(comparison.subjects),
        "severity": analysis.severity,
        "files": files,
        "findings": found,
        "defaults": [each._asdict() for each in analysis.defaults],
        "symbols": symbols,
        "dependencies": [each._asdict() for each in analysis.dependencies],
        "callers": callers,
        "tests": [{"path": path, "name": name, "files": each} for (path, name), each in tests],
        "deselected": [each._asdict() for each in analysis.deselected],
        "untested": _rows(analysis.untested, "path", "name", line="symbol.start"),
        "readings": _rows(
            analysis.readings, "agent", "why", "tests", domain="domain.id", files="paths", **domain
        ),
        "not_read": list(analysis.notes),
    }


def _rows(things: Iterable[object], *names: str, **paths: str) -> list[dict[str, Any]]:
    """Return things as rows of some of their values, those of other things in them by a path."""
    named = {**dict(zip(names, names, strict=True)), **paths}
    return [{key: _value(each, path) for key, path in named.items()} for each in things]


def _value(thing: object, path: str) -> object:
    for name in path.split("."):
        thing = getattr(thing, name) if thing is not None else None
    return thing


def _summary(analysis: Analysis) -> Iterator[str]:
    comparison, files = analysis.comparison, analysis.files
    added = sum(each.change.added_count for each in files)
    removed = sum(each.change.removed_count for each in files)
    counts = Counter(analysis.domains[each.path][0].severity for each in files)
    by_severity = ", ".join(f"{counts[each]} {each}" for each in SEVERITIES if counts[each])
    yield f"- compared: {comparison.old_name} with {comparison.new_name} ({comparison.why})"
    if comparison.subjects:
        yield f"- commits: {len(comparison.subjects)}"
        yield from _inner([*map(_plain, comparison.subjects)], 20, "more")
    yield f"- size: {_count(len(files), 'file')}, {_count(added, 'line')} added, {removed} removed"
    yield f"- severity: {analysis.severity} (files: {by_severity})"
    yield f"- domains: {', '.join(each.domain.id for each in analysis.readings)}"
    yield f"- certain findings: {len(analysis.findings)}"


def _files(analysis: Analysis) -> Iterator[str]:
    if analysis.files:
        yield "| file | what | lines | domains | severity |"
        yield "|---|---|---|---|---|"
    for each in analysis.files[:_MOST_ROWS]:
        rows = analysis.domains[each.path]
        names = ", ".join(row.id for row in rows[:3])
        cells = (_code(each.path), _what(each), _size(each), names, rows[0].severity)
        yield f"| {' | '.join(cells)} |"
    yield from _rest(analysis.files)


def _what(file: ChangedFile) -> str:
    change, words = file.change, [_STATUS[file.change.status]]
    if change.status in "RC" and change.old_path:
        words.append(f"from {_code(change.old_path)}")
        if change.similarity == 100:
            words.append("as it was")
    if change.status == "M" and change.old_mode != change.new_mode:
        words.append(f"mode {change.old_mode} to {change.new_mode}")
    return " ".join(words)


def _size(file: ChangedFile) -> str:
    if file.change.is_submodule:
        return "submodule"
    if file.change.is_binary:
        return "binary"
    return f"+{file.change.added_count} -{file.change.removed_count}"


def _findings(analysis: Analysis) -> Iterator[str]:
    # One fact at many places, such as a name that is gone, is reported once.
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in analysis.findings:
        alike[each.rule, each.claim, each.evidence].append(_code(f"{each.path}:{each.line}"))
    for (fact, claim, evidence), places in list(alike.items())[:_MOST_ROWS]:
        yield f"- {_plain(claim)} [{fact}]: {_plain(evidence)}"
        yield from _inner(places, _MOST_PLACES, "more; `--json` has all")
    yield from _rest(alike)


def _defaults(analysis: Analysis) -> Iterator[str]:
    for each in analysis.defaults[:_MOST_ROWS]:
        name = f"{each.owner}.{each.name}".lstrip(".")
        where = _code(f"{each.path}:{each.line}")
        yield f"- {where} {_code(name)}: {_code(each.old)} is {_code(each.new)} now"
        reliers = [f"{_code(relier)} takes the default" for relier in each.reliers]
        yield from _inner(reliers, _MOST_USES, "more calls")
    yield from _rest(analysis.defaults)


def _symbols(analysis: Analysis) -> Iterator[str]:
    shown = [each for each in analysis.symbols if each.role != "test"]
    for each in shown[:_MOST_ROWS]:
        yield f"- {_code(each.place)} {_code(each.name)} {_symbol_words(each)}"
    yield from _rest(shown)
    tests = Counter(each.how for each in analysis.symbols if each.role == "test")
    if tests:
        counts = ", ".join(f"{count} {how}" for how, count in sorted(tests.items()))
        yield f"- in tests: {counts}"


def _symbol_words(change: SymbolChange) -> str:
    kind = ("public " if change.symbol.is_public else "") + change.symbol.kind
    words = f"({kind}) {_HOW.get(change.how, change.how)}"
    if change.how == "head" and change.old is not None and change.new is not None:
        words += f": {_code(change.old.head or '-')} is {_code(change.new.head or '-')} now"
        if change.breaks:
            words += f"; callers outside of this repository break: {_plain(change.breaks)}"
    if change.how == "moved":
        words += f" from {_code(change.old_path or '')}"
    return words


def _callers(analysis: Analysis) -> Iterator[str]:
    # Tests have a section of their own.
    tests = {path for paths in analysis.tests.values() for path in paths}
    by_key: dict[Key, list[str]] = defaultdict(list)
    for use in analysis.uses:
        if use.path not in tests:
            inside = f" in {_code(use.inside)}" if use.inside else ""
            by_key[use.key].append(f"{_code(f'{use.path}:{use.line}')}{inside} ({use.how})")
    for path, name in sorted(by_key)[:_MOST_ROWS]:
        uses = by_key[path, name]
        yield f"- {_code(name)} of {_code(path)}: {_count(len(uses), 'place')}"
        yield from _inner(uses, _MOST_USES, "more")
    yield from _rest(by_key)


def _tests(analysis: Analysis) -> Iterator[str]:
    by_file: dict[str, list[str]] = defaultdict(list)
    for (_, name), paths in sorted(analysis.tests.items()):
        for path in paths:
            by_file[path].append(name)
    for path, names in sorted(by_file.items())[:_MOST_ROWS]:
        yield f"- {_code(path)} uses {listed([*map(_code, names)], 4)}"
    yield from _rest(by_file)
    for each in analysis.untested[:_MOST_ROWS]:
        yield f"- no test is seen to use {_code(each.name)} of {_code(each.path)}"
    yield from _rest(analysis.untested)
    for each in analysis.deselected[:_MOST_ROWS]:
        count = f"{each.runs} of {_count(each.tests, 'test')} of {_code(each.path)}"
        yield f"- pytest runs {count} unless -m selects others: addopts has {_code(each.markers)}"
    yield from _rest(analysis.deselected)


def _readings(analysis: Analysis) -> Iterator[str]:
    for number, each in enumerate(analysis.readings, 1):
        yield f"### {number}. {each.domain.title} ({each.domain.id}, {each.domain.severity})\n"
        who = f"the subagent {_code(each.agent)}" if each.agent else "a general agent"
        yield f"- who: {who}; {each.why}"
        yield f"- look: {each.domain.look}"
        for label, paths in (("files", each.paths), ("tests", each.tests)):
            if paths:
                yield f"- {label}: {listed([*map(_code, paths)], _MOST_USES)}"
        yield ""


def _inner(rows: Sequence[str], limit: int, rest: str) -> Iterator[str]:
    yield from (f"  - {row}" for row in rows[:limit])
    if len(rows) > limit:
        yield f"  - and {len(rows) - limit} {rest}"


def _rest(rows: Sized) -> Iterator[str]:
    if len(rows) > _MOST_ROWS:
        yield f"\nand {len(rows) - _MOST_ROWS} more; `--json` has all."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _plain(text: str) -> str:
    """Return text of others as one line in which nothing is Markdown that spans lines."""
    return "".join(each if each.isprintable() else " " for each in text)


def _code(text: str) -> str:
    """Return text of others as code, whatever signs it holds."""
    clean = _plain(text.encode("utf-8", "replace").decode()).replace("|", "\\|")
    if "`" not in clean:
        return f"`{clean}`"
    # A code span needs a fence longer than every run of backticks inside.
    longest = max(len(run) for run in clean.replace("`", " ` ").split() if set(run) == {"`"})
    fence = "`" * (longest + 1 + clean.count("``"))
    return f"{fence} {clean} {fence}"

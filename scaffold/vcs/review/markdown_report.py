"""The CHANGE_ANALYSIS_REPORT: Markdown under fixed headings, and the same as data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from scaffold.vcs.review.analysis import Analysis, unreached
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.checklist import Reading
from scaffold.vcs.review.definition_changes import SymbolChange
from scaffold.vcs.review.rule import RISKS
from scaffold.vcs.review.rule_matching import Signal
from scaffold.vcs.review.uses import Use
from scaffold.vcs.review.watched_definitions import Key

# How much of each list a report shows; `--json` has all of it.
_MOST_LINES = 5
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
    "fix": "what would mend it",
    "confidence": "certain, likely or a question",
}
TEMPLATE = "".join(
    f"| {' | '.join(cells)} |\n" for cells in (_COLUMNS, ["---"] * len(_COLUMNS), _COLUMNS.values())
)


def to_markdown(analysis: Analysis) -> str:
    """Return the report as people and agents read it."""
    parts = [
        "# CHANGE_ANALYSIS_REPORT\n",
        _section("Summary", _summary(analysis)),
        _section("Files", _files(analysis)),
        _section("Findings", _findings(analysis)),
        _section("Signals", _signals(analysis)),
        _section("Symbols", _symbols(analysis)),
        _section("Callers", _callers(analysis)),
        _section("Tests", _tests(analysis)),
        _section("Failure modes", _failures(analysis)),
        _section("Passes", _passes(analysis)),
        _section("Not read", [f"- {each}" for each in analysis.notes]),
        "## Findings template\n\n" + TEMPLATE,
    ]
    return "\n".join(parts)


def _section(heading: str, rows: Iterator[str] | Sequence[str]) -> str:
    body = "\n".join(rows).rstrip()
    return f"## {heading}\n\n{body or 'None.'}\n"


def _summary(analysis: Analysis) -> Iterator[str]:
    comparison, files = analysis.comparison, analysis.files
    added = sum(each.change.added_count for each in files)
    removed = sum(each.change.removed_count for each in files)
    counts = Counter(each.rule.risk for each in analysis.signals)
    told = ", ".join(f"{counts[risk]} {risk}" for risk in RISKS if counts[risk])
    domains = sorted({each.rule.domain for each in analysis.signals})
    yield f"- compared: {comparison.old_name} with {comparison.new_name} ({comparison.why})"
    if comparison.subjects:
        yield f"- commits: {len(comparison.subjects)}"
        yield from (f"  - {_plain(each)}" for each in comparison.subjects[:20])
        if len(comparison.subjects) > 20:
            yield f"  - and {len(comparison.subjects) - 20} more"
    yield f"- size: {_count(len(files), 'file')}, {_count(added, 'line')} added, {removed} removed"
    yield f"- risk: {analysis.risk}" + (f" ({told})" if told else ": no rule applies")
    yield f"- domains: {', '.join(domains) or 'none'}"
    yield f"- certain findings: {len(analysis.findings)}"
    yield f"- rules: {', '.join(analysis.active)}"


def _files(analysis: Analysis) -> Iterator[str]:
    if analysis.files:
        yield "| file | what | lines | role | risk |"
        yield "|---|---|---|---|---|"
    for each in analysis.files[:_MOST_ROWS]:
        risk = analysis.risk_of(each.path)
        yield f"| {_code(each.path)} | {_what(each)} | {_size(each)} | {each.role} | {risk} |"
    yield from _rest(analysis.files, _MOST_ROWS)


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
    if analysis.findings:
        yield "These hold for certain, as far as the text goes.\n"
    # One fact at many places, such as a name that is gone, is reported once.
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in analysis.findings:
        alike[each.rule, each.claim, each.evidence].append(_code(f"{each.path}:{each.line}"))
    for (fact, claim, evidence), places in list(alike.items())[:_MOST_ROWS]:
        yield f"- {_plain(claim)} [{fact}]: {_plain(evidence)}"
        yield from (f"  - {place}" for place in places[:_MOST_PLACES])
        if len(places) > _MOST_PLACES:
            yield f"  - and {len(places) - _MOST_PLACES} more; `--json` has all"
    yield from _rest(list(alike), _MOST_ROWS)


def _signals(analysis: Analysis) -> Iterator[str]:
    by_rule: dict[str, list[Signal]] = defaultdict(list)
    for each in analysis.signals:
        by_rule[each.rule.id].append(each)
    for rule_id, signals in by_rule.items():
        rule = signals[0].rule
        yield f"### {rule.risk} {rule_id} ({rule.domain})\n"
        yield f"{rule.signal}. {rule.why}\n"
        for signal in signals[:_MOST_ROWS]:
            yield from _signal_rows(signal)
        yield from _rest(signals, _MOST_ROWS)
        yield ""


def _signal_rows(signal: Signal) -> Iterator[str]:
    notes = "".join(f"\n  - {_plain(each)}" for each in signal.notes[:_MOST_LINES])
    if len(signal.notes) > _MOST_LINES:
        notes += f"\n  - and {len(signal.notes) - _MOST_LINES} more"
    if not signal.lines:
        yield f"- {_code(signal.path)}{notes}"
        return
    if "untested" in signal.rule.when.facts:
        told = ", ".join(f"{line.number} {_code(line.text)}" for line in signal.lines[:_MOST_LINES])
        more = len(signal.lines) - _MOST_LINES
        yield f"- {_code(signal.path)}, lines {told}" + (f" and {more} more" if more > 0 else "")
        return
    for line in signal.lines[:_MOST_LINES]:
        sign = "" if line.side == "new" else " (before)"
        yield f"- {_code(f'{signal.path}:{line.number}')}{sign} {_code(_short(line.text))}{notes}"
        notes = ""
    if len(signal.lines) > _MOST_LINES:
        yield f"  - and {len(signal.lines) - _MOST_LINES} more lines of this file"


def _symbols(analysis: Analysis) -> Iterator[str]:
    shown = [each for each in analysis.symbols if each.role != "test"]
    for each in shown[:_MOST_ROWS]:
        yield f"- {_code(each.place)} {_code(each.name)} {_symbol_words(each)}"
    yield from _rest(shown, _MOST_ROWS)
    tests = Counter(each.how for each in analysis.symbols if each.role == "test")
    if tests:
        told = ", ".join(f"{count} {how}" for how, count in sorted(tests.items()))
        yield f"- in tests: {told}"


def _symbol_words(change: SymbolChange) -> str:
    kind = ("public " if change.symbol.is_public else "") + change.symbol.kind
    words = f"({kind}) {_HOW.get(change.how, change.how)}"
    if change.how == "head" and change.old is not None and change.new is not None:
        words += f": {_code(change.old.head or '-')} is {_code(change.new.head or '-')} now"
    if change.how == "moved":
        words += f" from {_code(change.old_path or '')}"
    return words


def _callers(analysis: Analysis) -> Iterator[str]:
    # Tests have a section of their own.
    tests = {each for reach in analysis.reach.values() for each in reach.direct}
    by_key: dict[Key, list[Use]] = defaultdict(list)
    for use in analysis.uses:
        if use.path not in tests:
            by_key[use.key].append(use)
    for path, name in sorted(by_key)[:_MOST_ROWS]:
        uses = by_key[path, name]
        yield f"- {_code(name)} of {_code(path)}: {_count(len(uses), 'place')}"
        for use in uses[:_MOST_USES]:
            inside = f" in {_code(use.inside)}" if use.inside else ""
            yield f"  - {_code(f'{use.path}:{use.line}')}{inside} ({use.how})"
        if len(uses) > _MOST_USES:
            yield f"  - and {len(uses) - _MOST_USES} more"
    yield from _rest(list(by_key), _MOST_ROWS)


def _tests(analysis: Analysis) -> Iterator[str]:
    rows = [(key, reach) for key, reach in sorted(analysis.reach.items()) if reach.is_seen]
    for (path, name), reach in rows[:_MOST_ROWS]:
        told = [_code(each) for each in reach.direct[:3]]
        if not told:
            told = [f"{_code(at)} through {_code(user)}" for at, user in reach.through[:3]]
        count = len(reach.direct) or len(reach.through)
        more = f" and {count - len(told)} more" if count > len(told) else ""
        yield f"- {_code(name)} of {_code(path)}: {', '.join(told)}{more}"
    yield from _rest(rows, _MOST_ROWS)
    sought = [each for each in analysis.symbols if (each.path, each.name) in analysis.reach]
    lacking = list(unreached(sought, analysis.reach))
    for each in lacking[:_MOST_ROWS]:
        yield f"- {_code(each.name)} of {_code(each.path)}: {_no_test(analysis, each)}"
    yield from _rest(lacking, _MOST_ROWS)


def _no_test(analysis: Analysis, change: SymbolChange) -> str:
    reach = analysis.reach[change.path, change.name]
    told = "no test is seen to use it, or what uses it"
    if reach.imported is None:
        told += ", or to import its module"
    if reach.namesake is not None:
        return f"{told}; {_code(reach.namesake)} has the name of its module"
    return told if reach.imported is None else f"{told}; {_code(reach.imported)} imports its module"


def _failures(analysis: Analysis) -> Iterator[str]:
    told: dict[str, list[str]] = defaultdict(list)
    for signal in analysis.signals:
        for failure in signal.rule.failures:
            if signal.rule.id not in told[failure]:
                told[failure].append(signal.rule.id)
    for failure, rules in told.items():
        yield f"- {failure} ({', '.join(rules)})"


def _passes(analysis: Analysis) -> Iterator[str]:
    for number, each in enumerate(analysis.readings, 1):
        yield f"### {number}. {each.of.title} ({each.of.id})\n"
        yield f"- who: {_who(each)}"
        yield f"- brief: {each.of.brief}"
        if each.signals:
            rules = dict.fromkeys(signal.rule.id for signal in each.signals)
            yield f"- signals: {', '.join(rules)}"
        paths = dict.fromkeys(
            [signal.path for signal in each.signals]
            + [file.path for file in analysis.files if file.role in each.roles]
        )
        shown = ", ".join(_code(path) for path in list(paths)[:12])
        yield f"- files: {shown}" + (f" and {len(paths) - 12} more" if len(paths) > 12 else "")
        yield ""


def _who(reading: Reading) -> str:
    if reading.agent is None:
        return f"a general agent, with this brief; {reading.because}"
    place = f" ({_code(reading.agent.path)})" if reading.agent.path else ""
    return f"the subagent {_code(reading.agent.name)}{place}; {reading.because}"


def _rest(rows: Sequence[object], limit: int) -> Iterator[str]:
    if len(rows) > limit:
        yield f"\nand {len(rows) - limit} more; `--json` has all."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."


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

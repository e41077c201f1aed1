"""Whether lines of a file hold what a text claims of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scaffold.findings import Fix
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.named import Anchor
from scaffold.skills.check.references.placeholders import is_placeholder
from scaffold.skills.check.resolve.paths import missing
from scaffold.skills.check.resolve.scope import Scope

_RULE = "line-number"
_NEAR = 2
"""A definition so many lines from the one that is named is meant by it."""


def resolve_line(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a line or a range: is there such a line, and does it hold the symbol or the code?"""
    anchor: Anchor = reference.data
    path = anchor.path.removeprefix("./")
    if is_placeholder(path):
        return Verdict.unknown("the path is for others", "placeholder")
    place = scope.locate(path)
    if place is None:
        return missing(path, "path-missing", scope)
    text = scope.text(place)
    if "/" not in path and len(every := scope.files.by_name.get(path, ())) > 1:
        place = _meant(anchor, every, scope)
        text = scope.text(place)
    if text is None:
        return Verdict.unknown(f"which lines of {path} are meant is open")
    rows = text.split("\n")
    count = len(rows) - (not rows[-1])
    if anchor.shown:
        return _shown(reference, anchor, place, rows)
    if anchor.symbol:
        return _symbol(reference, anchor, place, rows)
    if anchor.end <= count:
        evidence = f"{place} has {count} lines; what is at these is not said"
        told = _around(reference, anchor, place, rows) or Verdict.unknown(evidence)
        if told.reason == "wrong line" or anchor.is_rough:
            return told
        # Where its file changed since, the history knows where the lines are now.
        asked = Asked(lines_of=place, line=anchor.line, end=anchor.end)
        message = f"{reference.text!r} names lines that have moved"
        return told._replace(rule=_RULE, message=message, asked=asked)
    message = f"{reference.text!r} names a line that does not exist"
    return Verdict("wrong line", f"{place} has {count} lines", _RULE, message, place=place)


def _meant(anchor: Anchor, paths: Sequence[str], scope: Scope) -> str:
    """Return the one of several files of a name that is meant, or "".

    It defines what the sentence names, or the page names it alone with its folders.
    """
    for name in filter(None, (anchor.symbol.rpartition(".")[2], *anchor.around)):
        defining = {path for path, _ in scope.repository.python.defined(name)}
        if len(found := [each for each in paths if each in defining]) == 1:
            return found[0]
    found = [each for each in paths if each in scope.document.text]
    return found[0] if len(found) == 1 else ""


def _around(reference: Reference, anchor: Anchor, place: str, rows: list[str]) -> Verdict | None:
    """Return whether lines are of anything that their sentence names.

    They are wrong where a name is defined once in the file, and neither its body nor any line that
    holds one of the names is near.
    """
    if not anchor.around:
        return None
    words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, anchor.around))})(?!\w)")
    low, high = max(anchor.line - _NEAR, 1), anchor.end + _NEAR
    if any(words.search(row) for row in rows[low - 1 : high]):
        return Verdict.holds(f"{place}:{anchor.line} holds a name of the sentence", place)
    for name in anchor.around:
        define = re.compile(
            rf"^\s*(?:async\s+)?(?:def|class|func|fn|function)\s+{re.escape(name)}\b"
        )
        there = [number for number, row in enumerate(rows, 1) if define.search(row)]
        if any(number <= anchor.line <= _end(rows, number) for number in there):
            return Verdict.holds(f"{place}:{anchor.line} is inside of {name}", place)
        if len(there) == 1:
            told = _symbol(reference, anchor._replace(symbol=name), place, rows)
            return told._replace(fix=None)  # the line that is meant is inside of it
    return None


def _symbol(reference: Reference, anchor: Anchor, place: str, rows: list[str]) -> Verdict:
    last = anchor.symbol.rpartition(".")[2]
    word = re.compile(rf"(?<!\w){re.escape(last)}(?!\w)")
    held = [number for number, row in enumerate(rows, 1) if word.search(row)]
    low, high = anchor.line - _NEAR, anchor.end + _NEAR
    if any(low <= number <= high for number in held):
        return Verdict.holds(f"{place}:{anchor.line} holds {last}", place)
    message = f"{anchor.symbol!r} is not at {_range(anchor)} of {anchor.path}"
    if not held:
        return Verdict.unknown(f"{place} does not hold {last}")
    define = re.compile(
        rf"\b(?:def|class|fn|func|function|struct|enum|trait|interface|const|type)\s+{re.escape(last)}\b"
        rf"|^\s*{re.escape(last)}\s*[:=]"
    )
    there = [number for number in held if define.search(rows[number - 1])] or held
    # A line inside of what is defined above it belongs to it.
    if any(number <= anchor.line <= _end(rows, number) for number in there):
        return Verdict.holds(f"{place}:{anchor.line} is inside of {last}", place)
    now = ", ".join(map(str, there[:3]))
    fix = None
    if len(there) == 1 and str(anchor.line) in reference.text:
        fix = _moved(reference, anchor, there[0])
    evidence = f"{place} has {last} at line {now}"
    return Verdict("wrong line", evidence, _RULE, message, f"line {now}", fix, place=place)


def _shown(reference: Reference, anchor: Anchor, place: str, rows: list[str]) -> Verdict:
    shown = [row.strip() for row in anchor.shown.strip("\n").split("\n")]
    plain = [row.strip() for row in rows]
    size = len(shown)
    if plain[anchor.line - 1 : anchor.line - 1 + size] == shown:
        return Verdict.holds(f"{place}:{anchor.line} is what is shown", place)
    found = [at + 1 for at in range(len(plain) - size + 1) if plain[at : at + size] == shown]
    if len(found) != 1:
        return Verdict.unknown(f"{place} has the code that is shown {len(found)} times")
    message = f"the code is not at {_range(anchor)} of {anchor.path}"
    fix = _moved(reference, anchor, found[0])
    evidence = f"{place} has it at line {found[0]}"
    return Verdict("wrong line", evidence, _RULE, message, f"line {found[0]}", fix, place=place)


def _range(anchor: Anchor) -> str:
    same = anchor.end == anchor.line
    return f"line {anchor.line}" if same else f"lines {anchor.line}-{anchor.end}"


def _moved(reference: Reference, anchor: Anchor, line: int) -> Fix:
    """Return the fix that moves a range to where it begins now."""
    text = reference.text
    count = 0 if anchor.end == anchor.line else 1
    after = re.sub(rf"(?<!\d){anchor.line}(?!\d)", str(line), text, count=count)
    if anchor.end != anchor.line:
        end = line + anchor.end - anchor.line
        head, sign, tail = after.rpartition(str(anchor.end))
        after = f"{head}{end}{tail}" if sign else after
    return Fix(reference.line, text, after)


def _end(rows: list[str], number: int) -> int:
    """Return the last line of a block that begins at a line: until its indentation ends."""
    first = rows[number - 1]
    depth = len(first) - len(first.lstrip())
    for at in range(number, len(rows)):
        row = rows[at]
        closes = row.strip()[:1] in (")", "}", "]")
        if row.strip() and len(row) - len(row.lstrip()) <= depth and not closes:
            return at
    return len(rows)

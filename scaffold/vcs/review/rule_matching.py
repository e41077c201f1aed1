"""What rules see in changed files, each sight with its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scaffold.analysis.files.globs import matches
from scaffold.vcs.dependencies import DependencyChange
from scaffold.vcs.review.changed_file import Block, ChangedFile, Line, Side
from scaffold.vcs.review.definition_changes import SymbolChange
from scaffold.vcs.review.rule import Rule, When

CODE_ROLES = ("source", "ci", "config", "manifest", "migration", "guidance", "other")
"""The roles that a rule without roles is for: not tests, documents, data or what is generated."""

_SIDES: tuple[Side, Side] = ("old", "new")
_MODES = {"100755": "executable", "120000": "link", "160000": "submodule"}


@dataclass(frozen=True)
class Signal:
    """A rule that matches one file.

    Args:
        rule: The rule.
        path: The file.
        lines: The lines that match; none where the whole file is meant.
        notes: What it saw, where that is no line.
    """

    rule: Rule
    path: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()


class Matcher:
    """The rules, applied to the files of one change.

    Args:
        files: The changed files.
        symbols: What happened to their definitions.
        dependencies: What happened to dependencies.
    """

    def __init__(
        self,
        files: Sequence[ChangedFile],
        symbols: Sequence[SymbolChange],
        dependencies: Sequence[DependencyChange],
    ) -> None:
        self._files = files
        self._symbols = symbols
        self._dependencies = dependencies
        self._secrets: list[re.Pattern[str]] = []
        self._texts: dict[Side, set[str]] = {
            side: {
                # Without regard to white space: code that only moved is often indented anew.
                " ".join(line.split())
                for file in files
                for block in file.blocks(side)
                for line in block.lines
            }
            for side in ("old", "new")
        }

    def signals(self, rules: Sequence[Rule]) -> Iterator[Signal]:
        """Yield what the rules see, rule by rule; those about facts are not asked."""
        # Any rule may show a line that holds a secret, not only the one that hides it.
        self._secrets = [each for rule in rules if rule.hides for each in rule.when.added]
        for rule in rules:
            if not rule.when.facts:
                for file in self._files:
                    signal = self._signal(rule, file)
                    if signal is not None:
                        yield signal

    def _signal(self, rule: Rule, file: ChangedFile) -> Signal | None:
        when = rule.when
        if not _fits(when, file):
            return None
        notes: list[str] = []
        lines: list[Line] = []
        if when.symbols:
            touched = [each for each in self._symbols if each.path == file.path]
            notes += [
                each.breaks or f"{each.name} {each.how}"
                for each in touched
                if _symbol_word(each) in when.symbols
            ]
        if when.dependencies:
            changed = [each for each in self._dependencies if each.path == file.path]
            notes += [str(each) for each in changed if each.what in when.dependencies]
        if when.imports:
            fresh = sorted(_named(when.imports, file.new_imports - file.old_imports))
            notes += [f"imports {each}" for each in fresh]
        if (when.symbols or when.dependencies or when.imports) and not notes:
            return None
        wanted: tuple[tuple[Side, tuple[re.Pattern[str], ...]], ...]
        wanted = ("new", when.added), ("old", when.removed)
        for side, patterns in wanted:
            if patterns:
                found = list(self._lines(when, patterns, file, side))
                if not found or (when.net and not self._is_net_loss(when)):
                    return None
                lines += found
        return Signal(rule, file.path, tuple(lines), tuple(notes))

    def _lines(
        self, when: When, patterns: Sequence[re.Pattern[str]], file: ChangedFile, side: Side
    ) -> Iterator[Line]:
        """Yield the lines of one side on which a pattern begins, each once."""
        seen: set[int] = set()
        for block in file.blocks(side):
            # Most blocks have nothing of the kind, and to separate code from comments is slow.
            raw = "\n".join(block.lines)
            if any(each.search(raw) for each in patterns):
                for number in self._numbers(when, patterns, file, block):
                    if number not in seen:
                        seen.add(number)
                        shown = self._without_secrets(block.lines[number - block.start])
                        yield Line(side, number, shown.strip())

    def _without_secrets(self, text: str) -> str:
        """Return a line as it may be shown: a report is kept in places that a secret is not."""
        for each in self._secrets:
            # Four characters show which kind of key it is, and nobody the key.
            text = each.sub(lambda found: f"{found[0][:4]}…", text)
        return text

    def _is_net_loss(self, when: When) -> bool:
        """Return whether more goes than comes, so that what was renamed does not count."""
        counts = [
            sum(
                len(list(self._lines(when, when.removed, file, side)))
                for file in self._files
                if file.role in (when.roles or CODE_ROLES)
            )
            for side in _SIDES
        ]
        return counts[0] > counts[1]

    def _numbers(
        self, when: When, patterns: Sequence[re.Pattern[str]], file: ChangedFile, block: Block
    ) -> Iterator[int]:
        other: Side = "old" if block.side == "new" else "new"
        seen = file.views(block.side)
        numbers = range(block.start, block.start + len(block.lines))
        shown = [seen.line(number, when.within) for number in numbers]
        # A block as a whole, since patterns may reach over several lines.
        text = "\n".join(shown)
        for pattern in patterns:
            for match in pattern.finditer(text):
                # `^\\s*` may begin on an empty line above.
                at = match.end() - len(match[0].lstrip())
                index = text.count("\n", 0, at)
                # A line on both sides moved within the change: it is neither new nor lost.
                is_moved = " ".join(block.lines[index].split()) in self._texts[other]
                is_excused = any(each.search(shown[index]) for each in when.unless)
                if not is_moved and not is_excused and _lies_in(when, file, block, index):
                    yield block.start + index


def _fits(when: When, file: ChangedFile) -> bool:
    """Return whether the conditions on the whole file hold."""
    change = file.change
    mode = _MODES.get(change.new_mode) if change.new_mode != change.old_mode else None
    return (
        file.role in (when.roles or CODE_ROLES)
        and is_at(when, file.path)
        and (not when.status or change.status in when.status)
        and (not when.modes or mode in when.modes)
        and (when.binary is None or change.is_binary == when.binary)
        and change.added_count >= when.min_added
        and change.removed_count >= when.min_removed
        and (
            not when.file_imports
            or bool(_named(when.file_imports, file.new_imports | file.old_imports))
        )
    )


def is_at(when: When, path: str) -> bool:
    """Return whether a path matches the globs of a rule."""
    return (not when.paths or matches(path, when.paths)) and not matches(path, when.not_paths)


def _named(wanted: Sequence[str], imported: frozenset[str]) -> set[str]:
    return set(wanted) & imported


def _lies_in(when: When, file: ChangedFile, block: Block, index: int) -> bool:
    if not when.inside:
        return True
    symbol = file.symbol_around(block.side, block.start + index)
    return symbol is not None and any(each.search(symbol.name) for each in when.inside)


def _symbol_word(change: SymbolChange) -> str:
    """Return what happened to a definition in the words of rules."""
    if not change.symbol.is_public or change.role != "source":
        return ""
    what = "removed" if change.how == "removed" else "broken" if change.breaks else ""
    return what and f"{'exported' if change.is_exported else 'public'}-{what}"

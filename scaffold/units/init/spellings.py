"""Where a unit's name is in text, and which variable of a template is meant there.

One word is spelled alike in several ways: ``heise`` is the key, the dashed and the plain words. The
other units of the kind decide: where ``heise`` has ``aio_pika`` as its counterpart, it is the key.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaffold.target.target import key_names
from scaffold.templating.names import fold

CLASS_NAME = "class_name"
"""The answer with the name of a unit's class where that has nothing to do with its name."""

CLASS_PREFIX = "class_prefix"
"""The answer with the form of a name in class names, where no rule gives it: ``GRPO``."""

NEAR = 80
"""How many characters around a name are looked at, where the other units decide nothing."""

# Where the evidence fits several, the first is meant; `_by_context` looks around the place before.
_ORDER = ("key", "dashed", "pascal", "camel", "upper", "words", "title", "headline", "flat",
          "flat_upper")  # fmt: skip
# `HTTPServer2_x` is HTTP, Server, 2, _, x; all else but blanks counts by the character.
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_|[^\w\s]|\w")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
# What Jinja would read as a tag; the second also takes a brace right in front of a variable.
_BRACE = re.compile(r"\{(?=[{%#\r])")
_BRACE_OR_LAST = re.compile(r"\{(?=[{%#\r]|\Z)")


class Piece(NamedTuple):
    """A word, a mark or the unit's name in a text, with its offsets."""

    text: str
    start: int
    end: int
    is_name: bool


class Seen(NamedTuple):
    """What another unit has where a text has its own unit's name; None for the very same word."""

    key: str
    raw: str | None


Evidence = dict[int, list[Seen]]
"""What the other units have, by the offset of the name in a text."""


class Lexicon:
    """What units have in one identifier, wherever it is: it is spelled alike in all places."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}

    def add(self, text: str, pieces: Iterable[Piece], evidence: Evidence) -> None:
        """Take in the evidence of a text."""
        spans = [(piece.start, piece.end) for piece in pieces if piece.is_name]
        for start, end in spans:
            word = _word_around(text, start, end, spans)
            for seen in evidence.get(start, ()) if word else ():
                if seen.raw is not None:
                    self._seen.setdefault(word, {}).setdefault(seen.key, seen.raw)

    def seen(
        self, text: str, span: tuple[int, int], spans: Iterable[tuple[int, int]]
    ) -> list[Seen]:
        """Return what other units have in the identifier around a place."""
        word = _word_around(text, *span, spans)
        return [Seen(*row) for row in self._seen.get(word, {}).items()] if word else []


def _word_around(text: str, start: int, end: int, spans: Iterable[tuple[int, int]]) -> str:
    """Return an identifier with a mark for the name in it, "" where it is the name alone."""
    first, last = start, end
    while first and (text[first - 1].isalnum() or text[first - 1] == "_"):
        first -= 1
    while last < len(text) and (text[last].isalnum() or text[last] == "_"):
        last += 1
    if (first, last) == (start, end):
        return ""
    word, at = "", first
    for a, b in spans:
        if first <= a and b <= last:
            word, at = f"{word}{text[at:a]}" + ("\1" if a == start else "\0"), b
    return word + text[at:last]


@dataclass(frozen=True)
class Name:
    """The name of a unit, to be found in text.

    Args:
        key: The canonical name.
        others: Longer names of other units that hold this one: ``heise_plus``.
        class_prefix: How it is written in names of classes, "" where a rule gives that.
        class_name: What the unit's class is called where that is no spelling of its name.
    """

    key: str
    others: tuple[str, ...] = ()
    class_prefix: str = ""
    class_name: str = ""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where a text holds the name in any spelling, or that of its class."""
        own = fold(self.key)
        found = [
            match.span()
            for match in _pattern(self.key, self.others).finditer(text)
            if fold(match[0]) == own and _is_bordered(text, *match.span())
        ]
        if not self.class_name:
            return found
        word = rf"(?<![A-Za-z0-9_]){self.class_name}(?![A-Za-z0-9_])"
        longer = [match.span() for match in re.finditer(word, text)]
        rest = [
            (start, end)
            for start, end in found
            if not any(first <= start and end <= last for first, last in longer)
        ]
        return sorted([*longer, *rest])

    def may_occur_in(self, flat: str) -> bool:
        """Return whether a text that `flattened` gave can hold the name; cheap for large ones."""
        return bool(self.class_name) or flattened(self.key) in flat

    def occurs_in(self, text: str) -> bool:
        """Return whether a text holds the name in any spelling."""
        return bool(self.spans(text))

    def pieces(self, text: str) -> list[Piece]:
        """Return the words, marks and names of a text, without the blanks between them."""
        found: list[Piece] = []
        last = 0
        for start, end in [*self.spans(text), (len(text), len(text))]:
            found += [Piece(m[0], *m.span(), False) for m in _PIECE.finditer(text, last, start)]
            found += [Piece(text[start:end], start, end, True)] if start < end else []
            last = end
        return found

    def spelled(self, variable: str) -> str:
        """Return the name as a variable gives it."""
        if variable == CLASS_NAME:
            return self.class_name
        return self.class_prefix if variable == CLASS_PREFIX else key_names(self.key)[variable]


def flattened(text: str) -> str:
    """Return a text in which all spellings of a name are one."""
    return text.lower().replace("_", "").replace("-", "").replace(" ", "")


def masked(text: str, spans: Iterable[tuple[int, int]], mark: str = "\0") -> str:
    """Return a text with a mark in the places of the name."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts.append(text[last:start])
        last = end
    return mark.join([*parts, text[last:]])


def canon(pieces: Iterable[Piece]) -> str:
    """Return what texts of different units have in common; equal for counterparts."""
    return " ".join("\0" if piece.is_name else piece.text for piece in pieces)


def without_years(text: str) -> str:
    """Return a text whose years are all one, as those of a copyright count for nothing."""
    return _YEAR.sub("1970", text)


def compare(own: Sequence[Piece], other: Sequence[Piece], key: str) -> dict[int, Seen] | None:
    """Return what another unit has in the places of the name; None where the texts differ."""
    if len(own) != len(other):
        return None
    found: dict[int, Seen] = {}
    for mine, theirs in zip(own, other, strict=True):
        if mine.is_name and theirs.is_name:
            found[mine.start] = Seen(key, theirs.text)
        elif mine.text != theirs.text:
            return None
        elif mine.is_name:
            # The word is there for another unit too, and so has nothing to do with the name.
            found[mine.start] = Seen(key, None)
    return found


def count_same(
    own: Sequence[Piece], others: Iterable[tuple[str, Sequence[Piece]]], evidence: Evidence
) -> int:
    """Count the texts of other units that are the same, and keep what they have for the name."""
    count = 0
    for key, pieces in others:
        seen = compare(own, pieces, key)
        if seen is not None:
            count += 1
            for at, each in seen.items():
                evidence.setdefault(at, []).append(each)
    return count


def is_most(count: int, others: int) -> bool:
    """Return whether a unit and ``count`` of the others are more than half of all."""
    return 2 * (count + 1) > others + 1


class Slot(NamedTuple):
    """A place of the name in a text, and the variable for it."""

    start: int
    end: int
    variable: str


def slots(
    text: str,
    own: Name,
    names: Mapping[str, Name],
    evidence: Evidence,
    *,
    is_prose: bool = False,
    lexicon: Lexicon | None = None,
) -> list[Slot]:
    """Return the places of a name in a text with their variables.

    Args:
        text: A text of the unit.
        own: The unit's name.
        names: Those of the other units, by key.
        evidence: What the other units have there.
        is_prose: Whether the words of sentences are meant where nothing else decides.
        lexicon: What they have in the same identifiers elsewhere.
    """
    spans = own.spans(text)
    chosen: dict[int, str | None] = {}
    # A place without evidence follows those that are spelled alike.
    alike: dict[str, Counter[str]] = {}
    for start, end in spans:
        seen = evidence.get(start, [])
        if lexicon is not None and all(each.raw is not None for each in seen):
            known = {each.key for each in seen}
            seen = seen + [
                each
                for each in lexicon.seen(text, (start, end), spans)
                if each.key not in known and each.key in names and each.key != own.key
            ]
        if not seen:
            continue
        if 2 * sum(each.raw is None for each in seen) > len(seen):
            chosen[start] = None
            continue
        variable = _chosen(text, (start, end), own, names, seen, is_prose=is_prose)
        chosen[start] = variable
        alike.setdefault(text[start:end], Counter())[variable] += 1
    found: list[Slot] = []
    for start, end in spans:
        if start in chosen:
            variable = chosen[start]
        else:
            fits = _fitting(own, text[start:end])
            # Spelled as no rule has it, by this unit alone: it stays.
            is_own = fits or text[start:end] in (own.class_prefix, own.class_name)
            variable = (
                _chosen(text, (start, end), own, names, [], is_prose=is_prose) if is_own else None
            )
            votes = alike.get(text[start:end])
            is_open = len(_fitting(own, text[start:end])) > 1
            if votes and (not is_open or not is_prose):
                variable = votes.most_common(1)[0][0]
        found += [] if variable is None else [Slot(start, end, variable)]
    return found


def as_template(text: str, found: Iterable[Slot]) -> str:
    """Return a text as a Jinja template, with variables for the slots."""
    parts: list[str] = []
    last = 0
    for slot in found:
        parts += [_raw(text[last : slot.start], is_before=True), f"{{{{ {slot.variable} }}}}"]
        last = slot.end
    return "".join([*parts, _raw(text[last:])])


def as_pattern(text: str, found: Iterable[Slot]) -> str | None:
    """Return a text as a manifest's string, or None where it holds what looks like a variable."""
    parts: list[str] = []
    last = 0
    for slot in found:
        parts += [text[last : slot.start], f"{{{slot.variable}}}"]
        last = slot.end
    parts.append(text[last:])
    # Manifests have no escape for a brace.
    if any(re.search(r"\{\w+\}", part) for part in parts[::2]):
        return None
    pattern = "".join(parts)
    # A brace of the text beside one of ours would be read with it.
    return pattern if len(re.findall(r"\{\w+\}", pattern)) == len(parts) // 2 else None


def pieces_between(pieces: Sequence[Piece], start: int, end: int) -> Sequence[Piece]:
    """Return the pieces of a part of a text."""
    first = bisect_left(pieces, start, key=lambda piece: piece.start)
    return pieces[first : bisect_left(pieces, end, key=lambda piece: piece.start)]


def words_of(name: str) -> list[str]:
    """Return the words of a file's or symbol's name, in lower case."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [part.lower() for part in re.split(r"[^A-Za-z0-9]+", parts) if part]


def same_name(one: str, other: str) -> bool:
    """Return whether two names are spellings of one."""
    return fold(one) == fold(other)


@functools.cache
def _pattern(key: str, others: tuple[str, ...]) -> re.Pattern[str]:
    # Alternatives match in their order: the longer name is tried before the one it holds.
    rows = sorted({key, *others}, key=lambda each: -len(each))
    return re.compile("|".join("[_ -]?".join(each.split("_")) for each in rows), re.IGNORECASE)


def _is_bordered(text: str, start: int, end: int) -> bool:
    """Return whether a word begins and ends there, in camel case too."""
    before, after, beyond = (
        text[max(start - 1, 0) : start],
        text[end : end + 1],
        text[end + 1 : end + 2],
    )
    first, last = text[start], text[end - 1]
    is_lower_next = text[start + 1 : start + 2].islower()
    is_camel = first.isupper() and (not before.isupper() or is_lower_next)
    if before.isalnum() and not is_camel:
        return False
    # `GRPOTrainer`: the capital before a lower-case letter begins the next word.
    ends_here = not last.isupper() or beyond.islower()
    return not after.isalnum() or (after.isupper() and ends_here)


def _fitting(name: Name, raw: str) -> tuple[str, ...]:
    spelled = key_names(name.key)
    return tuple(variable for variable in _ORDER if spelled[variable] == raw)


def _chosen(
    text: str,
    span: tuple[int, int],
    own: Name,
    names: Mapping[str, Name],
    seen: Sequence[Seen],
    *,
    is_prose: bool,
) -> str:
    """Return the variable that fits most units; of several the one that the context speaks for."""
    raw = text[slice(*span)]
    if raw == own.class_name:
        return CLASS_NAME
    rows = [(own, raw), *((names[each.key], each.raw) for each in seen if each.raw is not None)]
    counts = Counter(variable for name, given in rows for variable in _fitting(name, given))
    most = max(counts.values(), default=0)
    prefixes = sum(bool(given) and name.class_prefix == given for name, given in rows)
    is_class = raw[:1].isupper() and not re.search(r"[_ -]", raw)
    if is_class and own.class_prefix == raw and prefixes >= most:
        return CLASS_PREFIX
    best = [variable for variable in _ORDER if counts[variable] == most and most]
    if not best:
        # Spelled as nobody would: by its capitals, else as the key.
        return "pascal" if is_class else "title" if raw[:1].isupper() else "key"
    return _by_context(text, span, best, is_prose=is_prose)


def _by_context(text: str, span: tuple[int, int], best: Sequence[str], *, is_prose: bool) -> str:
    if len(best) == 1:
        return best[0]
    left, right = text[max(span[0] - NEAR, 0) : span[0]], text[span[1] : span[1] + NEAR]
    before, after = left[-1:], right[:1]
    around = (re.split(r"\s", left)[-1], re.split(r"\s", right, maxsplit=1)[0])
    # Between blanks and the punctuation of a sentence the plain words are meant.
    is_word = is_prose and re.fullmatch(r"[(]?", around[0])
    is_alone = bool(is_word and re.fullmatch(r"[).,;:!?'s]*", around[1]))
    is_inside = any(each == "_" or each.isalnum() for each in (before, after))
    wanted = [
        # `DPOTrainer` of `kto_plus` is KTOPLUSTrainer, DPO_LOSS is KTO_PLUS_LOSS.
        ("flat_upper", bool(re.match(r"[A-Z][a-z]", right)) or before.islower()),
        ("camel", after.isupper()),
        # `heise-->` is no word with a dash.
        ("dashed", bool(re.search(r"\w-$", left) or re.match(r"-\w", right) or "://" in around[0])),
        ("words", is_alone),
        # `Heise` in a sentence is the title, in `HeiseParser` a class.
        ("title", is_prose and not is_inside),
    ]
    return next((each for each, holds in wanted if holds and each in best), best[0])


def _raw(text: str, *, is_before: bool = False) -> str:
    """Return text that Jinja outputs as it is; a brace before a tag would be read with it."""
    pattern = _BRACE_OR_LAST if is_before else _BRACE
    return pattern.sub('{{ "{" }}', text).replace("\r", '{{ "\\r" }}')

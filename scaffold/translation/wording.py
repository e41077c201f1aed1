"""Do the words of a translation agree with its page: code, links, numbers, terms?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from itertools import zip_longest

from scaffold.findings import Finding
from scaffold.translation.finding import Comparison
from scaffold.translation.glossary import Glossary
from scaffold.translation.links import Links
from scaffold.translation.page import Passage, Piece

# Punctuation of East Asia, ideographs, and full-width forms.
_CHINESE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
# No part of a file's name or of another compound; a period behind it ends the sentence.
_WORD = re.compile(r"(?<![\w./=-])[a-z]{2,}(?!\w|[./=]\w)")
_ADDRESS = re.compile(r"[a-z][a-z+.-]*://\S+|\{[%{].*?[%}]\}", re.DOTALL)
_NAMES = {"zh": "Chinese"}
_CAPITAL = re.compile(r"(?<![\w.])[A-Z][\w-]+")
_ENDED = re.compile(r"\w[)\]'\"*_]*[.!?:]+\s*\Z")
# `Dao et al. FlashAttention: ...`: a work, whose title is not translated.
_CITED = re.compile(r"\bet al\.(?:,?\s+\(?\d{4}\)?)?[.,:]?\s+[\"'\u201c]?[A-Z]")
_MIN_WORDS = 4
"""So many words of lower case are a sentence, and no list of names."""

_LINKING = re.compile(
    r"\b(?:an?|are|by|do|does|for|from|how|if|in|is|its?|no|not|on|or|that|the|this|to|was|what"
    r"|when|where|which|who|why|with|your?)\b",
    re.IGNORECASE,
)
"""Words that join others to a phrase; names and lists of them have no such words."""

# `1,000.5` with separators; else `12`, `3.14`, and versions such as `2.4.1`.
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)*")
_CHINESE_UNITS = {"百": 100, "千": 1000, "万": 10**4, "亿": 10**8, "百万": 10**6, "千万": 10**7}
_ENGLISH_UNITS = {"thousand": 1000, "k": 1000, "million": 10**6, "m": 10**6, "billion": 10**9}
_UNIT = re.compile(
    r" ?(百万|千万|百|千|万|亿)| ?(thousand|million|billion)\b|([km])\b", re.IGNORECASE
)
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = (
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    **{word: (str(value),) for value, word in enumerate(_SMALL)},
    **{word: (str(20 + 10 * place),) for place, word in enumerate(_TENS)},
    "hundred": ("100",), "thousand": ("1000",), "million": ("1000000",), "dozen": ("12",),
    "a": ("1",), "an": ("1",), "single": ("1",), "each": ("1",), "once": ("1",), "per": ("1",),
    # A half may be written as 50 %.
    "twice": ("2",), "both": ("2",), "pair": ("2",), "half": ("0.5", "50"), "quarter": ("0.25",),
    "last": ("1",), "next": ("1",), "other": ("1",), "only": ("1",),
}  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
)  # fmt: skip
_MONTHS = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_DIGITS = "零一二三四五六七八九"
# The decade `1990s` is `20 世纪 90 年代`.
_DECADE = re.compile(r"(\d{1,2}) ?世纪 ?(\d0) ?年代")
_FIFTY = re.compile(r"\b50 ?(?:%|per ?cent)", re.IGNORECASE)


def check_passage(
    at: Comparison, source: Passage, passage: Passage, language: str
) -> Iterator[Finding]:
    """Yield what two passages of the same place do not share, links apart."""
    # Where blocks differ a section is one passage, and what they lack counts among its text.
    if source.slot and source.paragraphs != passage.paragraphs:
        found, wanted = str(passage.paragraphs), str(source.paragraphs)
        yield at.finding("paragraph", passage.line, found, wanted, source.line)
    yield from _check_codes(at, source, passage)
    yield from _check_numbers(at, source, passage)
    theirs, ours = ({piece.text for piece in each.tags} for each in (passage, source))
    for tag in sorted(ours - theirs):
        yield at.finding("html", passage.line, "none", f"<{tag}>", source.line)
    for tag in sorted(theirs - ours):
        yield at.finding("html", passage.line, f"<{tag}>", "none", source.line)
    same = {tuple(each.prose.split()) for each in source.parts or [source]}
    for part in passage.parts or [passage]:
        # Other languages share their letters with English, so only the same words show it.
        is_same = tuple(part.prose.split()) in same
        if _is_sentence(part.prose) and (
            not _CHINESE.search(part.prose) if language == "zh" else is_same
        ):
            said = " ".join(part.plain.split())
            shown = said if len(said) <= 60 else f"{said[:57]}..."
            wanted = _NAMES.get(language, language)
            yield at.finding("untranslated", part.line, f"{shown!r}", wanted, source.line)


def _is_sentence(prose: str) -> bool:
    """Return whether a text holds a sentence in Latin letters, be it a short one."""
    # Of an address and of a template's tag the parts are words, and nobody translates them.
    text = _ADDRESS.sub(" ", prose)
    # "MIT or Apache-2.0" is a list of names.
    if _CITED.search(text) or not {*_WORD.findall(text)} - {"and", "or"}:
        return False
    lower = [len(_WORD.findall(each)) for each in text.split(",")]
    count, capitals = sum(lower), len(_CAPITAL.findall(text))
    # Names, acronyms and titles of works have capitals; a sentence may begin with one.
    if count < capitals - 1:
        return False
    if count >= _MIN_WORDS:
        # Between commas, settings and names stand alone.
        return max(lower) > 2 or _ENDED.search(text) is not None
    if _ENDED.search(text):
        return count + capitals > 1
    return count + capitals > 2 and _LINKING.search(text) is not None


def check_links(
    at: Comparison, links: Links, source: Passage, passage: Passage
) -> Iterator[Finding]:
    """Yield links and images of two passages that do not lead to the same."""
    for rule, expected, ours, theirs in (
        ("link", links.expected, source.links, passage.links),
        ("image", links.expected_image, source.images, passage.images),
    ):
        wanted = {piece: expected(piece.text) for piece in ours}
        agreeing = {lead for each in wanted.values() for lead in each.leads}
        found = {links.found(piece.text) for piece in theirs}
        lost = [(piece, each) for piece, each in wanted.items() if not each.leads & found]
        new = [piece for piece in theirs if links.found(piece.text) not in agreeing]
        for row, other in zip_longest(lost, new):
            yield at.finding(
                rule,
                other.line if other else at.translation.line,
                other.text if other else "none",
                row[1].text if row else "none",
                row[0].line if row else at.source.line,
            )


def check_terms(at: Comparison, glossary: Glossary) -> Iterator[Finding]:
    """Yield the terms of a section that its translation lacks."""
    prose = at.translation.prose
    for term in glossary.used_in(at.source.prose):
        if term.is_in(prose) if term.is_kept else term.is_translated_in(prose):
            continue
        # A term may span passages once they are joined, so none of them need have it alone.
        line = next((p.line for p in at.source.passages if term.is_in(p.prose)), at.source.line)
        words = f"{' or '.join(term.translations)} for {term.name!r}"
        wanted = f"{term.name!r}, which stays as it is" if term.is_kept else words
        yield at.finding("term", at.translation.line, "none", wanted, line)


def check_comments(at: Comparison) -> Iterator[Finding]:
    """Yield comments that are missing, too many, or that direct a tool in other words."""
    ours, theirs = at.source.comments, at.translation.comments
    if len(ours) != len(theirs):
        found, wanted = _counted(theirs), _counted(ours)
        yield at.finding("comment", at.translation.line, found, wanted, at.source.line)
        return
    for source, comment in zip(ours, theirs, strict=True):
        # What a tool reads has other signs than letters; the rest of a comment may be translated.
        lost = [
            word
            for word in re.findall(r"[A-Za-z][\w.:/=*-]*[\w*]:?", source.text)
            if re.search(r"[:_/=*-]", word) and word not in comment.text
        ]
        if lost:
            found = " ".join(comment.text.split())
            yield at.finding("comment", comment.line, found, " ".join(lost), source.line)


def _counted(comments: list[Piece]) -> str:
    return f"{len(comments)} comment{'' if len(comments) == 1 else 's'}"


def _check_codes(at: Comparison, source: Passage, passage: Passage) -> Iterator[Finding]:
    ours, theirs = {p.text for p in source.codes}, {p.text for p in passage.codes}
    # As sets: a language may need to repeat a name, or to leave a repetition out.
    lost = list(dict.fromkeys(p for p in source.codes if p.text not in theirs))
    new = list(dict.fromkeys(p for p in passage.codes if p.text not in ours))
    for wanted, found in zip_longest(lost, new):
        yield at.finding(
            "inline-code",
            found.line if found else passage.line,
            f"`{found.text}`" if found else "none",
            f"`{wanted.text}`" if wanted else "none",
            wanted.line if wanted else source.line,
        )


def _check_numbers(at: Comparison, source: Passage, passage: Passage) -> Iterator[Finding]:
    lost = missing_numbers(source.prose, passage.prose)
    new = foreign_numbers(source.prose, passage.prose)
    if lost or new:
        found, wanted = ", ".join(new) or "none", ", ".join(lost) or "none"
        yield at.finding("number", passage.line, found, wanted, source.line)


def missing_numbers(source: str, translation: str) -> list[str]:
    """Return the numbers of a text that its translation has in no form."""
    theirs = _values(translation)
    spelled = unicodedata.normalize("NFKC", translation)
    return [
        number
        for number in sorted(_values(source) - theirs)
        if not any(form in spelled for form in _in_chinese(number))
        and not (number == "50" and _FIFTY.search(source) and "半" in spelled)
    ]


def foreign_numbers(source: str, translation: str) -> list[str]:
    """Return the numbers of a translation that its source has in no form."""
    known = _values(source) | set(_in_english(source))
    return sorted(_values(translation) - known)


def _values(text: str) -> set[str]:
    """Return the numbers that a text writes with digits, multiplied by the unit behind them."""
    # Full-width digits become ASCII.
    text = unicodedata.normalize("NFKC", text)
    text = _DECADE.sub(lambda at: str(100 * (int(at[1]) - 1) + int(at[2])), text)
    found: set[str] = set()
    for match in _NUMBER.finditer(text):
        number = match.group().replace(",", "")
        unit = _UNIT.match(text, match.end())
        # 1.2.3 is a version and takes no unit.
        if unit and number.count(".") <= 1:
            name = next(group for group in unit.groups() if group)
            factor = _CHINESE_UNITS.get(name) or _ENGLISH_UNITS[name.lower()]
            number = f"{(Decimal(number) * factor).normalize():f}"
        found.add(number)
    return found


def _in_english(text: str) -> Iterator[str]:
    """Yield the numbers that a text writes in words."""
    before = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        yield from _WORDS.get(word, ())
        if word in _ORDINALS:
            yield str(_ORDINALS.index(word) + 1)
        if word[:3] in _MONTHS:
            yield str(_MONTHS.index(word[:3]) + 1)
        value = _SMALL.index(word) if word in _SMALL[:10] else 0
        if before and value:
            yield str(before + value)  # ninety-nine
        before = 20 + 10 * _TENS.index(word) if word in _TENS else 0


def _in_chinese(number: str) -> Iterator[str]:
    """Yield how Chinese spells a whole number."""
    # Longer numbers are written with digits, and a leading zero marks a code.
    if not number.isdigit() or len(number) > 4 or (len(number) > 1 and number[0] == "0"):
        return
    spelled = _spelled(int(number))
    yield spelled
    if len(number) == 4 and number[3] == "0":
        yield f"{_spelled(int(number[:2]) + 1)}世纪{_spelled(int(number[2:]))}年代"
    # Before measure words two is 两.
    if spelled.startswith("二"):
        yield f"两{spelled[1:]}"
    # Ten to nineteen drop the leading one.
    if spelled.startswith("一十"):
        yield spelled[1:]


def _spelled(number: int) -> str:
    if number < 10:
        return _DIGITS[number]
    for unit, name in ((1000, "千"), (100, "百"), (10, "十")):
        if number >= unit:
            head, rest = divmod(number, unit)
            # Skipped places are read as one zero: 105 is 一百零五.
            gap = "零" if rest and rest < unit // 10 else ""
            return f"{_DIGITS[head]}{name}{gap}{_spelled(rest) if rest else ''}"
    raise AssertionError("the numbers below ten were told above")

"""Text that a reader does not see: characters without a shape, and those that reorder a line.

Where such a character has its proper use it is left alone: joiners in emoji and in the scripts that
need them, selectors behind an emoji, marks of direction in a line of a script that is read from the
right, a byte order mark at the top of a file.

Source: the Unicode Character Database (general category, emoji data), Unicode TR36 and TR39, and
"Trojan Source" (Boucher and Anderson, 2021) for the controls of direction.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re

MAX_LOOSE = 8
"""So many zero-width characters in one file are a slip; more can spell something."""

_SHOWN = 60


class Hidden(NamedTuple):
    """What one line hides.

    Args:
        line: The line, from 1.
        what: The characters by number and name; what tags spell.
        can_instruct: Whether it can carry text to an agent, or show a person another text.
    """

    line: int
    what: str
    can_instruct: bool


# Tags mirror ASCII and selectors can encode bytes, both unseen; the others turn, join or blank
# out text.
_TAGS = "\U000e0000-\U000e007f"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_DIRECTION = "\u202a-\u202e\u2066-\u2069"
_MARKS = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"
_LOOSE = "\u00ad\u034f\u180e\u200b\u2060-\u2064\u2800\ufeff"
_FILLERS = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_CONTROLS = "\u0000-\u0008\u000e-\u001f\u007f-\u009f\u2028\u2029\u206a-\u206f\ufff9-\ufffb"

_ANY = lazy_re(f"[{_TAGS}{_SELECTORS}{_DIRECTION}{_MARKS}{_JOINERS}{_LOOSE}{_FILLERS}{_CONTROLS}]")
_WEAK = lazy_re(f"[{_MARKS}{_JOINERS}{_LOOSE}]")
_RUN = lazy_re(f"[{_TAGS}]{{4,}}|[{_SELECTORS}]{{4,}}|[\u200b-\u200d\u2060-\u2064]{{{MAX_LOOSE},}}")
_TAG_RUN = lazy_re(f"[{_TAGS}]+")

_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_PROPER = lazy_re(
    f"(?<=[#*0-9{_PICTURE}])[\ufe0e\ufe0f]"  # a selector behind an emoji
    f"|(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])"  # a joiner between two
    # The flags of England, Scotland and Wales; every other sequence of tags is none that is in use.
    "|(?<=\U0001f3f4)\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067"
    "|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
    # A joiner between letters of Arabic, Syriac, Indic, Mongolian and their kin.
    "|(?<=[\u0600-\u109f\u1780-\u18af])[\u200c\u200d]+(?=[\u0600-\u109f\u1780-\u18af\\s]|$)"
    # One selector of a glyph behind an ideograph, which East Asian names need.
    "|(?<=[\u3400-\u9fff])[\ufe00-\ufe02\U000e0100-\U000e01ef](?![\ufe00-\ufe0f\U000e0100-\U000e01ef])"
)
_FROM_THE_RIGHT = lazy_re("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_WORD = lazy_re(r"[^\W\d_]{2,}")
_LATIN = lazy_re("[A-Za-z\u00c0-\u024f]")
_CYRILLIC = lazy_re("[\u0400-\u052f]")


def hidden_text(text: str) -> list[Hidden]:
    """Return what the lines of a text hide, in their order.

    Args:
        text: The text of one file; a byte order mark at its top does not count.
    """
    rows = text.removeprefix("\ufeff").split("\n")
    found = [(number, _of_line(row.removesuffix("\r"))) for number, row in enumerate(rows, 1)]
    found = [(number, chars) for number, chars in found if chars]
    # Counted over the whole file: a message may be spread over many lines.
    is_message = sum(len(_WEAK.findall(chars)) for _, chars in found) > MAX_LOOSE
    return [
        Hidden(number, _described(chars), is_message or bool(_WEAK.sub("", chars)))
        for number, chars in found
    ]


def hidden_runs(text: str) -> list[Hidden]:
    """Return what a file hides that is no text, such as a picture: runs that are no chance."""
    return [
        Hidden(text.count("\n", 0, run.start()) + 1, _described(run[0]), True)
        for run in _RUN.finditer(text)
    ]


def look_alikes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the words, with their lines, that mix Latin letters with Cyrillic ones."""
    if text.isascii() or not _CYRILLIC.search(text):
        return
    for number, row in enumerate(text.split("\n"), 1):
        for word in _WORD.findall(row):
            if _LATIN.search(word) and _CYRILLIC.search(word):
                yield number, word


def _of_line(row: str) -> str:
    """Return the hidden characters of a line that have no proper use there."""
    # Nearly every line ends here, before any of the patterns is tried.
    if row.isascii() and row.isprintable():
        return ""
    row = _PROPER.sub("", row)
    # Marks of direction belong to lines with Hebrew or Arabic letters.
    if _FROM_THE_RIGHT.search(row):
        row = re.sub(f"[{_MARKS}]", "", row)
    return "".join(_ANY.findall(row.replace("\t", "").replace("\f", "")))


def _described(chars: str) -> str:
    spelled = [
        # Tags repeat ASCII at U+E0000, so seven bits give the letter.
        "".join(chr(ord(char) & 0x7F) for char in run)
        for run in _TAG_RUN.findall(chars)
    ]
    short = [text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..." for text in spelled]
    counts = Counter(_TAG_RUN.sub("", chars))
    named = [
        f"U+{ord(char):04X} {unicodedata.name(char, 'control character').lower()}"
        + (f" x{count}" if count > 1 else "")
        for char, count in counts.items()
    ]
    more = [f"and {len(named) - 4} others"] if len(named) > 5 else []
    tags = [f"tags that spell {text!r}" for text in short[:3]]
    return ", ".join([*tags, *(named[:4] if more else named), *more])

"""The numbers of a text, as English and as Chinese write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

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

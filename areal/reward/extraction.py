"""Finds the final answer in a text, and reads plain numbers exactly: no imports, a few µs each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

# GSM8K ends a solution with "#### <number>". Chat models also write "#### Step 2" and
# "#### 1. First ..." as Markdown headings, which are no answers.
_HASH_MARK = re.compile(r"####(?![ \t]*\d+\.\s+[A-Za-z])[ \t]*(?=[-+−$€£¥(\\. *]*[\d\\])([^\n]*)")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACKET_THAT_IS_NO_ANSWER = re.compile(r"\\(?:sqrt|left|right|big|Big)\s*$")

_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<whole>\d{1,3}(?:,\d{3})+|\d+)?(?P<decimals>\.\d*)?"
    r"(?:\s*/\s*(?P<denominator>\d+))?\s*(?P<percent>%|percent\b)?"
    r"(?P<unit>\s*[A-Za-z]{2,}(?:[\s/-]+[A-Za-z]+)*)?"
)
_LATEX_WORDS = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,!;: ]|~")
_CURRENCY = re.compile(r"[$€£¥]|\\\)")
# After a number these words change its value, so they are no unit.
_SCALE_WORD = re.compile(
    r"\b(?:hundreds?|thousands?|[mbtr]+illions?|dozens?|half|halves|thirds?|and|or|over|to|squared"
    r"|cubed|pi|sqrt|plus|minus|times|mod)\b",
    re.IGNORECASE,
)
# Longer text is no plain number, and int() itself refuses more than 4,300 digits.
_MAX_NUMBER_CHARS = 400


@dataclass(frozen=True)
class PlainNumber:
    """A number as it was written: its exact value, and whether a percent sign stood behind."""

    value: Fraction
    is_percent: bool = False

    @property
    def latex(self) -> str:
        """The number as LaTeX: with decimals where these are exact, else as ``a/b``."""
        places = 0
        # Longer ones are no decimals that somebody wrote.
        while places < 20 and (self.value * 10**places).denominator > 1:
            places += 1
        scaled = self.value * 10**places
        text = f"{self.value}"
        if places and scaled.denominator == 1:
            digits = f"{abs(scaled.numerator):0{places + 1}}"
            text = f"{'-' * (scaled < 0)}{digits[:-places]}.{digits[-places:]}"
        return text + "\\%" * self.is_percent


def final_answer(text: str) -> str | None:
    r"""Return what a text marks as its final answer; of several marks the last one counts.

    Args:
        text: A completion, or a gold solution.

    Returns:
        The content of the last complete ``\boxed{...}`` or the rest of the last ``#### `` line,
        whichever is later; None where there is no mark.
    """
    box = _last_box(text)
    hashes = None
    for hashes in _HASH_MARK.finditer(text):  # noqa: B007 (the last match is wanted)
        pass
    if hashes is not None and (box is None or hashes.start() > box[0]):
        return hashes.group(1).strip()
    return None if box is None else box[1].strip()


def _last_box(text: str) -> tuple[int, str] | None:
    """Return position and content of the last box whose braces balance."""
    if "\\boxed" not in text and "\\fbox" not in text:
        return None
    for match in reversed(list(_BOX.finditer(text))):
        depth, position = 1, match.end()
        while position < len(text) and depth:
            character = text[position]
            if character == "\\":
                position += 1  # an escaped brace is text
            elif character in "{}":
                depth += 1 if character == "{" else -1
            position += 1
        if not depth:
            return match.start(), text[match.end() : position - 1]
    return None


def last_bracketed(text: str) -> tuple[int, str] | None:
    r"""Return position and content of the last ``[...]``, brackets inside it included.

    The optional argument of ``\sqrt[3]{x}`` and ``\left[`` are mathematics, not marks.
    """
    end = text.rfind("]")
    while end >= 0:
        depth, start = 1, end - 1
        while start >= 0:
            depth += {"]": 1, "[": -1}.get(text[start], 0)
            if not depth:
                break
            start -= 1
        if start >= 0 and not _BRACKET_THAT_IS_NO_ANSWER.search(text[max(0, start - 8) : start]):
            return start, text[start + 1 : end].strip()
        end = text.rfind("]", 0, end)
    return None


def read_number(text: str, *, allow_units: bool = False) -> PlainNumber | None:
    r"""Read a text that is one number and nothing else.

    Takes thousands separators, a sign, decimals, ``a/b``, percent and currency signs, a full stop
    behind it, and LaTeX spacing and ``\text{}`` around it.

    Args:
        text: A marked answer or a gold answer.
        allow_units: Whether words may follow ("18 dollars"), unless they scale it ("5 million").

    Returns:
        The exact number, or None where the text is anything else.
    """
    if len(text) > _MAX_NUMBER_CHARS:
        return None
    match = _NUMBER.fullmatch(_plain(text))
    if match is None or not (match["whole"] or (match["decimals"] or ".") != "."):
        return None
    if match["unit"] and (not allow_units or _SCALE_WORD.search(match["unit"])):
        return None
    digits = (match["whole"] or "0").replace(",", "") + (match["decimals"] or "")
    value = Fraction(digits.rstrip("."))
    if match["denominator"]:
        denominator = int(match["denominator"])
        if not denominator:
            return None
        value /= denominator
    return PlainNumber(-value if match["sign"] == "-" else value, bool(match["percent"]))


def _plain(text: str) -> str:
    """Strip what may be around a number without changing it."""
    if not text.isdigit():
        text = _LATEX_WORDS.sub(r" \1 ", text.replace("−", "-").replace("{,}", ","))
        text = _SPACES.sub(" ", text).replace("\\%", "%").replace("\\$", "").replace("\\(", "")
        text = _CURRENCY.sub("", text).strip(" \t\n*_").rstrip(".,; ")
    return text


def numbers_equal(left: PlainNumber, right: PlainNumber, *, precision: int = 6) -> bool:
    """Return whether two written numbers mean the same.

    Args:
        left: One number.
        right: The other number.
        precision: Decimal places that must agree where either is no whole number.

    Returns:
        True for equal values. A percent sign on one side alone may be a unit that the other side
        left out or a factor: "50%" equals 50 and 0.5.
    """
    candidates = [left.value]
    if left.is_percent != right.is_percent:
        candidates = [left.value * 100 if right.is_percent else left.value / 100, left.value]
    return any(_close(value, right.value, precision) for value in candidates)


def _close(left: Fraction, right: Fraction, precision: int) -> bool:
    if left == right:
        return True
    if left.denominator == right.denominator == 1:
        return False
    return round(left, precision) == round(right, precision)

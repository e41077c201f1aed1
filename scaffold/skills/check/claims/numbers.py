"""Numbers in running text: digits, and English words up to twenty."""

from __future__ import annotations

WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
NUMBER = rf"(?P<number>\d{{1,4}}|{'|'.join(WORDS[2:])})"
"""A number from two on; "one" and "zero" stand for too much else."""


def value_of(text: str) -> int:
    """Return the number that `NUMBER` has matched."""
    return WORDS.index(text.lower()) if text.lower() in WORDS else int(text)

"""Cases of regular expressions: what a pattern finds, and that it finds nothing."""

from __future__ import annotations

import re

import pytest

from scaffold.templating.patterns import pattern_cases

MATCHED = [
    r"<answer>(.*?)</answer>",
    r"(?i)the (?:answer|result) is\s+(-?\d+(?:\.\d+)?)",
    r"(?m)^#### (-?[0-9,]+)",
    r"\\boxed\{([^{}]*)\}",
    r"(?s)```python\n(.+?)```",
    r"(?<=answer: )\w+",
    r"\d+(?= kg)",
    r"(?=.*\d)(?=.*[a-z]).{6,}",
    r"(?<!\d)\d{3}(?!\d)",
    r"(?P<n>x+)(?P=n)",
    r"(x)?(?(1)y|z)",
    r"(?>a+)b++c",
    r"x{200}",
    r"[^\W\d_]{3}",
    r"[^\x00-\x7f]+",
    r"[一-龥]+",
    r"[^\d]\D\S\W",
]
UNMATCHED = [r"(?!)x", r"a\bb", r"$^x", r"(\d+)(?<=a)", r"a++a", r"[^\s\S]", r"((a+)+)+(?!)"]


@pytest.mark.parametrize("pattern", MATCHED)
def test_a_case_has_the_text_and_what_its_last_match_captures(pattern: str) -> None:
    compiled = re.compile(pattern)
    (text, answer, reward), (same, other, zero) = pattern_cases(pattern, captures=True)
    last = list(compiled.finditer(text))[-1]
    assert (answer, reward) == (last.group(min(1, compiled.groups)).strip(), 1.0)
    assert (same, zero) == (text, 0.0)
    assert "" != answer != other
    (found, _, reward), (missed, _, zero) = pattern_cases(pattern, captures=False)
    found_at = [compiled.search(text) is not None for text in (found, missed)]
    assert (found_at, reward, zero) == ([True, False], 1.0, 0.0)


@pytest.mark.parametrize("pattern", UNMATCHED)
def test_a_pattern_that_cannot_match_has_no_case(pattern: str) -> None:
    assert pattern_cases(pattern, captures=True) == pattern_cases(pattern, captures=False) == []


def test_a_match_that_captures_nothing_is_no_answer() -> None:
    # The last match of `.*` is the empty one at the end of the text.
    assert pattern_cases("(?s).*", captures=True) == []


def test_a_pattern_that_matches_everything_has_no_case_of_zero() -> None:
    assert [reward for _, _, reward in pattern_cases("", captures=False)] == [1.0]

from __future__ import annotations

from fractions import Fraction

import pytest

from areal.reward.extraction import (
    PlainNumber,
    final_answer,
    last_bracketed,
    numbers_equal,
    read_number,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no mark at all, 72", None),
        ("", None),
        (r"so \boxed{72}", "72"),
        (r"\boxed{71}, no: \boxed{72}", "72"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed {72}", "72"),
        (r"\fbox{72}", "72"),
        (r"\boxed{}", ""),
        (r"\boxed{72} and then \boxed{7", "72"),  # cut off by the length limit
        (r"\boxed{7", None),
        ("work\n#### 72", "72"),
        ("#### 72\nthank you", "72"),
        ("#### 71\nwait\n#### 72", "72"),
        ("####72", "72"),
        ("#### -5", "-5"),
        ("#### $1,234", "$1,234"),
        ("#### .5", ".5"),
        (r"\boxed{71}" + "\n#### 72", "72"),
        ("#### 71\n" + r"so \boxed{72}", "72"),
        ("#### Step two\nadd", None),
        ("#### 1. First we add", None),
        (r"#### \frac{1}{2}", r"\frac{1}{2}"),
        ("####", None),
    ],
)
def test_final_answer_is_the_last_mark(text: str, expected: str | None) -> None:
    assert final_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("72", 72),
        ("  72\n", 72),
        ("72.", 72),
        ("72.0", 72),
        (".5", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        ("-5", -5),
        ("−5", -5),
        ("+5", 5),
        ("- 5", -5),
        ("$5", 5),
        ("-$5", -5),
        ("$-5", -5),
        (r"\$5", 5),
        ("5$", 5),
        ("$5$", 5),
        (r"\(5\)", 5),
        ("€5", 5),
        ("1,234", 1234),
        ("1,234,567.5", Fraction(2469135, 2)),
        (r"1{,}234", 1234),
        ("**72**", 72),
        ("3/4", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        (r"\text{72}", 72),
        (r"7\,", 7),
        ("007", 7),
    ],
)
def test_read_number_takes_the_spellings_of_a_plain_number(text: str, expected: Fraction) -> None:
    assert read_number(text) == PlainNumber(Fraction(expected))


@pytest.mark.parametrize("text", ["50%", r"50\%", "50 %", "50 percent"])
def test_read_number_keeps_the_percent_sign(text: str) -> None:
    assert read_number(text) == PlainNumber(Fraction(50), is_percent=True)


@pytest.mark.parametrize(
    "text",
    [
        *["", ".", "-", "%", "x", "1,23", "48*2", "1+1", "2^3", "5x", "1/0", "71, 72", "1 2"],
        *["5:30", "10^3", "x=5", r"\frac{1}{2}", "1.2.3", "5 dollars", "--5", "nan", "inf"],
        "9" * 5000,
    ],
)
def test_read_number_refuses_anything_else(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18 dollars", 18),
        (r"18 \text{ clips}", 18),
        (r"18\text{ miles per hour}", 18),
        ("18 km/h", 18),
        ("$18 dollars", 18),
        ("5 million", None),
        ("2 dozen eggs", None),
        ("5 and a half", None),
        ("5 x", None),
        ("5 squared", None),
    ],
)
def test_units_may_follow_unless_they_change_the_value(text: str, expected: int | None) -> None:
    number = read_number(text, allow_units=True)
    assert (number and number.value) == expected


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("72", "72", True),
        ("72", "72.0", True),
        ("72", "73", False),
        ("72", "-72", False),
        ("1/3", "0.333333", True),
        ("1/3", "0.3333", False),
        ("0.1234561", "0.1234562", True),
        ("72", "72.00001", False),
        ("50%", "50", True),
        ("50%", "0.5", True),
        ("50%", "50%", True),
        ("50%", "5", False),
        ("0.5%", "50", False),
    ],
)
def test_numbers_equal_both_ways(left: str, right: str, equal: bool) -> None:
    first, second = read_number(left), read_number(right)
    assert first is not None
    assert second is not None
    assert numbers_equal(first, second) is equal
    assert numbers_equal(second, first) is equal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the count is [3]", "3"),
        ("[2] or rather [3]", "3"),
        (r"[2\sqrt{3}]", r"2\sqrt{3}"),
        (r"[\sqrt[3]{2}]", r"\sqrt[3]{2}"),
        (r"[5], that is \sqrt[3]{125}", "5"),
        ("open [ but [3] closed", "3"),
        ("[3] closed ] twice", "3"),
        ("[]", ""),
        ("none", None),
        ("] none [", None),
    ],
)
def test_last_bracketed(text: str, expected: str | None) -> None:
    found = last_bracketed(text)
    assert (found and found[1]) == expected


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("72", "72"),
        ("-1,234", "-1234"),
        ("6.820", "6.82"),
        ("-0.05", "-0.05"),
        ("1/4", "0.25"),
        ("1/3", "1/3"),
        ("12.5%", r"12.5\%"),
    ],
)
def test_a_number_as_latex(text: str, latex: str) -> None:
    number = read_number(text)
    assert number is not None
    assert number.latex == latex
    assert read_number(latex) == number

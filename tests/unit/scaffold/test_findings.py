"""Findings as SARIF and as annotations, with all that a path or a message may hold."""

from __future__ import annotations

import json

import pytest

from scaffold.errors import ScaffoldError
from scaffold.findings import (
    FORMATS,
    Finding,
    Fix,
    RuleText,
    human_rows,
    to_github,
    to_sarif,
    write_failure,
    write_findings,
)
from scaffold.report import Report
from tests.sarif import Place, read_places

RULES = {
    "one": RuleText("It is one.", "Two are many.", "docs/en/one.md", "warning"),
    "two": RuleText("It is two."),
}
FIRST = Finding("a b.md", 3, 5, "one", "x", "'x' is two", "one was looked at", "one", "warning")
SECOND = Finding("c.md", 1, 1, "two", "y", "'y' is one")


def test_sarif_has_each_finding_and_the_rules_that_are_broken() -> None:
    log = to_sarif([SECOND, FIRST, SECOND], RULES, {"checked": 3})
    assert read_places(log) == [
        Place("two", "error", "c.md", 1, 1),
        Place("one", "warning", "a%20b.md", 3, 5),
        Place("two", "error", "c.md", 1, 1),
    ]
    run = json.loads(log)["runs"][0]
    one, two = run["tool"]["driver"]["rules"]
    assert one["help"]["text"] == "It is one. Two are many. The page is docs/en/one.md."
    assert (one["fullDescription"]["text"], one["defaultConfiguration"]) == (
        "Two are many.",
        {"level": "warning"},
    )
    assert (two["help"]["text"], "fullDescription" in two) == ("It is two.", False)
    assert run["properties"] == {"checked": 3}
    assert run["results"][1]["message"]["text"] == "'x' is two; one was looked at; now: one"


def test_sarif_of_nothing_is_a_log() -> None:
    assert read_places(to_sarif([], RULES)) == []


def test_a_path_that_is_no_utf8_is_spelled_out() -> None:
    (place,) = read_places(to_sarif([SECOND._replace(path="\udcff.md")], RULES))
    assert place.path == "%FF.md"


def test_annotations_escape_what_github_would_read() -> None:
    odd = FIRST._replace(path="a:b,c%.md", message="two\nlines", evidence="", now="")
    assert to_github([odd, SECOND]) == (
        "::warning file=a%3Ab%2Cc%25.md,line=3,col=5,title=one::two%0Alines\n"
        "::error file=c.md,line=1,col=1,title=two::'y' is one\n"
    )
    assert to_github([SECOND.at("note")]).startswith("::notice ")


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("", "there is no 'x'"),
        ("name a folder", "there is no 'x'\nhint: name a folder"),
        ("pip install x:\n    y", "there is no 'x'\nhint: pip install x:\n    y"),
    ],
)
def test_a_failure_and_its_hint_are_two_lines(hint: str, told: str) -> None:
    error = ScaffoldError("there is no 'x'", code="fault", hint=hint)
    run = json.loads(write_failure("sarif", "review", error))["runs"][0]
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"] == told
    shown = told.replace("\n", "%0A")
    annotation = write_failure("github", "review", error)
    assert annotation == f"::error title=fault::{shown}\n"


def test_people_read_the_place_first() -> None:
    fix = Fix(3, "x", "z", is_safe=False)
    assert list(human_rows(FIRST._replace(fix=fix))) == [
        "a b.md:3:5  warning  one  'x' is two",
        "    one was looked at",
        "    now: one",
        "    fix: x -> z (a guess)",
    ]


def test_a_fingerprint_stays_where_the_line_moves() -> None:
    assert FIRST.fingerprint == FIRST._replace(line=9, message="other").fingerprint
    assert FIRST.fingerprint != FIRST._replace(claim="y").fingerprint


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_takes_its_text_from_the_format(form: str) -> None:
    report = write_findings(Report("demo", text="for people\n"), form, [FIRST], RULES)
    expected = {
        "human": "for people\n",
        "json": json.dumps(report.to_json()) + "\n",
        "sarif": to_sarif([FIRST], RULES),
        "github": to_github([FIRST]),
    }
    assert report.text == expected[form]

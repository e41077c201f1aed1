"""The form of a commit message: what is refused, at which place, and what is left in peace."""

from __future__ import annotations

import pytest

from scaffold.vcs.commit.conventional import (
    MAX_BODY,
    MAX_SUBJECT,
    TYPES,
    Rules,
    check_bytes,
    check_message,
    read_header,
)

LONG = "x " * (MAX_BODY // 2 + 1)
URL = "https://example.org/" + "a" * MAX_BODY

REFUSED = {
    "unknown type": ("feature: add x", 1, 1, "type", "did you mean 'feat'"),
    "upper case type": ("Feat: add x", 1, 1, "type", "written 'feat'"),
    "no form": ("Add a reward", 1, 1, "form", "type(scope)!: subject"),
    "no type": ("(scope): add x", 1, 1, "form", "feat, fix"),
    "byte order mark": ("\ufefffeat: add x", 1, 1, "encoding", "byte order mark"),
    "empty scope": ("feat(): add x", 1, 6, "scope", "empty"),
    "blank in the scope": ("feat(a b): add x", 1, 7, "scope", "' ' is not allowed"),
    "odd first character of the scope": ("feat(-a): add x", 1, 6, "scope", "'-'"),
    "open scope": ("feat(a: add x", 1, 5, "scope", "not closed"),
    "space before the colon": ("feat : add x", 1, 5, "separator", "directly behind"),
    "space before the mark": ("feat(a) !: add x", 1, 8, "separator", "directly behind"),
    "two marks": ("feat!!: add x", 1, 6, "separator", "one '!'"),
    "mark before the scope": ("feat!(a): add x", 1, 5, "separator", "behind the scope"),
    "no colon": ("feat(a) add x", 1, 8, "separator", "':' belongs here"),
    "wide colon": ("feat\uff1aadd x", 1, 5, "separator", "ASCII"),
    "no space": ("feat:add x", 1, 6, "separator", "one space"),
    "two spaces": ("feat:  add x", 1, 6, "separator", "one space"),
    "no subject": ("feat(a): ", 1, 9, "subject-empty", "missing"),
    "no subject behind a wide colon": ("feat\uff1a", 1, 6, "subject-empty", "missing"),
    "period": ("feat: add x.", 1, 12, "subject-period", "no period"),
    "period behind a name": ("feat: add Node.js.", 1, 18, "subject-period", "no period"),
    "third person before an article": ("fix: changes the x", 1, 6, "subject-mood", "'change'"),
    "long subject": ("feat: " + "x" * 67, 1, 73, "subject-length", "73 characters"),
    "third person": ("feat(a)!: adds x", 1, 11, "subject-mood", "'add', not 'adds'"),
    "past": ("fix: Added x", 1, 6, "subject-mood", "'add', not 'Added'"),
    "past before an article": ("fix: dropped the y", 1, 6, "subject-mood", "'drop'"),
    "gerund before an article": ("fix: moving the y", 1, 6, "subject-mood", "'move'"),
    "body at once": ("feat: add x\nBody", 2, 1, "body-blank", "blank line"),
    "body behind a comment": ("feat: add x\n# note\nBody", 3, 1, "body-blank", "blank line"),
    "long line": (f"feat: add x\n\n{LONG}y", 3, MAX_BODY + 1, "body-width", "at most 100"),
    "long line with a URL": (f"feat: add x\n\n{LONG} {URL}", 3, 101, "body-width", "URLs"),
    "footer in lower case": ("feat: x\n\nbreaking change: y", 3, 1, "breaking-footer", "'BREAKING"),
    "footer in the plural": ("feat: x\n\nBREAKING CHANGES: y", 3, 1, "breaking-footer", "CHANGE: "),
    "footer without a colon": ("feat: x\n\nBREAKING CHANGE y", 3, 1, "breaking-footer", "CHANGE: "),
    "footer that says nothing": ("feat: x\n\nBREAKING CHANGE:", 3, 1, "breaking-footer", "what"),
    "footer in a paragraph": ("fix: x\n\nA\nBREAKING CHANGE: y", 4, 1, "breaking-footer", "blank"),
    "nothing": ("", 1, 1, "empty", "type(scope)!: subject"),
    "comments alone": ("# a\n\n# b\n", 1, 1, "empty", "empty"),
}

ACCEPTED = {
    "scope and mark": "refactor(api/config)!: move the dataclasses",
    "several scopes": "fix(a,b.c): mend x",
    "longest": "feat: " + "x" * (MAX_SUBJECT - 6),
    "blank lines around": "\n\nfeat: add x\n\n\n",
    "comments": "# A note of git\nfeat: add x\n# another " + LONG,
    "scissors": f"feat: add x\n# ---- \n# {'-' * 24} >8 {'-' * 24}\n{LONG}\ndiff --git",
    "line ends of Windows": "feat: add x\r\n\r\nBody\r\n",
    "nouns that look like verbs": "fix: updates of a table keep its order",
    "a noun before a clause": "fix: tests that fail on Windows",
    "a noun before a time": "docs: changes this week in review",
    "dots that stay": "test: name a, b ...",
    "an abbreviation": "docs: tell of wheels etc.",
    "initials": "docs: name the U.S.",
    "adjectives that look like verbs": "test: removed files are named",
    "a noun before an adverb": "docs: testing guide for all",
    "hyphen": "fix: added-token ids",
    "footers": "feat: x\n\nBody.\n\nBREAKING CHANGE: y\nBREAKING-CHANGE: z\nRefs: #1",
    "footers that go on": "feat: x\n\nBREAKING CHANGE: y\n  z\nBREAKING CHANGE: a",
    "footer behind a footer": "feat: x\n\nRefs #3\nBREAKING CHANGE: y",
    "prose about a breaking change": "feat: x\n\nThis is a\nbreaking change for those who use y",
    "URL": f"docs: link x\n\nSee {URL} for more",
    "code span": f"docs: show x\n\nRun `{LONG}` once",
    "code fence": f"docs: show x\n\n```\n{LONG}\nBREAKING CHANGES\n```\n",
    "indented code": f"docs: show x\n\n    {LONG}",
    "one long word": f"docs: show x\n\n{'a/' * MAX_BODY}",
    "merge": "Merge branch 'a' into b\nanything goes",
    "merge of a pull request": "Merge pull request #3 from a/b",
    "merge that a forge tries out": f"Merge {'a' * 40} into {'b' * 40}",
    "merge of what an address has": "Merge https://example.org/a/b",
    "merge of what another folder has": "Merge ../other into work",
    "revert of git": 'Revert "feat: add x."\n\nThis reverts commit 1.',
    "fixup": "fixup! anything",
    "squash": "squash! feat: add x",
    "amend": "amend! feat: add x",
    "revert as a type": "revert: add x",
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_fault_is_found_at_its_place(case: str) -> None:
    text, line, column, rule, part = REFUSED[case]
    (problem,) = check_message(text)
    assert (problem.line, problem.column, problem.rule) == (line, column, rule)
    assert part in problem.message


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_right_is_left_in_peace(case: str) -> None:
    assert check_message(ACCEPTED[case]) == []


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_accepted(name: str) -> None:
    assert check_message(f"{name}(scope): do x") == []


def test_a_type_may_have_digits_and_hyphens() -> None:
    rules = Rules(types=("i18n", "type-hints"))
    for line in ("i18n: translate x", "i18n(de)!: translate x", "type-hints: add x"):
        assert check_message(line, None, rules) == []
        header = read_header(line)
        assert header is not None
        assert header.type in rules.types
    (problem,) = check_message("i18m: translate x", None, rules)
    assert problem.rule == "type"
    assert "did you mean 'i18n'?" in problem.message


def test_a_wrong_type_does_not_hide_the_rest() -> None:
    found = check_message("feature(): adds x.\nBody")
    assert [problem.rule for problem in found] == [
        "type", "scope", "subject-mood", "subject-period", "body-blank",
    ]  # fmt: skip


def test_a_comment_begins_as_git_is_told() -> None:
    assert check_message("feat: add x\n; a comment", comment=";") == []
    assert check_message("feat: add x\n; no comment") != []


def test_bytes_that_are_no_text_are_found_at_their_place() -> None:
    (problem,) = check_bytes("feat: add x\n\nB\u00e4r ".encode() + b"\xe9t\xe9")
    assert (problem.line, problem.column, problem.rule) == (3, 5, "encoding")
    assert "0xe9" in problem.message
    assert check_bytes("feat: add \u00e9t\u00e9".encode()) == []

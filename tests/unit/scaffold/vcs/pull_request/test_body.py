"""The words of a pull request: templates, bodies that nobody edited, and what trailers keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import RequestError
from scaffold.vcs.commit.conventional import DEFAULT_RULES, Rules, check_message
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.pull_request.body import (
    Material,
    Risk,
    Surroundings,
    all_references,
    breaking_lines,
    is_untouched,
    near_tests_run,
    sections_of,
    squash_message,
    title_of,
    with_mark,
)
from scaffold.vcs.pull_request.branch import Base, BranchCommit, BranchState
from scaffold.vcs.pull_request.template import (
    DEFAULT,
    NO_BREAKING,
    fill_template,
    find_template,
)

NEAR = ("tests/unit/test_loss.py", "tests/unit/test_mean.py", "tests/slow/test_loss.py")

PARTS = {"changes": "- a", "tests": "- t", "breaking": "- b", "references": "- #1"}

OWN_CHANGES, OWN_TESTS = "**Changes**\n\n- a\n\n", "**Tests**\n\n- t\n\n"
OWN_LAST = "**Breaking changes**\n\n- b\n\n**References**\n\n- #1\n"
OWN_REST = f"{OWN_TESTS}{OWN_LAST}"

# A template, and what becomes of it.
TEMPLATES: dict[str, tuple[str, str]] = {
    "every section": (
        "## Summary\n<!-- say -->\n\n## Testing\n\n## Breaking changes\n## Related issues\n",
        "## Summary\n<!-- say -->\n\n- a\n\n## Testing\n\n- t\n\n## Breaking changes\n\n- b\n\n"
        "## Related issues\n\n- #1\n",
    ),
    "no headings": ("Thanks!\n", f"Thanks!\n\n{OWN_CHANGES}{OWN_REST}"),
    "a heading twice": (
        "# What\n# Details of the change\n",
        f"# What\n\n- a\n\n{OWN_REST}\n# Details of the change\n",
    ),
    "headings in code and in comments": (
        "```\n# Tests\n```\n<!--\n# Summary\n-->\n# Tests\n",
        "```\n# Tests\n```\n<!--\n# Summary\n-->\n\n"
        f"{OWN_CHANGES}{OWN_LAST}\n# Tests\n\n- t\n",
    ),
    "boxes": (
        "# Type of change\n- [ ] Bug fix\n- [ ] New feature\n- [ ] Breaking change\n\n"
        "# Checklist\n- [ ] I fixed a bug\n",
        f"{OWN_CHANGES}{OWN_REST}\n# Type of change\n- [ ] Bug fix\n- [x] New feature\n"
        "- [x] Breaking change\n\n# Checklist\n- [ ] I fixed a bug\n",
    ),
    "a section on validation": (
        "## Summary\n\n## Validation summary\n\n## How was this verified?\n",
        f"## Summary\n\n- a\n\n{OWN_LAST}\n## Validation summary\n\n- t\n\n"
        "## How was this verified?\n",
    ),
    "what stands above the first heading, which asks for nothing": (
        "<!-- Say what changes. -->\n\n- [ ] I read it.\n\n### Checklist\n- [ ] ok\n",
        "<!-- Say what changes. -->\n\n- [ ] I read it.\n\n"
        f"{OWN_CHANGES}{OWN_REST}\n### Checklist\n- [ ] ok\n",
    ),
    "titles in bold and underlined": (
        "**What does this do?**\n\nSay.\n\n**Related issues:**\n\nTests\n-----\n\n# Notes\n",
        "**What does this do?**\n\nSay.\n\n- a\n\n**Breaking changes**\n\n- b\n\n"
        "**Related issues:**\n\n- #1\n\nTests\n-----\n\n- t\n\n# Notes\n",
    ),
    "a quote that asks for what is written, and others": (
        "# Summary\n\n> Please include a summary,\n> and why.\n\n> [!NOTE]\n> Short.\n\n"
        "# Checks\n\n> If unsure, ask.\n\n- [ ] ok\n# Tests\nRun:\n> them\n",
        f"# Summary\n\n> [!NOTE]\n> Short.\n\n- a\n\n{OWN_LAST}\n"
        "# Checks\n\n> If unsure, ask.\n\n- [ ] ok\n# Tests\nRun:\n> them\n\n- t\n",
    ),
    "quotes that the template wants gone": (
        "> Template\n>\n> Delete all quotes before you open it.\n\n# Summary\n> say\n# Checks\n"
        "> hint\n\n```\n> code\n```\n<!--\n> a comment\n-->\n",
        f"# Summary\n\n- a\n\n{OWN_REST}\n# Checks\n```\n> code\n```\n<!--\n> a comment\n-->\n",
    ),
    "line ends of Windows": ("# Summary\r\n\r\n# Tests\r\n# Breaking\r\n# Issue\r\n",
        "# Summary\n\n- a\n\n# Tests\n\n- t\n\n# Breaking\n\n- b\n\n# Issue\n\n- #1\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", TEMPLATES)
def test_a_template_is_filled_and_keeps_its_lines(case: str) -> None:
    template, wanted = TEMPLATES[case]
    assert fill_template(template, PARTS, "feat", is_breaking=True) == wanted


# That of GitHub's own documentation, with two more.
STOCK = (
    "Bug fix (non-breaking change which fixes an issue)",
    "New feature (non-breaking change which adds functionality)",
    "Breaking change (fix or feature that would cause existing functionality to change)",
    "Documentation fix",
    "Reformatting / build fix",
    "A new file format",
)


@pytest.mark.parametrize(
    ("type_", "is_breaking", "ticked"),
    [
        ("fix", False, [0]), ("fix", True, [2]), ("feat", False, [1]), ("docs", False, [3]),
        ("style", False, [4]), ("build", True, [2, 4]), ("perf", False, []),
    ],
)  # fmt: skip
def test_a_box_is_ticked_that_alone_fits(type_: str, is_breaking: bool, ticked: list[int]) -> None:
    text = "## Type of change\n\n" + "".join(f"- [ ] {each}\n" for each in STOCK)
    filled = fill_template(text, {}, type_, is_breaking=is_breaking)
    boxes = [line for line in filled.splitlines() if line.startswith("- [")]
    assert [at for at, line in enumerate(boxes) if line.startswith("- [x]")] == ticked
    twice = fill_template(
        f"{text}- [ ] Bug\n- [ ] No breaking change\n", {}, "fix", is_breaking=False
    )
    assert "[x]" not in twice


def test_an_issue_is_named_once() -> None:
    template = "### Issues\n\n- Fixes #...\n- Closes #...\n- Resolves #...\n"
    filled = fill_template(template, {}, "fix", ["#7", "#8"], is_breaking=False)
    assert filled == "### Issues\n\n- Fixes #7\n- Fixes #8\n"


WHY = [
    # datafusion-python, dlt and prowler ask so.
    ("# Rationale for this change\n\n# What changes\n",
     "# Rationale for this change\n\nBecause.\n\n# What changes\n\n- a\n"),
    ("### Context\n\n### Description\n", "### Context\n\nBecause.\n\n### Description\n\n- a\n"),
    ("### Description\n\n### Additional context\n",
     "### Description\n\nBecause.\n\n- a\n\n### Additional context\n"),
    ("# What and why\n", "# What and why\n\nBecause.\n\n- a\n"),
    ("Hi.\n", "Hi.\n\n**Why**\n\nBecause.\n\n**Changes**\n\n- a\n"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "wanted"), WHY)
def test_the_reason_goes_where_it_is_asked_for_or_above_the_changes(
    template: str, wanted: str
) -> None:
    parts = {"why": "Because.", "changes": "- a"}
    assert fill_template(template, parts, "fix", is_breaking=False) == wanted


def test_the_reasons_of_commits_are_part_of_the_description() -> None:
    one = material("fix: mend x\n\nIt was slow:\n\n- on rows\n\nFixes #9")
    assert sections_of(one)["why"] == "It was slow:\n\n- on rows"
    two = material("feat: add x", "fix: mend x\n\nIt was slow.\nSee the page.")
    assert sections_of(two)["why"] == "fix: mend x\n\nIt was slow.\nSee the page."
    assert (
        "It was slow."
        in fill_template(DEFAULT, sections_of(two), "feat", is_breaking=False).partition(
            "## Changes"
        )[0]
    )
    assert "why" not in {key for key, part in sections_of(material("fix: x")).items() if part}


@pytest.mark.parametrize(
    ("commands", "left"),
    [
        (["make test"], ()),
        (["pytest -q: 9 passed"], ()),
        (["pytest tests/unit -q"], NEAR[2:]),
        (["pytest tests/unit/test_mean.py::test_empty", "pytest 'tests/slow/'"], NEAR[:1]),
    ],
)
def test_tests_that_no_command_covers_are_left(commands: list[str], left: tuple[str, ...]) -> None:
    found = near_tests_run(Surroundings(tests=NEAR), commands)
    assert found.left == left
    assert {*found.covered, *found.left} == set(NEAR)


def test_a_body_names_risks_and_what_was_run() -> None:
    paths = tuple(f"a/{i}.py" for i in range(7))
    made = material("fix: mean")._replace(
        near=Surroundings((Risk("Losses", "HIGH", "Write it down.", paths),), NEAR),
        commands=("pytest tests/unit: 4 passed",),
    )
    parts = sections_of(made)
    assert parts["risks"] == (
        "- Losses (HIGH): `a/0.py`, `a/1.py`, `a/2.py`, `a/3.py`, `a/4.py` and 2 more. "
        "Write it down."
    )
    assert "Run:\n\n- pytest tests/unit: 4 passed" in parts["tests"]
    assert "Not run, though near to the change: `tests/slow/test_loss.py`." in parts["tests"]
    silent = sections_of(made._replace(commands=()))
    assert "Run: not given" in silent["tests"]
    assert "test_loss" not in silent["tests"]


def test_the_usual_template_has_a_place_for_all() -> None:
    body = fill_template(DEFAULT, PARTS, "feat", is_breaking=False)
    assert body.startswith("## Why\n")
    assert all(part in body for part in PARTS.values())


PLACES = [
    "pull_request_template.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    "docs/Pull_Request_Template.txt",
    ".github/PULL_REQUEST_TEMPLATE/only.md",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_template_is_found_where_it_may_be(place: str, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("\ufeff# Mine\n", encoding="utf-8")
    found = find_template(tmp_path)
    assert (found.path, found.text) == (place, "# Mine\n")


def test_of_several_templates_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "PULL_REQUEST_TEMPLATE"
    folder.mkdir(parents=True)
    for name in ("bug", "feature"):
        (folder / f"{name}.md").write_text(f"# {name}\n")
    assert find_template(tmp_path).path is None
    assert find_template(tmp_path, "bug").text == "# bug\n"
    with pytest.raises(RequestError, match="known: bug, feature"):
        find_template(tmp_path, "bog")


def test_a_template_that_leads_away_or_is_no_text_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    root = tmp_path / "r"
    root.mkdir()
    place = root / "pull_request_template.md"
    place.symlink_to(outside)
    with pytest.raises(RequestError, match="leads out of the repository"):
        find_template(root)
    place.unlink()
    place.write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="cannot be read"):
        find_template(root)


def test_a_body_that_somebody_edited_is_known() -> None:
    body = with_mark("## Why\n\nBecause.\n")
    assert is_untouched(body)
    assert is_untouched(body.replace("\n", "\r\n"))
    assert not is_untouched(body.replace("Because", "Since"))
    assert not is_untouched("Because.\n")


def material(*messages: str, rules: Rules = DEFAULT_RULES) -> Material:
    """Makes what the words are made of, with one commit of its own author for each message."""
    work = tuple(
        BranchCommit(f"{n:040x}", f"P{n} <p{n}@x.org>", f"2026-01-0{n + 1}T00:00:00+00:00", message)
        for n, message in enumerate(messages)
    )
    base = Base("main", "origin", "refs/remotes/origin/main", "b" * 40)
    branch = BranchState("12-x", "h" * 40, base, "b" * 40, work, 0)
    return Material(branch, (), KeyChanges(), ("#12",), rules)


# The subjects of the commits, and the title that they give.
TITLES: dict[tuple[str, ...], str] = {
    ("docs: tell",): "docs: tell",
    ("fix(a): mend", "feat(a): add", "docs(b): tell"): "feat(a): add",
    ("fix(a): mend", "fix(b): mend too"): "fix(a): mend",
    ("wip", "Fixed the order."): "wip",
    ("feat(a): x", "feat!: drop f"): "feat(a)!: x",
}


@pytest.mark.parametrize("messages", TITLES)
def test_titles(messages: tuple[str, ...]) -> None:
    assert title_of(material(*messages)) == TITLES[messages]


def test_a_history_without_types_keeps_the_first_subject() -> None:
    free = Rules(is_conventional=False)
    assert title_of(material("Sort the rows", "feat: x", rules=free)) == "Sort the rows"


def test_what_breaks_is_in_the_words_of_the_commits() -> None:
    assert breaking_lines(material("fix: x")) == []
    assert breaking_lines(material("fix: x\n\nBREAKING CHANGE: rename f")) == ["rename f"]
    assert breaking_lines(material("feat!: drop f")) == ["drop f"]


def test_one_message_of_many_keeps_reasons_authors_dates_and_trailers() -> None:
    these = material(
        "feat: add x\n\nWhy.\n\nFixes #9\nSigned-off-by: P0 <p0@x.org>",
        "fix: mend x\n\nIt was slow:\n\n- on rows\n\nSee the page.\n"
        "Co-authored-by: Q <q@x.org>\nReviewed-on: nowhere",
    )
    text = squash_message(these, "feat: add x")
    assert check_message(text, None) == []
    assert text == (
        "feat: add x\n\nWhy.\n\n"
        "- fix: mend x\n  It was slow:\n\n  - on rows\n\n  See the page.\n\nRefs: #12\n"
        "Squashed: 000000000000 2026-01-01T00:00:00+00:00\n"
        "Squashed: 000000000000 2026-01-02T00:00:00+00:00\n"
        "Co-authored-by: P1 <p1@x.org>\nFixes: #9\nSigned-off-by: P0 <p0@x.org>\n"
        "Co-authored-by: Q <q@x.org>\nReviewed-on: nowhere\n"
    )
    assert all_references(these) == ("#12", "#9")


def test_a_wrapped_sentence_with_a_colon_stays_in_its_reason() -> None:
    # Such a line is in a commit of bandit: without it the sentence said the opposite.
    reason = "The early return is\nidentical: the name is returned,\nskipping the call."
    these = material(f"feat: add x\n\n{reason}", "fix: mend x")
    text = squash_message(these, "feat: add x")
    assert f"feat: add x\n\n{reason}\n\n- fix: mend x\n\nRefs: #12\nSquashed: " in text
    assert text.count("identical") == 1


@pytest.mark.parametrize(
    "reason",
    [
        "Reason: users counted from zero.",
        "Before: 0 1 2\nAfter: 1 2 3",
        "It is not\nre-entrant: a second call waits.",
    ],
)
def test_a_sentence_behind_a_colon_is_no_trailer(reason: str) -> None:
    one = material(f"fix: mend x\n\n{reason}")
    assert sections_of(one)["why"] == reason
    two = material("feat: y", f"fix: mend x\n\n{reason}\nsigned-off-by: P <p@x.org>")
    text = squash_message(two, "feat: y")
    assert reason.replace("\n", "\n  ") in text
    assert "\nsigned-off-by: P <p@x.org>\n" in text


def test_what_breaks_is_told_to_its_end() -> None:
    breaking = "BREAKING CHANGE: f has to be given b,\nwhich was 0 before."
    these = material(
        f"feat: x\n\nWhy.\n\n{breaking}\nRefs: #1\n  #2", f"fix: y\n\n{breaking[:-1]} it.\n\nCc: Q"
    )
    told = sections_of(these)
    assert told["breaking"].splitlines()[0] == "- f has to be given b, which was 0 before."
    assert told["why"] == "feat: x\n\nWhy."
    text = squash_message(these, "feat!: x")
    assert text.count("BREAKING CHANGE: f has to be given b,\n  which was 0 before") == 2
    assert "\nRefs: #1\n  #2\n" in text
    assert check_message(text, None) == []


GAPS = [
    ("Fixes #(issue)", ("#7",), "Fixes #7"),
    ("- Closes: #<number>", ("ABC-1",), "- Closes: ABC-1"),
    ("Resolves #", (), None),
    ("Part of #<number>.", ("#7",), "Part of #7"),
    ("Fixes # (issue)", (), None),
    ("### Closes: #1234", ("#7",), "### Closes: #7"),
    ("This fixes the #1 problem", (), "This fixes the #1 problem"),
    ("<!-- Fixes #(issue) -->", (), "<!-- Fixes #(issue) -->"),
]


@pytest.mark.parametrize(("line", "references", "wanted"), GAPS)
def test_a_place_for_the_issue_is_filled_or_goes(
    line: str, references: tuple[str, ...], wanted: str | None
) -> None:
    filled = fill_template(f"Top\n\n{line}\nEnd\n", {}, "fix", references, is_breaking=False)
    assert filled == "Top\n\n" + (f"{wanted}\n" if wanted else "") + "End\n"


def test_a_single_commit_keeps_its_message() -> None:
    text = "feat: add x\n\nWhy.\n"
    assert squash_message(material(text), "feat: add x") == text


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("python -m pytest tests: 9 passed", ()),
        ("pytest tests -k grpo: 12 passed", ("tests/test_dpo_trainer.py",)),
        ("pytest -k 'grpo or dpo'", ()),
        ("pytest tests -k sft", ("tests/test_grpo_trainer.py", "tests/test_dpo_trainer.py")),
        ("make test", ()),
    ],
)
def test_a_selection_runs_what_it_names(command: str, left: tuple[str, ...]) -> None:
    near = ("tests/test_grpo_trainer.py", "tests/test_dpo_trainer.py")
    assert near_tests_run(Surroundings(tests=near), [command]).left == left


SLOW, PLAIN = frozenset({"slow"}), frozenset[str]()
MARKED = Surroundings(
    tests=("tests/test_a.py", "tests/test_b.py", "tests/data.json"),
    marks={"tests/test_a.py": (SLOW, SLOW), "tests/test_b.py": (PLAIN, SLOW, PLAIN)},
    default="not slow",
)


@pytest.mark.parametrize(
    ("commands", "left", "partly"),
    [
        (["pytest"], [0], [("tests/test_b.py", 2, 3)]),
        (["pytest -q tests"], [0], [("tests/test_b.py", 2, 3)]),
        (["python -m pytest -m slow: 3 passed"], [2], [("tests/test_b.py", 1, 3)]),
        (["pytest tests", "pytest -m slow tests"], [], []),
        (["pytest tests/test_a.py -m 'slow or gpu'"], [1, 2], []),
        (["pytest -m ''"], [], []),
        (["pytest -m 'slow or not slow'"], [], []),
        (["pytest tests/other/test_c.py"], [0, 1, 2], []),
        (["make test-all"], [], []),
    ],
)
def test_markers_leave_tests_out(
    commands: list[str], left: list[int], partly: list[tuple[str, int, int]]
) -> None:
    found = near_tests_run(MARKED, commands)
    assert found.left == tuple(MARKED.tests[each] for each in left)
    assert list(found.partly) == partly


def test_a_body_tells_how_many_tests_of_a_file_ran() -> None:
    made = material("fix: mean")._replace(near=MARKED, commands=("pytest tests: 2 passed",))
    told = sections_of(made)["tests"]
    assert told.endswith(
        "Not run, though near to the change: `tests/test_a.py`.\n"
        "Of `tests/test_b.py` 2 of 3 tests ran."
    )


def test_what_no_heading_asks_for_has_a_title_and_only_where_it_says_something() -> None:
    """The template of trl has no heading for risks, and a line for the issue."""
    text = "# What does this PR do?\n\nFixes # (issue)\n\n## Who can review?\n\nAnyone.\n"
    parts = {"changes": "- Fix it", "risks": "- Losses", "breaking": NO_BREAKING,
             "references": "- #12"}  # fmt: skip
    filled = fill_template(text, parts, "fix", ["#12"], is_breaking=False)
    assert filled.startswith(
        "# What does this PR do?\n\nFixes #12\n\n- Fix it\n\n**Risk areas**\n\n- Losses\n\n## Who"
    )
    assert "Fixes #12" in filled
    assert filled.count("#12") == 1
    assert NO_BREAKING not in filled
    bare = fill_template("Write here.\n", parts, "fix", ["#12"], is_breaking=False)
    assert "**References**\n\n- #12" in bare

"""Type and scope of a change: the table, habits, general rules and folders, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scaffold.vcs.changes import FileChange, Hunk, Status
from scaffold.vcs.commit.conventional import Rules
from scaffold.vcs.commit.history import Past, read_header
from scaffold.vcs.commit.inference import (
    ENOUGH,
    SubjectHabits,
    infer_scope,
    infer_type,
    learn_habits,
)
from scaffold.vcs.commit.issue_references import branch_references
from scaffold.vcs.commit.key_changes import KeyChanges, SymbolChange
from scaffold.vcs.commit.settings import CommitSettings, PathRule
from scaffold.vcs.roles import role_of

USUAL = CommitSettings()
NOTHING = KeyChanges()


def change(
    path: str, status: Status = "M", *, blob: str = "1", old: str | None = None
) -> FileChange:
    """Makes a change of a file by one line."""
    hunks = (Hunk(1, ("a",), 1, ("b",), ""),)
    old_path = None if status == "A" else old or path
    modes = "100644", "100644"
    return FileChange(status, old_path, path, *modes, f"old{blob}", f"new{blob}", 100, False, hunks)


def past(subject: str, *paths: str, number: int = 0) -> Past:
    """Makes an earlier commit."""
    return Past(f"{number:040x}", subject, tuple(change(path, blob=subject) for path in paths))


def many() -> Iterator[Past]:
    """Yields a history in which folders, files and words go together."""
    for number in range(ENOUGH):
        yield past("docs(guide): tell it", f"docs/page{number}.md", number=number)
        yield past("fix(core): mend it", f"pkg/core/part{number % 3}.py", number=number)
        yield past("test(core): try it", f"tests/core/test_part{number % 3}.py", number=number)


@pytest.fixture(scope="module")
def habits() -> SubjectHabits:
    """Learns it."""
    return learn_habits(many())


# Path, type and scope that the history asks for; the first two files are new to it.
LEARNED = [
    ("docs/new.md", "docs", "guide"),
    ("tests/core/test_new.py", "test", "core"),
    ("pkg/core/part1.py", "fix", "core"),
]


@pytest.mark.parametrize(("path", "type_", "scope"), LEARNED)
def test_habits_decide_where_there_are_enough(
    path: str, type_: str, scope: str, habits: SubjectHabits
) -> None:
    found = infer_type([change(path)], NOTHING, habits, USUAL)
    assert (found.word, found.source) == (type_, "history")
    assert found.share > 0.5
    assert any("earlier commits with" in line for line in found.evidence)
    told = infer_scope([change(path)], habits, USUAL)
    assert (told.word, told.source) == (scope, "history")


def test_a_place_that_history_does_not_know_is_named_by_its_folder(habits: SubjectHabits) -> None:
    found = infer_scope([change("web/router/table.py", "A")], habits, USUAL)
    assert (found.word, found.source) == ("web", "layout")


def test_a_repository_without_scopes_gets_none() -> None:
    plain = learn_habits(past("fix: it", f"src/a{number}.py") for number in range(ENOUGH))
    found = infer_scope([change("src/a1.py")], plain, USUAL)
    assert (found.word, found.source) == (None, "history")


def test_subjects_of_another_form_teach_nothing() -> None:
    free = learn_habits(past("Fixed it", f"src/a{number}.py") for number in range(ENOUGH))
    assert free.types.count == 0


def test_what_is_forgotten_is_as_if_it_was_never_learned() -> None:
    first, second = SubjectHabits(), learn_habits(many())
    for each in many():
        first.learn(each)
        first.learn(past("perf(x): speed it up", "pkg/core/part0.py"))
        first.learn(past("perf(x): speed it up", "pkg/core/part0.py"), -1)
    these = [change("pkg/core/part0.py")]
    assert infer_type(these, NOTHING, first, USUAL) == infer_type(these, NOTHING, second, USUAL)


def test_a_change_that_takes_back_an_earlier_one_is_a_revert(habits: SubjectHabits) -> None:
    again = learn_habits([*many(), past("feat(core): let it fly", "pkg/core/fly.py")])
    taken = change("pkg/core/fly.py")
    back = FileChange(
        "M", taken.path, taken.path, "100644", "100644",
        "newfeat(core): let it fly", "oldfeat(core): let it fly",
    )  # fmt: skip
    found = infer_type([back], NOTHING, again, USUAL)
    assert (found.word, found.source) == ("revert", "structure")
    assert "let it fly" in found.evidence[0]
    assert infer_type([back], NOTHING, habits, USUAL).word != "revert"


def symbol(action: str) -> KeyChanges:
    """Makes the key changes of one public definition."""
    row = SymbolChange(action, "run", "function", "a.py", None, None)  # pyright: ignore[reportArgumentType]
    return KeyChanges((row,), depth="code")


# Without habits: the changes, their key changes, and the type by general rules.
RULES: dict[str, tuple[list[FileChange], KeyChanges, str]] = {
    "only pages": ([change("docs/a.md"), change("README.md")], NOTHING, "docs"),
    "only tests": ([change("tests/test_a.py")], NOTHING, "test"),
    "only ci": ([change(".github/workflows/x.yml")], NOTHING, "ci"),
    "only layout": ([change("a.py")], KeyChanges(depth="layout"), "style"),
    "only docstrings": ([change("a.py")], KeyChanges(depth="docstrings"), "docs"),
    "only moves": ([change("b.py", "R", old="a.py")], NOTHING, "refactor"),
    # Nothing in a file that only moves differs, which is layout at most.
    "moves of code": ([change("b.py", "R", old="a.py")], KeyChanges(depth="layout"), "refactor"),
    "only a run bit": (
        [replace(change("a.py"), new_mode="100755", hunks=())],
        KeyChanges(depth="layout"),
        "chore",
    ),
    "a manifest": ([change("pyproject.toml"), change("uv.lock")], NOTHING, "build"),
    "a definition": ([change("a.py"), change("tests/test_a.py")], symbol("added"), "feat"),
    "a moved definition": ([change("a.py")], symbol("moved"), "refactor"),
    "a new source": ([change("a.py", "A")], NOTHING, "feat"),
    "anything else": ([change("a.py")], symbol("changed"), "fix"),
}


@pytest.mark.parametrize("case", RULES)
def test_general_rules_decide_without_habits(case: str) -> None:
    changes, key, wanted = RULES[case]
    found = infer_type(changes, key, SubjectHabits(), USUAL)
    assert (found.word, found.source) == (wanted, "structure")


def test_layout_alone_is_style_whatever_the_habits(habits: SubjectHabits) -> None:
    with_style = learn_habits([*many(), past("style: sort", "x.py")])
    layout = KeyChanges(depth="layout")
    assert infer_type([change("pkg/core/part1.py")], layout, with_style, USUAL).word == "style"
    # Where nobody ever writes "style", habits decide.
    assert infer_type([change("pkg/core/part1.py")], layout, habits, USUAL).word == "fix"


def test_the_path_table_comes_first_and_its_later_lines_win(habits: SubjectHabits) -> None:
    rows = (
        PathRule("pkg/**", None, "all"),
        PathRule("pkg/core/*.py", "perf", "engine"),
        PathRule("pkg/core/x.py", None, "x"),
    )
    settings = CommitSettings(paths=rows)
    these = [change("pkg/core/a.py"), change("pkg/core/x.py"), change("pkg/core/b.py")]
    scope = infer_scope(these, habits, settings)
    assert (scope.word, scope.source) == ("engine", "table")
    assert scope.share == pytest.approx(2 / 3)
    assert infer_type(these, NOTHING, habits, settings).word == "perf"
    assert infer_scope([change("docs/a.md")], habits, settings).source == "history"


def test_only_words_that_the_repository_allows_are_proposed(habits: SubjectHabits) -> None:
    rules = Rules(types=("feat", "docs"), scopes=("core",))
    settings = CommitSettings(rules)
    assert infer_type([change("pkg/core/part1.py")], NOTHING, habits, settings).word == "feat"
    assert infer_scope([change("docs/a.md")], habits, settings).word is None
    assert infer_scope([change("pkg/core/part1.py")], habits, settings).word == "core"


HEADERS = [
    ("feat: add", ("feat", None, False, "add")),
    ("Fix(a-b/c)!: mend", ("fix", "a-b/c", True, "mend")),
    ("feat(): add", ("feat", None, False, "add")),
    ("Merge branch 'x'", None),
    ("update: ", None),
]


@pytest.mark.parametrize(("line", "wanted"), HEADERS)
def test_headers(line: str, wanted: tuple[object, ...] | None) -> None:
    assert read_header(line) == wanted


BRANCHES = [
    ("123-fix-it", ("#123",)),
    ("feature/123-fix", ("#123",)),
    ("gh-12", ("#12",)),
    ("fix/gh-12-more", ("#12",)),
    ("issue-7", ("#7",)),
    ("fix-99", ("#99",)),
    ("feature/ABC-12", ("ABC-12",)),
    ("ABC-12-and-DEF-3", ("ABC-12", "DEF-3")),
    ("main", ()),
    ("release/1.2", ()),
    ("v2.x", ()),
    ("2024-05-01-notes", ()),
    ("dependabot/npm_and_yarn/lodash-4", ()),
    ("utf-8", ()),
    ("python-3", ()),
    ("0-start", ()),
]


@pytest.mark.parametrize(("branch", "wanted"), BRANCHES)
def test_branches(branch: str, wanted: tuple[str, ...]) -> None:
    assert branch_references(branch) == wanted


ROLES = [
    ("src/a.py", "source"),
    ("tests/data/x.md", "test"),
    ("src/a_test.go", "test"),
    ("src/app.spec.ts", "test"),
    ("docs/conf.py", "docs"),
    ("README.md", "docs"),
    ("requirements/dev.txt", "build"),
    ("sub/Cargo.toml", "build"),
    ("go.sum", "build"),
    (".github/workflows/a.yml", "ci"),
    (".pre-commit-config.yaml", "tooling"),
    ("benchmarks/a.py", "bench"),
    ("data/rows.csv", "data"),
    ("attest/latest.py", "source"),
]


@pytest.mark.parametrize(("path", "role"), ROLES)
def test_roles(path: str, role: str) -> None:
    assert role_of(path) == role

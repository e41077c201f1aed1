"""Words of a message: first lines, issues in a branch's name, roles of files, types with proof."""

from __future__ import annotations

import pytest

from scaffold.vcs.changes import FileChange, Status
from scaffold.vcs.commit.command import (
    AGREED,
    ENOUGH,
    Past,
    Word,
    branch_references,
    find_type,
    from_table,
)
from scaffold.vcs.commit.conventional import DEFAULT_RULES, Rules, read_header
from scaffold.vcs.commit.settings import PathRule
from scaffold.vcs.roles import kind_of

OLD, NEW = "1" * 40, "2" * 40


def change(path: str, status: Status = "M") -> FileChange:
    """Make the change of one file."""
    return FileChange(status, path, path, "100644", "100644", OLD, NEW)


def past(subject: str, path: str) -> Past:
    """Make an earlier commit to one file."""
    return Past(subject, frozenset({path}))


def test_a_custom_of_the_repository_gives_the_type() -> None:
    history = [past("chore: bump", f".github/workflows/{n}.yml") for n in range(ENOUGH)]
    found = find_type([change(".github/workflows/new.yml")], history, (), DEFAULT_RULES)
    assert found == Word("chore", f"{ENOUGH} of {ENOUGH} earlier commits to ci alone")


def test_a_history_that_is_divided_leaves_the_type_to_the_author() -> None:
    history = [past("fix: x", f"src/{n}.py") for n in range(10)]
    history += [past("feat: x", "src/x.py") for _ in range(10)]
    found = find_type([change("src/new.py")], history, (), DEFAULT_RULES)
    assert found.word is None
    assert found.why == "10 of 20 earlier commits to source alone are 'fix': yours to choose"
    assert AGREED > 0.5


def test_documentation_has_a_type_without_a_history() -> None:
    assert find_type([change("docs/a.md")], [], (), DEFAULT_RULES).word == "docs"
    nothing = find_type([change("src/a.py")], [], (), DEFAULT_RULES)
    assert nothing == Word(None, "no earlier commit shows one")
    assert find_type([change("docs/a.md")], [], (), Rules(("add",))).word is None


def test_the_path_table_comes_first_and_its_later_rows_win() -> None:
    table = [PathRule("src/**", "fix", "core"), PathRule("src/web/**", None, "web")]
    these = [change("src/web/a.py"), change("src/web/b.py"), change("src/c.py")]
    assert find_type(these, [], table, DEFAULT_RULES).word == "fix"
    assert from_table(these, table, "scope").word == "web"
    assert from_table([change("x.py"), change("src/c.py")], table, "scope").word is None


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
    assert kind_of(path) == role

"""Key changes: definitions, moves, dependencies and what breaks, from real commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.vcs.changes import changes_between
from scaffold.vcs.commit.command import draft_message, point_lines
from scaffold.vcs.commit.conventional import DEFAULT_RULES, SUBJECT_GAP, check_message
from scaffold.vcs.commit.key_changes import KeyChanges, key_changes
from scaffold.vcs.definitions import Symbol, read_symbols, why_calls_break
from scaffold.vcs.repository import open_repository
from tests.integration.scaffold.git_places import commit, git, make_repository

Files = dict[str, str | bytes | None]


def between(folder: Path, before: Files, after: Files) -> tuple[KeyChanges, list[str]]:
    """Commits two states and returns what the second changed, and the lines that tell it."""
    make_repository(folder)
    commit(folder, "feat: before", {"keep": "", **before})
    commit(folder, "feat: after", after)
    repository = open_repository(folder)
    found = key_changes(repository, changes_between(repository, "HEAD^1", "HEAD"))
    repository.close()
    return found, list(point_lines(found))


CODE = 'class Engine:\n    """Runs."""\n\n    def run(self, rows):\n        return rows\n'
LONG = f"{'row: list[tuple[int, ...]], ' * 4}last_of_the_rows: int"
COMMAND = "@click.command()\n@click.option('--x')\n"
BIG = "def big(rows):\n" + "".join(f"    rows.append({n})\n" for n in range(20))

# What the files were, what they are, the lines that are told, and what breaks.
CASES: dict[str, tuple[Files, Files, list[str], list[str]]] = {
    "added": (
        {"a.py": ""}, {"a.py": CODE + "def _own(): ...\n"},
        ["add class Engine (a.py)"], [],
    ),
    "removed": (
        {"a.py": CODE + "X = 1\n"}, {"a.py": "X = 1\n"},
        ["remove class Engine (a.py)"], ["Engine is gone"],
    ),
    "a whole file": (
        {"a.py": CODE}, {"a.py": None, "b.txt": "other\n"},
        ["remove class Engine (a.py)"], ["Engine is gone"],
    ),
    "a private file": ({"_a.py": CODE}, {"_a.py": "X = 1\n"}, [], []),
    "a test": ({"tests/test_a.py": CODE}, {"tests/test_a.py": "X = 1\n"}, [], []),
    "a head": (
        {"a.py": CODE}, {"a.py": CODE.replace("rows):", "rows, size):")},
        ["change method Engine.run: run(self, rows) -> run(self, rows, size) (a.py)"],
        ["Engine.run requires 'size'"],
    ),
    "a long head": (
        {"a.py": f"def run({LONG}): ...\n"}, {"a.py": f"def run({LONG}, size: int = 1): ...\n"},
        ["change function run: run(..., last_of_the_rows: int) -> run(..., last_of_the_rows: int, "
         "size: int=1) (a.py)"], [],
    ),
    "a coroutine": (
        {"a.py": "def run(rows): ...\n"}, {"a.py": "async def run(rows): ...\n"},
        ["change function run: run(rows) -> async run(rows) (a.py)"],
        ["run is a coroutine now"],
    ),
    "a command and a fixture": (
        {"a.py": f"{COMMAND}def cli(x): ...\n\n\n@pytest.fixture\ndef ours(): ...\n"},
        {"a.py": f"{COMMAND}@click.option('--y')\ndef cli(x, y): ...\n\n\n"
                 "@pytest.fixture\ndef ours(tmp_path): ...\n"},
        ["change function cli: cli(x) -> cli(x, y) (a.py)",
         "change function ours: ours() -> ours(tmp_path) (a.py)"], [],
    ),
    "moved": (
        {"a.py": CODE + "X = 1\n", "b.py": "Y = 1\n"},
        {"a.py": "X = 1\n", "b.py": "Y = 1\n" + CODE},
        ["move class Engine from a.py to b.py"], [],
    ),
    "a moved file": (
        {"a.py": BIG}, {"a.py": None, "pkg/a.py": BIG},
        ["move a.py to pkg/a.py"], [],
    ),
    "dependencies": (
        {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["a>=1", "b"]\n'},
        {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["a>=2", "c"]\n'},
        ["a: >=1 -> >=2 (pyproject.toml)", "drop the dependency b (pyproject.toml)",
         "add the dependency c (pyproject.toml)"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_key_changes(case: str, tmp_path: Path) -> None:
    before, after, told, broken = CASES[case]
    found, lines = between(tmp_path / "r", before, after)
    assert lines == told
    assert [each.breaks for each in found.breaking] == broken


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    found, _ = between(tmp_path / "r", {"a.py": "x = 1\n"}, {"a.py": "x =\n", "b.weird.sql": "x"})
    assert [(each.path, each.why) for each in found.unread] == [
        ("a.py", "it cannot be parsed"),
        ("b.weird.sql", "its language is not read"),
    ]


def test_a_content_that_a_partial_clone_lacks_is_named(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "r")
    commit(folder, "feat: before", {"a.py": "def a(): ...\n"})
    blob = git(folder, "rev-parse", "HEAD:a.py")
    commit(folder, "feat: after", {"a.py": "def b(): ...\n"})
    repository = open_repository(folder)
    changes = changes_between(repository, "HEAD^1", "HEAD")
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    found = key_changes(repository, changes)
    repository.close()
    assert found.symbols == ()
    assert [each.why for each in found.unread] == ["its content is not in this clone"]


# A head before, a head after, and why calls break.
HEADS = [
    ("(a)", "(a, b=1)", None),
    ("(a)", "(a, *, b=1)", None),
    ("(a)", "(a, b)", "f requires 'b'"),
    ("(a)", "(a, *, b)", "f requires 'b'"),
    ("(a, b=1)", "(a, b)", "f has no default for 'b' any more"),
    ("(a, b)", "(a)", "f takes no 'b' any more"),
    ("(a, b)", "(a, **rest)", "f takes fewer arguments by their place"),
    ("(a, b)", "(b, a)", "f takes its arguments in another order"),
    ("(a, *, b=1)", "(a, b=1)", None),
    ("(a, b=1)", "(a, *, b=1)", "f takes fewer arguments by their place"),
    ("(*args)", "(a=1)", "f takes fewer arguments by their place"),
    ("(a)", "(*args, a=1)", None),
    ("(a: int) -> int", "(a: str) -> str", None),
    ("(a)", "(a, /)", "f takes no 'a' any more"),
]


@pytest.mark.parametrize(("old", "new", "why"), HEADS)
def test_calls_that_break(old: str, new: str, why: str | None) -> None:
    symbols = [read_symbols("x.py", f"def f{head}: ...\n") for head in (old, new)]
    assert symbols[0]
    assert symbols[1]
    assert why_calls_break(symbols[0][0], symbols[1][0]) == why


@pytest.mark.parametrize(
    ("decorators", "breaks"),
    [
        ("@click.command()", False),
        ("@click.command('x')\n@click.option('--b')", False),
        ("@pytest.fixture", False),
        ("@app.route('/f').here", False),
        ("@staticmethod\n@other", False),
        ("@functools.lru_cache(maxsize=None)", True),
        ("@torch.no_grad()\n@contextmanager", True),
    ],
)
def test_what_a_decorator_makes_may_be_called_otherwise(decorators: str, breaks: bool) -> None:
    heads = ("def f(a): ...\n", "def f(a, b): ...\n")
    old, new = (read_symbols("x.py", f"{decorators}\n{head}") for head in heads)
    assert old
    assert new
    assert why_calls_break(old[0], new[0]) == ("f requires 'b'" if breaks else None)


def test_a_coroutine_is_another_thing() -> None:
    old, new = (read_symbols("x.py", f"{word}def f(): ...\n") for word in ("", "async "))
    assert old
    assert new
    assert why_calls_break(old[0], new[0]) == "f is a coroutine now"


def in_class(*rows: str) -> Symbol:
    """Return the last definition of a class with these lines."""
    found = read_symbols("x.py", "\n    ".join(("class A:", *rows)))
    assert found
    return found[-1]


def test_a_property_is_no_method() -> None:
    head = "def size(self): ..."
    bare = in_class(head)
    own, cached = (in_class(mark, head) for mark in ("@property", "@ft.cached_property"))
    # `a.size` is a bound method then, which is true whatever the size.
    assert why_calls_break(own, bare) == "A.size is a method and no property"
    assert why_calls_break(bare, cached) == "A.size is a property and no method"
    assert why_calls_break(own, cached) is None
    # Nobody names the argument of a setter.
    a, b = (in_class("@size.setter", f"def size(self, {each}): ...") for each in ("a", "b"))
    assert why_calls_break(a, b) is None


def test_a_draft_keeps_the_rules_but_for_what_its_author_writes(tmp_path: Path) -> None:
    many = "".join(f"def a_function_with_a_long_name_number_{n}(): ...\n" for n in range(40))
    folder = tmp_path / "r"
    found, _ = between(folder, {"pkg/a.py": "def old(x): ...\n"}, {"pkg/a.py": many})
    text = draft_message(found, "feat", "pkg", ("#7",), DEFAULT_RULES)
    assert {problem.rule for problem in check_message(text, None)} == {"draft"}
    assert text.startswith(f"feat(pkg): {SUBJECT_GAP}\n")
    assert "- add 28 more public definitions\n" in text
    assert text.endswith("\n\nRefs: #7\n")

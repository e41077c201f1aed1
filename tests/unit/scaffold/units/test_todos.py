"""The author's places: found by their comment, open until code or comment changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.units.ledger import Todo, Unit, base_path
from scaffold.units.todos import find_todos, open_todos, symbol_line

TEXT = '''"""Doc."""

# YOURS: add a case
CASES: list[int] = [1]
MORE = [
    # YOURS: add more
    2,
]


def plain(x: int) -> int:
    """Does it."""
    # YOURS: write it
    return x


class Thing:
    # YOURS: set it
    size = 3

    async def run(self) -> int:
        def inner() -> int:
            # YOURS: go on
            return 1

        return inner()
'''


def unit(root: Path, text: str = TEXT) -> Unit:
    todos = [Todo("m.py", p.symbol, p.why) for p in find_todos("m.py", text)]
    base = root / base_path("reward", "x", "m.py")
    base.parent.mkdir(parents=True)
    base.write_text(text)
    (root / "m.py").write_text(text)
    return Unit("reward", "x", ("exact",), {}, todos=tuple(todos))


def test_finds_every_place_with_symbol_line_and_reason():
    assert [(p.line, p.symbol, p.why) for p in find_todos("m.py", TEXT)] == [
        (3, "CASES", "add a case"),
        (6, "MORE", "add more"),
        (13, "plain", "write it"),
        (18, "Thing.size", "set it"),
        (23, "Thing.run", "go on"),
    ]


def test_a_string_that_looks_like_a_mark_is_none():
    assert find_todos("m.py", 'x = "# YOURS: no"\ny = 1  # YOURS: no\n') == ()


def test_a_mark_that_marks_nothing_is_an_error():
    with pytest.raises(ValueError, match="line 2"):
        find_todos("m.py", "x = 1\n# YOURS: what?\n")


def test_untouched_places_are_open(tmp_path: Path):
    assert len(open_todos(tmp_path, unit(tmp_path))) == 5


@pytest.mark.parametrize(
    ("old", "new", "closed"),
    [
        ("    return x\n", "    return x + 1\n", "plain"),
        ("    # YOURS: write it\n", "", "plain"),
        ("= [1]", "= [1, 2]", "CASES"),
        ("size = 3", "size = 4", "Thing.size"),
        ("            return 1\n", "            return 2\n", "Thing.run"),
        ('"""Does it."""', '"""Does another thing."""', "plain"),
        ("def plain(x: int)", "def other(x: int)", "plain"),
    ],
)
def test_code_or_a_deleted_comment_closes_a_place(tmp_path: Path, old: str, new: str, closed: str):
    made = unit(tmp_path)
    (tmp_path / "m.py").write_text(TEXT.replace(old, new))
    still = {place.symbol for place in open_todos(tmp_path, made)}
    assert {place.symbol for place in made.todos} - still == {closed}


def test_formatting_closes_nothing_and_lines_move(tmp_path: Path):
    made = unit(tmp_path)
    (tmp_path / "m.py").write_text("\n\n" + TEXT.replace("[1]", "[\n    1,\n]"))
    found = open_todos(tmp_path, made)
    assert len(found) == 5
    assert found[0].line == 5


@pytest.mark.parametrize("content", [None, "def broken(:\n"])
def test_a_file_that_is_gone_or_broken_has_no_open_place(tmp_path: Path, content: str | None):
    made = unit(tmp_path)
    if content is None:
        (tmp_path / "m.py").unlink()
    else:
        (tmp_path / "m.py").write_text(content)
    assert open_todos(tmp_path, made) == ()


def test_a_mark_of_the_author_s_own_is_no_place(tmp_path: Path):
    made = unit(tmp_path)
    (tmp_path / "m.py").write_text(TEXT + "\n\n# YOURS: later\nLATER = 1\n")
    assert len(open_todos(tmp_path, made)) == 5


def test_symbol_line_finds_functions_classes_methods_and_assignments():
    assert symbol_line(TEXT, "plain") == 11
    assert symbol_line(TEXT, "Thing.run") == 21
    assert symbol_line(TEXT, "MORE") == 5
    assert symbol_line(TEXT, "Thing.nothing") is None


def test_without_a_base_every_mark_that_stands_is_open(tmp_path: Path):
    made = unit(tmp_path)
    (tmp_path / base_path("reward", "x", "m.py")).unlink()
    text = TEXT.replace("return x\n", "return x + 1\n").replace("    # YOURS: set it\n", "")
    (tmp_path / "m.py").write_text(text)
    assert [p.symbol for p in open_todos(tmp_path, made)] == [
        "CASES",
        "MORE",
        "plain",
        "Thing.run",
    ]

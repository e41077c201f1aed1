"""Whatever a person answers: it is a literal in the code and text in the records, nothing else."""

from __future__ import annotations

import ast
import functools
import io
import tempfile
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.cli.units import writer_of
from scaffold.errors import RequestError, ScaffoldError
from scaffold.target.target import Target, target_at
from scaffold.templating.answers import MAX_TEXT, complete_answers
from scaffold.templating.manifests import load_kind, load_style, style_names
from scaffold.templating.names import canonical_key
from scaffold.templating.render import RenderedFile, render_request
from scaffold.templating.spec import Answer, all_answers
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import dump_unit, find_unit, parse_unit
from scaffold.units.prepare import request_for
from scaffold.units.project import new_project
from scaffold.units.records import unit_of
from scaffold.units.remove import remove_unit
from scaffold.units.update import update_units

MARK = "zqxj"
"""Begins every text, and is in no template: where it is found, the text has come through."""

PIECES = [
    "'", '"', "'''", '"""', "\\", "\\\\", "\n", "\r", "\r\n", "\t", "\0", "\x1b", "\x7f", "\x85",
    "\u2028", "\u2029", "\u202e", "\u200f", "\ufeff", "\ufffe", "\U0001f600", "e\u0301", "\ufb01",
    "{{", "}}", "{%", "%}", "{#", "#}", "{{ key }}", "{% raw %}", "{% include 'x' %}", "{key}",
    "{module}", "{", "}", "{0}", "%s", "%(x)s", "$HOME", "$(id)", "`id`", "; rm -rf /", "&&", "|",
    "# YOURS: it", "#", "\n# YOURS: it\n", "'); import os; os.abort()  #", "f'{1}'", "\\N{DASH}",
    "\\u0041", "\\x41", "\\", "<<<<<<< yours\n", "=======\n", ">>>>>>>\n", "-->", "</script>",
    "[tool]\n", "[[files]]\n", "''' + x + '''", "\n    return 1.0\n", "\x0c", "\x1a", " ",
]  # fmt: skip
HOSTILE = st.lists(
    st.sampled_from(PIECES) | st.text(max_size=8) | st.text("'\"\\{}%#\n", max_size=8), max_size=8
).map(lambda parts: MARK + "".join(parts))
EDGES = st.sampled_from(["", *PIECES])


def free_texts() -> list[tuple[str, str, str]]:
    """Returns every question of every style that takes any text."""
    return [
        (kind, style, name)
        for kind in ("reward", "workflow", "dataset")
        for style in style_names(kind)
        for name, question in all_answers(load_kind(kind), [load_style(kind, style)]).items()
        if question.is_free_text and not question.check
    ]


QUESTIONS = free_texts()
assert len(QUESTIONS) > 12


@functools.cache
def project() -> Path:
    """Makes a project that nothing is written to."""
    folder = Path(tempfile.mkdtemp())
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(folder))
    return folder / "my_rl"


@functools.cache
def target() -> Target:
    found = target_at(project())
    assert found is not None
    return found


def question_of(kind: str, style: str, name: str) -> Answer:
    return all_answers(load_kind(kind), [load_style(kind, style)])[name]


def render(kind: str, style: str, answers: dict[str, str]) -> tuple[RenderedFile, ...]:
    """Renders a unit, and sees that the record of it reads back the same."""
    data = load_kind(kind)
    styles = (load_style(kind, style),)
    request = request_for(target(), data, styles, canonical_key("sums"), answers)
    rendered = render_request(request, target().catalogue.files(kind))
    unit = unit_of(request, rendered)
    again = parse_unit(dump_unit(unit), "made.toml")
    assert again.answers == unit.answers
    assert again.answers.items() >= answers.items()
    assert [todo.symbol for todo in again.todos] == [todo.symbol for todo in unit.todos]
    return rendered


def literals(source: bytes) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def shape(source: bytes) -> list[tuple[str, str]]:
    """Returns the tokens of Python, the content of strings and comments left out."""
    kept: list[tuple[str, str]] = []
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            assert MARK not in token.string
        elif token.type == tokenize.STRING:
            kept.append(("string", ""))
        else:
            assert MARK not in token.string
            kept.append((tokenize.tok_name[token.type], token.string))
    return kept


def joined(source: bytes) -> list[str]:
    """Returns what tokens say, with strings side by side as one, and no line ends."""
    skipped = {"NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER", "COMMENT"}
    found: list[str] = []
    for name, text in shape(source):
        if name in skipped or text in "(),":
            continue
        if not (name == "string" and found[-1:] == ["string"]):
            found.append("string" if name == "string" else text)
    return found


@given(asked=st.sampled_from(QUESTIONS), text=HOSTILE)
def test_any_text_is_a_literal_and_nothing_else(asked: tuple[str, str, str], text: str):
    check_literal(*asked, text)


@pytest.mark.parametrize(("kind", "style", "name"), QUESTIONS)
def test_all_of_it_at_once_is_one_literal(kind: str, style: str, name: str):
    check_literal(kind, style, name, MARK + "".join(PIECES))
    check_literal(kind, style, name, MARK + "".join(reversed(PIECES)))


def check_literal(kind: str, style: str, name: str, text: str) -> None:
    question = question_of(kind, style, name)
    if question.maximum is not None:
        text = text[: int(question.maximum)]
    rendered = [f for f in render(kind, style, {name: text}) if f.path.endswith(".py")]
    assert any(text in literals(file.data) for file in rendered)
    # The text changes strings alone: not a name, an operator, or a comment.
    assert [joined(file.data) for file in rendered] == plain(kind, style, name)


@functools.cache
def plain(kind: str, style: str, name: str) -> list[list[str]]:
    """Returns what the files of a unit say where the answer is a plain word."""
    files = render(kind, style, {name: MARK})
    return [joined(file.data) for file in files if file.path.endswith(".py")]


@given(asked=st.sampled_from(QUESTIONS), text=EDGES)
def test_a_short_text_renders_as_python(asked: tuple[str, str, str], text: str):
    kind, style, name = asked
    for file in render(kind, style, {name: text}):
        if file.path.endswith(".py"):
            ast.parse(file.data)


@pytest.mark.parametrize(("kind", "style", "name"), QUESTIONS)
def test_the_longest_text_is_taken_and_a_longer_one_refused(kind: str, style: str, name: str):
    question = question_of(kind, style, name)
    most = int(question.maximum or MAX_TEXT)
    for text in ("x" * most, "'\"" * (most // 2), "\U0001f600" * most, "\\" * most, " " * most):
        files = [f.data for f in render(kind, style, {name: text}) if f.path.endswith(".py")]
        assert any(text in literals(data) for data in files)
    for wrong in ("x" * (most + 1), "x" * 1_000_000, "a\ud800b", "\udc80"):
        with pytest.raises(RequestError) as refusal:
            complete_answers({name: question}, {name: wrong})
        assert refusal.value.code == "answer_invalid"
        assert len(refusal.value.message) < 300
        assert refusal.value.hint


@pytest.fixture
def made(tmp_path: Path) -> Path:
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(tmp_path))
    return tmp_path / "my_rl"


def tree(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_the_commands_take_and_refuse_it_too(made: Path) -> None:
    options = Options(made, with_format=False)
    nasty = MARK + "".join(PIECES)
    add_unit(load_kind("workflow"), "sums", ("multi-turn",), {"feedback": nasty}, options)
    source = made / "my_rl" / "workflow" / "sums.py"
    assert nasty in literals(source.read_bytes())
    assert find_unit(made, "sums").answers["feedback"] == nasty

    for piece in PIECES:
        text = f"{MARK}{piece}{piece}x"
        report = update_units(["sums"], [f"feedback={text}"], options, writer_of)
        assert report.ok
        assert text in literals(source.read_bytes())
        assert find_unit(made, "sums").answers["feedback"] == text
    assert not update_units(["sums"], [f"feedback={text}"], options, writer_of).changes

    before = tree(made)
    for wrong in ("x" * (MAX_TEXT + 1), "a\ud800b"):
        for call in (
            lambda text=wrong: update_units(["sums"], [f"feedback={text}"], options, writer_of),
            lambda text=wrong: add_unit(
                load_kind("workflow"), "more", ("multi-turn",), {"feedback": text}, options
            ),
        ):
            with pytest.raises(ScaffoldError) as refusal:
                call()
            assert refusal.value.code == "answer_invalid"
            assert tree(made) == before
    remove_unit("sums", (), options)
    assert not source.exists()

"""A source for a newer Python is read as well as one for this Python."""

from __future__ import annotations

import ast
import sys

import pytest

from scaffold.syntax import NewerSyntaxError, parse, read

DOCUMENT = f'"""{"A" * 9000}"""'
NEWER = {
    "type parameters of a function": ("def f[T: int, *Ts, **P](x: T) -> T:\n    return x\n", "x"),
    "type parameters over several lines": ("def f[\n    T,\n    U,\n](x: T) -> U: ...\n", "x"),
    "type parameters of a class": ("class A[T](B):\n    x = here\n", "here"),
    "of a class without bases": ("class A[\n    T = int,\n]:\n    x = here\n", "here"),
    "an alias of a type": ("type X[T] = list[here]\n", "here"),
    "a template string": ('x = t"hello {here!r:>{width}}"\n', "width"),
    "a template string beside others": ('x = ("a" t"{here}" f"{b}" "é")\n', "here"),
    "quotes in an f-string": ('x = f"é {d["a"]} {f"{here}"}"\n', "here"),
    "lines in an f-string": ("x = f'{\n  here # c\n}'\n", "here"),
    "a backslash in an f-string": ('x = f"{"\\n".join(here)}"\n', "here"),
    "exceptions without brackets": ("try:\n    pass\nexcept A, here:\n    pass\n", "here"),
    "groups of them": ("try:\n    pass\nexcept* A, here, B:\n    pass\n", "here"),
    "the name of an alias": ("x = 1; type here = int\n", "here"),
    "an alias over several lines": ("type X[\n    T,\n] = list[here]\n", "here"),
    "a field over several lines": ("x = f'{\n  a['b']\n} {\n  here\n}'\ny = here\n", "here"),
    "a tuple in a field": ("x = f'{a['b'],}'\ny = here\n", "here"),
    "a document": (f"type X = int\nD = {DOCUMENT}\ny = here\n", "here"),
    "a lazy import": ("lazy import a\nlazy from b import c\nx = here\n", "here"),
}


@pytest.mark.parametrize("name", NEWER)
def test_what_is_newer_keeps_its_names_at_their_places(name: str) -> None:
    source, word = NEWER[name]
    tree = parse(source)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == word]
    found += [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg == word]
    assert found, ast.dump(tree)
    lines = source.encode().split(b"\n")
    for node in found:
        assert lines[node.lineno - 1][node.col_offset :].startswith(word.encode())


def test_bytes_and_windows_line_ends_are_read_too() -> None:
    source = "# -*- coding: latin-1 -*-\r\ndef f[T](é: T):\r\n    return é\r\n".encode("latin-1")
    (function,) = parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert (function.lineno, function.args.args[0].arg) == (2, "é")
    assert [each.name for each in function.type_params] == ["T"]  # pyright: ignore


def test_only_a_statement_that_no_older_spelling_fits_is_left_out() -> None:
    if sys.version_info >= (3, 15):
        pytest.skip("this Python reads the statement")
    parsed = read("one = 1\ntwo = [*each for each in rows]\nthree = 3\n")
    assert [ast.unparse(node) for node in parsed.tree.body] in (
        ["one = 1", "three = 3"],
        ["one = 1", "two = [*each for each in rows]", "three = 3"],
    )


@pytest.mark.parametrize(
    "source",
    [
        "def f(:\n",
        "x = (\n",
        "f'{'\n",
        "a\0b",
        "(" * 5000,
        "[" * 90 + "]" * 90 + " x",
        "-" * 20_000 + "x y",
        "a." * 20_000 + "a b",
        "type Y = int\nx = (\n" + "    a +\n" * 20_000 + " b)",
        "if x:\n    pass\n" + "elif y:\n    pass\n" * 5000 + "else\n",
    ],
    ids=lambda source: repr(source[:12]),
)
def test_what_no_python_reads_is_a_syntax_error(source: str) -> None:
    with pytest.raises(SyntaxError):
        parse(source)


def test_what_may_be_sound_is_not_called_wrong() -> None:
    for source in ('x = t"{a}" t"{b}"\n', "class A:\n    x = [*a for a in b]\n    y = 1\n"):
        with pytest.raises(NewerSyntaxError):
            parse(source)


def test_exceptions_without_brackets_are_a_tuple() -> None:
    (statement,) = parse("try:\n    pass\nexcept A, B:\n    pass\n").body
    assert isinstance(statement, ast.Try)
    assert ast.unparse(statement.handlers[0].type or statement) == "(A, B)"


def test_what_the_tree_does_not_show_is_kept_beside_it() -> None:
    one, other = read('x = t"one {a}"\n'), read('x = t"two {a}"\n')
    assert ast.dump(one.tree) == ast.dump(other.tree)
    assert one.residue != other.residue


def test_a_tree_belongs_to_its_reader() -> None:
    source = "type X = int\n"
    parse(source).body.clear()
    assert parse(source).body

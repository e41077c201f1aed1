"""What each construct of the language binds, and where it is seen."""

from __future__ import annotations

import ast

import pytest

from scaffold.analysis.python.scopes import bound_names, imported, own_nodes, read_scope
from scaffold.syntax import parse

NAMES = {
    "import": ("import a.b, c.d as e", {"a", "e"}),
    "relative import": ("from . import x\nfrom .m import y as z", {"x", "z"}),
    "definitions": ("def f(p): q = 1\nclass C: r = 2", {"f", "C"}),
    "targets": (
        "a, (b, *c) = d = 1\ne: int\nf += 1\ng.h = i[0] = 2",
        {"a", "b", "c", "d", "e", "f"},
    ),
    "loops": ("for a, b in c: pass\nwith d as e, f as (g, h): pass", {"a", "b", "e", "g", "h"}),
    "handler": ("try: pass\nexcept E as e: pass", {"e"}),
    "match": ("match a:\n case {'k': b, **c}: pass\n case [d, *e] as f: pass", set("bcdef")),
    "walrus": ("print(a := 1)\n[b := c for c in d]\n(lambda: (e := 1))", {"a", "b"}),
    "function": ("def f(a, /, b, *c, d=1, **e):\n global g\n g = h = 1\n[i for i in j]", {"f"}),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_module_binds_the_names_of_its_own_scope(name: str) -> None:
    text, names = NAMES[name]
    assert set(read_scope(ast.parse(text), None).names) == names


def test_a_function_binds_its_parameters_and_not_what_it_declares_global() -> None:
    tree = ast.parse("g = 0\n" + NAMES["function"][0].replace("\n[i", "\nk = [i"))
    module = read_scope(tree, None)
    scope = read_scope(tree.body[1], module)
    assert set(scope.names) == {"a", "b", "c", "d", "e", "h"}
    found = scope.find("g")
    assert found is not None
    assert found[1] is module


def test_the_names_of_a_class_are_not_seen_from_its_methods() -> None:
    tree = ast.parse("a = 0\nclass C:\n a = 1\n def m(self): return a")
    module = read_scope(tree, None)
    body = read_scope(tree.body[1], module)
    method = read_scope(body.names["m"][0].node, body)
    found = method.find("a")
    assert found is not None
    assert found[1] is module
    assert method.owner is not None
    assert method.owner[0] is body.node


def test_a_comprehension_binds_its_targets() -> None:
    tree = ast.parse("[a for a, b in c for d in b]", mode="eval")
    assert set(read_scope(tree.body, None).names) == {"a", "b", "d"}


def test_type_parameters_are_bound_in_what_they_parametrize() -> None:
    """Before Python 3.12 the tree has come through LibCST, with parameters that are no nodes."""
    tree = parse("def f[T, *Ts](a: T): ...\nclass C[K]: ...\n")
    assert set(read_scope(tree, None).names) == {"f", "C"}
    assert set(read_scope(tree.body[0], None).names) == {"a", "T", "Ts"}
    assert set(bound_names(tree)) == {"f", "C", "a", "T", "Ts", "K"}


def test_the_names_of_all_scopes_are_told_apart_from_absolute_imports() -> None:
    tree = ast.parse("import a\nfrom b import c\nfrom .d import e\ndef f(g):\n del g\n h = 1")
    assert sorted(bound_names(tree)) == ["e", "f", "g", "g", "h"]
    assert dict(imported(tree)) == {"a": "a", "c": "b.c"}


def test_the_nodes_of_a_scope_end_where_another_begins() -> None:
    tree = ast.parse("def f():\n a\nclass C:\n b\nlambda: c\nd")
    names = {each.id for each in own_nodes(tree) if isinstance(each, ast.Name)}
    assert names == {"d"}

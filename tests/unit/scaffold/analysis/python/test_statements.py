"""All nodes of a syntax tree, as the standard library orders them."""

import ast
import inspect

import pytest

from scaffold.analysis.cli import argparse_reader, click_reader
from scaffold.analysis.python.statements import all_nodes

_ODD = """
match x:
    case True | None:
        pass
    case {"a": [1, *rest], **more} | Point(y=0) as z if z:
        pass
try:
    async with a as b, c:
        yield
except* (A, B) as error:
    raise error from None
f = lambda *args, k=1, **kw: {**kw, f"{args!r:>{k}}": [i async for i in args if i]}
global g
del a[1:2, ...], b.c
"""


@pytest.mark.parametrize(
    "source", [_ODD, *map(inspect.getsource, (argparse_reader, click_reader, ast))]
)
def test_gives_what_ast_walk_gives_in_its_order_but_for_operators_and_marks(source: str):
    tree = ast.parse(source)
    left_out = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
    assert all_nodes(tree) == [each for each in ast.walk(tree) if not isinstance(each, left_out)]

"""Read which options an argparse program takes: those that its source writes out.

One look at the calls of `add_argument`, whichever parser or command of the program they are of: any
word may be an argument, and an option of one command is one of all. Where something else could add
an option, or lets unknown ones pass, the program is open, and an open program refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.declarations import Declared, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Sources
from scaffold.analysis.python.statements import all_nodes, dotted_name

_PARTS = frozenset(
    {"add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"}
)
_TAKES_MORE = lazy_re(
    r"parse_known_|prefix_chars|parents=|parser_class|\.REMAINDER|sys\.argv\b(?!\[1:\]|\[0\])"
)
_ANY_WORDS = Argument("words", is_required=False, is_repeatable=True)


def read_argparse(
    path: str, function: str, sources: Sources, _python: PythonIndex
) -> Command | None:
    """Return what a program takes; None where its source does not make a parser and parse by it.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
    """
    source = sources.get(path)
    if source is None or not (source.mentions("argparse") and source.mentions(".parse_")):
        return None
    nodes = all_nodes(source.tree)
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    made = {id(each) for each in calls if source.dotted(each.func) == "argparse.ArgumentParser"}
    if not made:
        return None
    made |= {id(each) for each in calls if getattr(each.func, "attr", "") in _PARTS}
    program = Declared(path, abbreviates=True)  # each of its parsers may be told not to
    program.add(_ANY_WORDS)
    program.add(Option(("-h", "--help")))
    if more := _TAKES_MORE.search(source.text):
        program.add(f"its source has {more[0]}")
    for each in dict.fromkeys(_read(nodes, made)):
        program.add(each)
    return program.command()


def _read(nodes: list[ast.AST], made: set[int]) -> Iterator[Option | str]:
    """Yield the options, and each reason why there may be more.

    Args:
        nodes: All of a source.
        made: The calls among them that make a parser, or a part of one.
    """
    names = {
        dotted_name(target)
        for each in nodes
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and id(each.value) in made
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    } - {None}
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    for node in nodes:
        given: Sequence[ast.expr | None] = ()
        match node:
            case ast.Call(args=args, keywords=keywords):
                given = [*args, *(each.value for each in keywords)]
                if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                    yield from _option(node)
            case ast.Return(value=value):
                given = [value]
            case ast.List(elts=given) | ast.Tuple(elts=given) | ast.Dict(values=given):
                pass
            case ast.Attribute(attr="add_argument") if id(node) not in called:
                yield "its options are not added one by one"
            case ast.Attribute(value=owner) if id(node) not in called:
                given = [owner]  # `commands.choices` gives out every parser in it
            case _:
                pass
        if any(id(each) in made or (each and dotted_name(each) in names) for each in given):
            yield f"line {getattr(node, 'lineno', 1)} hands its parser on"


def _option(call: ast.Call) -> Iterator[Option | str]:
    names = [literal(each) for each in call.args]
    if not all(isinstance(each, str) for each in names):
        yield "the name of an option is not written out"
    elif names and names[0].startswith("-"):
        # `BooleanOptionalAction` adds the negated form by itself.
        if "BooleanOptionalAction" in ast.unparse(call):
            names += [f"--no-{each[2:]}" for each in names if each[:2] == "--"]
        yield from (Option((each,), num_values=None) for each in names)

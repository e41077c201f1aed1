"""Read which options an argparse program takes: those that its source writes out.

One look at the calls of `add_argument`, whichever parser or command of the program they are of: any
word may be an argument, and an option of one command is one of all. A parser that is put to any
other use than the plain ones makes the program open, and an open program refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, declared, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Sources
from scaffold.analysis.python.statements import all_nodes

_PARTS = frozenset(
    {"add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"}
)
_PLAIN = _PARTS | frozenset(
    {"add_argument", "error", "exit", "format_help", "format_usage", "get_default", "parse_args"}
    | {"print_help", "print_usage", "set_defaults"}
)
"""The methods of a parser by which nobody else gets hold of it."""

_PASSED_ON = lazy_re(r"\b(?:main|parse_args)\(sys\.argv\[1:\]\)|sys\.argv\[0\]")
_TAKES_MORE = lazy_re(
    r"parse_known_|parse_args_|parse_intermixed_|prefix_chars|\bparents\b|parser_class|REMAINDER"
    r"|[\"']A?\.\.\.[\"']|sys\.argv|import\s.*\bargv\b|\bargv\s*[.\[]"
)


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
    if source is None or not ("argparse" in source.text and ".parse_args(" in source.text):
        return None
    nodes = all_nodes(source.tree)
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    made = {each for each in calls if source.dotted(each.func) == "argparse.ArgumentParser"}
    own = [each for each in nodes if isinstance(each, FUNCTIONS) and each.name == function]
    if not made or (function and not any(".parse_args(" in ast.unparse(each) for each in own)):
        return None
    parts = made | {each for each in calls if getattr(each.func, "attr", "") in _PARTS}
    read = [Option(("-h", "--help")), *_uses(nodes, parts)]
    for each in calls:
        if getattr(each.func, "attr", "") == "add_argument":
            read += _option(each)
        if each in parts and any(given.arg is None for given in each.keywords):
            read.append("a parser is made in a way that is not written out")
    if more := _TAKES_MORE.search(_PASSED_ON.sub("", source.text)):
        read.append(f"its source has {more[0]}")
    return declared(read, path, abbreviates=True)  # each of its parsers may be told not to


def _uses(nodes: Sequence[ast.AST], parts: set[ast.Call]) -> Iterator[str]:
    """Yield each use of a parser that is none of the plain ones.

    Args:
        nodes: All of a source.
        parts: The calls among them that make a parser or a part of one.
    """
    bound = [
        (each.targets if isinstance(each, ast.Assign) else [each.target], each.value)
        for each in nodes
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value in parts
    ]
    plain: set[ast.AST | None] = {each for targets, _ in bound for each in targets}
    names = {each.id for each in plain if isinstance(each, ast.Name)}
    plain |= {value for targets, value in bound if names.issuperset(map(ast.unparse, targets))}
    parsers = {each for each in nodes if isinstance(each, ast.Name) and each.id in names} | parts
    called = {each.func for each in nodes if isinstance(each, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Expr):
            plain.add(node.value)
        if not isinstance(node, ast.Attribute):
            continue
        if node in called and node.attr in _PLAIN:
            plain.add(node.value)
        if node not in called and node.attr == "add_argument":
            yield "its options are not added one by one"
        if node.value not in parsers and node.attr == "parse_args":
            yield "it parses by a parser that is not made here"
    # A name that is bound to something else as well may be another parser.
    for line in sorted({node.lineno for node in parsers - plain}):
        yield f"line {line} hands its parser on"


def _option(call: ast.Call) -> Iterator[Option | str]:
    names = [literal(each) for each in call.args]
    given = {each.arg: each.value for each in call.keywords}
    action = ast.unparse(given["action"]) if "action" in given else "''"
    is_negated = action.rpartition(".")[2] == "BooleanOptionalAction"
    if not all(isinstance(each, str) for each in names) or None in given:
        yield "the name of an option is not written out"
    elif not is_negated and action[:1] not in "\"'":
        yield f"what {action} adds is not known"
    elif names and names[0].startswith("-"):
        # `BooleanOptionalAction` adds the negated form by itself.
        names += [f"--no-{each[2:]}" for each in names if is_negated and each[:2] == "--"]
        yield from (Option((each,), num_values=None) for each in names)

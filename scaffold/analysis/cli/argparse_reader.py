"""Read which options an argparse program takes: those that its source writes out.

One look at the calls of `add_argument`, whichever parser or command of the program they are of: any
word may be an argument, and an option of one command is one of all. A parser that is put to any
other use than the plain ones makes the program open, and an open program refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, Declared, literal
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
    if source is None or not (source.mentions("argparse") and source.mentions(".parse_args(")):
        return None
    nodes = all_nodes(source.tree)
    made = {
        id(each): each
        for each in nodes
        if isinstance(each, ast.Call) and source.dotted(each.func) == "argparse.ArgumentParser"
    }
    own = [each for each in nodes if isinstance(each, FUNCTIONS) and each.name == function]
    if not made or (function and not any(".parse_args(" in ast.unparse(each) for each in own)):
        return None
    program = Declared(path, abbreviates=True)  # each of its parsers may be told not to
    program.add(_ANY_WORDS)
    program.add(Option(("-h", "--help")))
    if more := _TAKES_MORE.search(_PASSED_ON.sub("", source.text)):
        program.add(f"its source has {more[0]}")
    for each in dict.fromkeys(_read(nodes, made)):
        program.add(each)
    return program.command()


def _read(nodes: Sequence[ast.AST], made: Mapping[int, ast.Call]) -> Iterator[Option | str]:
    """Yield the options, and each reason why there may be more.

    Args:
        nodes: All of a source.
        made: The calls among them that make a parser, by identity.
    """
    above = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    parts = {id(each) for each in calls if getattr(each.func, "attr", "") in _PARTS} | made.keys()
    bound = [
        (each.targets if isinstance(each, ast.Assign) else [each.target], each.value)
        for each in nodes
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and id(each.value) in parts
    ]
    names = {each.id for targets, _ in bound for each in targets if isinstance(each, ast.Name)}
    plainly = {id(value) for targets, value in bound if all(map(_is_name, targets))}
    stored = {id(each) for targets, _ in bound for each in targets}
    for node in nodes:
        is_parser = id(node) in parts or (isinstance(node, ast.Name) and node.id in names)
        parent = above.get(id(node))
        # A name that is bound to something else as well may be another parser.
        is_plain = id(node) in plainly | stored or isinstance(parent, ast.Expr)
        if is_parser and not is_plain and not _is_called(parent, above):
            yield f"line {getattr(node, 'lineno', 1)} hands its parser on"
        attribute = node.attr if isinstance(node, ast.Attribute) else ""
        if attribute == "add_argument" and not _is_called(node, above):
            yield "its options are not added one by one"
        if attribute == "parse_args" and not _is_one(node, names, parts):
            yield "it parses by a parser that is not made here"
    for call in calls:
        if getattr(call.func, "attr", "") == "add_argument":
            yield from _option(call)
        if id(call) in parts and any(each.arg is None for each in call.keywords):
            yield "a parser is made in a way that is not written out"


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name)


def _is_one(node: ast.AST, names: set[str], parts: set[int]) -> bool:
    owner = node.value if isinstance(node, ast.Attribute) else None
    return id(owner) in parts or (isinstance(owner, ast.Name) and owner.id in names)


def _is_called(node: ast.AST | None, above: Mapping[int, ast.AST]) -> bool:
    """Return whether a node is a plain method of a parser that is called at once."""
    parent = above.get(id(node))
    is_plain = isinstance(node, ast.Attribute) and node.attr in _PLAIN
    return is_plain and isinstance(parent, ast.Call) and parent.func is node


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

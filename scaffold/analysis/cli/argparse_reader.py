"""Read what an argparse program takes from the calls that are written out.

One pass over a source, from the top down: a parser is a variable, and what it takes is in the calls
of its methods with literals. A parser that is used in any other way is open, and an open parser
refutes nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.literals import choices, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_NO_VALUE = frozenset(
    {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
)
_WITH_VALUE = frozenset({"store", "append", "extend"})
_KINDS = frozenset({"str", "int", "float"})
_HARMLESS = frozenset(
    {"set_defaults", "print_help", "print_usage", "format_help", "format_usage", "error", "exit"}
    | {"get_default", "prog", "description", "epilog", "usage"}
)
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_WHOLE_ARGV = lazy_re(r"sys\.argv\[(?:1:|0)\]")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONDITIONAL = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match),
    ast.Lambda,
)


@dataclass(eq=False)
class _Parser:
    """A parser as far as it was read.

    Args:
        place: Where it is made.
        function: The function that makes it; "" for none.
        abbreviates: Whether the beginning of an option's name stands for it.
    """

    place: str
    function: str
    abbreviates: bool
    options: list[Option] = field(default_factory=list[Option])
    arguments: list[Argument] = field(default_factory=list[Argument])
    commands: dict[str, _Parser] | None = None
    why_open: str = ""

    def open(self, reason: str) -> None:
        """Note that it may take more than was read; the first reason counts."""
        self.why_open = self.why_open or reason

    def command(self, name: str) -> Command:
        inner = self.commands
        return Command(
            name, "", tuple(self.options), tuple(self.arguments),
            None if inner is None else {each: inner[each].command(each) for each in inner},
            bool(self.why_open), self.why_open, self.place, self.abbreviates,
        )  # fmt: skip


@dataclass(frozen=True)
class _Subparsers:
    """The result of `add_subparsers`."""

    parser: _Parser

    def open(self, reason: str) -> None:
        self.parser.open(reason)


_Value = _Parser | _Subparsers | None


def read_argparse(
    path: str, function: str, sources: Sources, _python: PythonIndex
) -> Command | None:
    """Return what a program takes; None where its source does not make and use one parser.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
    """
    source = sources.get(path)
    if source is None or not source.mentions("argparse"):
        return None
    try:
        return _read(source, function)
    except RecursionError:
        return None


def _read(source: Source, function: str) -> Command | None:
    body = source.tree.body
    own = [each for each in body if isinstance(each, _FUNCTIONS) and each.name == function]
    # A module with several programs makes the parser of each in its function.
    is_own = bool(own) and "ArgumentParser(" in ast.unparse(own[0])
    if not (function or source.mentions("__main__")):
        # Without such a block, a module that calls nothing at its top is no script.
        top = (all_nodes(each) for each in body if isinstance(each, (ast.Expr, ast.Assign)))
        if not any(isinstance(each, ast.Call) for nodes in top for each in nodes):
            return None
    reader = _Reader(source)
    reader.visit(own[0] if is_own else source.tree)
    if len(reader.made) != 1 or reader.made[0] not in reader.parsed or reader.is_unclear:
        return None
    if "sys.argv" in _WHOLE_ARGV.sub("", source.text):
        reader.made[0].open("it reads sys.argv itself")
    if reader.adds_unknown:
        reader.made[0].open("an option is added to a parser that cannot be followed")
    return reader.made[0].command("")


class _Reader:
    """The parsers in a piece of code, by the text of the variables that hold them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: dict[str, _Value] = {}
        self._function = ""
        self._is_certain = True
        self.made: list[_Parser] = []
        self.parsed: list[_Parser] = []
        self.is_unclear = False
        self.adds_unknown = False

    def visit(self, node: ast.AST) -> None:
        """Read a piece of code in the order of its text."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit_function(node)
            case ast.expr():
                if found := self._value(node):
                    found.open("its parser is used as a value")
            case ast.Expr(value=value):
                self._value(value)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                self._names[ast.unparse(target)] = self._value(value)
            case ast.Return(value=ast.expr() as value):
                self._names[f"{self._function}()"] = self._value(value)
            case _:
                self._visit_parts(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before, self._function = (self._names, self._function), node.name
        # The call that hands a parser over opens it, so what a parameter is given counts nowhere.
        given = (each.arg for each in all_nodes(node.args) if isinstance(each, ast.arg))
        others = {each: _Parser("", "", False) for each in given if each != "self"}
        self._names = before[0] | others
        self._visit_parts(node)
        # Attributes and results outlive the call, and local variables do not.
        kept = {each: found for each, found in self._names.items() if not each.isidentifier()}
        self._names, self._function = before[0] | kept, before[1]

    def _visit_parts(self, node: ast.AST) -> None:
        before = self._is_certain
        # The block of a script runs whenever the script does.
        is_main = isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        self._is_certain = before and (is_main or not isinstance(node, _CONDITIONAL))
        for each in ast.iter_child_nodes(node):
            self.visit(each)
        self._is_certain = before

    def _value(self, node: ast.expr) -> _Value:
        """Return the parser that an expression is, and read the declarations in it."""
        shown = ast.unparse(node)
        if isinstance(node, (ast.Name, ast.Attribute)) and shown in self._names:
            return self._names[shown]
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            if owner is not None and node.attr not in _HARMLESS:
                owner.open(f"its parser's {node.attr} is used")
        elif not isinstance(node, ast.Call):
            self._visit_parts(node)
        elif self._source.dotted(node.func) == "argparse.ArgumentParser":
            self.made.append(self._new_parser(node))
            return self.made[-1]
        else:
            return self._call(node, shown.removeprefix("self."))
        return None

    def _call(self, node: ast.Call, shown: str) -> _Value:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = self._value(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, _Subparsers):
            return self._add_parser(owner.parser, method, node)
        if owner is None:
            self.is_unclear |= method in ("parse_args", "parse_known_args")
            self.adds_unknown |= method in ("add_argument", "add_parser")
        elif method.startswith("parse_"):
            return self._parse(owner, method, node)
        elif method == "add_argument":
            return self._add_argument(owner, node)
        elif method in _GROUPS:
            return owner
        elif method == "add_subparsers":
            owner.commands = {} if owner.commands is None else owner.commands
            if {None, "parser_class", "action"} & {each.arg for each in node.keywords}:
                owner.open("its commands are parsed in a way of their own")
            return _Subparsers(owner)
        elif method not in _HARMLESS:
            owner.open(f"its parser is used by {method}()")
        dotted = self._source.dotted(node.func)
        for each in (*node.args, *(each.value for each in node.keywords)):
            found = self._value(each)
            if found is not None and dotted != "argcomplete.autocomplete":
                found.open(f"{dotted or 'something'} is given the parser")
        return self._names.get(shown)

    def _new_parser(self, node: ast.Call) -> _Parser:
        given = {each.arg: each.value for each in node.keywords}
        # argparse accepts unique prefixes of long options unless it is told not to.
        abbreviates = literal(given.get("allow_abbrev")) is not False
        place = f"{self._source.path}:{node.lineno}"
        parser = _Parser(place, self._function, abbreviates)
        if {None, "prefix_chars", "fromfile_prefix_chars"} & set(given):
            parser.open("its parser is made in a way of its own")
        for name in ("add_help", "allow_abbrev"):
            if name in given and literal(given[name]) is None:
                parser.open(f"its {name} is computed")
        if literal(given.get("add_help")) is not False:
            parser.options.append(Option(("-h", "--help")))
        parents = given.get("parents", ast.List([]))
        for each in parents.elts if isinstance(parents, (ast.List, ast.Tuple)) else [parents]:
            parent = self._value(each)
            if not isinstance(parent, _Parser):
                parser.open("one of its parents is unknown")
                continue
            parser.options += parent.options
            parser.arguments += parent.arguments
            parser.why_open = parser.why_open or parent.why_open
            # A parent is no program of its own and must not count as a second parser.
            self.made = [each for each in self.made if each is not parent]
        return parser

    def _parse(self, parser: _Parser, name: str, node: ast.Call) -> None:
        self.parsed.append(parser)
        if "known" in name:
            parser.open("it lets unknown options pass")
        for each in [*node.args[:1], keyword(node, "args")]:
            shown = "" if each is None else ast.unparse(each)
            # A variable is mostly the argv parameter of main().
            if shown not in ("", "None", "sys.argv[1:]") and not isinstance(each, ast.Name):
                parser.open("it parses other words than those of the command line")

    def _add_parser(self, parser: _Parser, name: str, node: ast.Call) -> _Value:
        word = literal(keyword(node, "name") if not node.args else node.args[0])
        aliases = keyword(node, "aliases")
        inner = self._new_parser(node)
        if name != "add_parser" or not isinstance(word, str):
            parser.open("the names of its commands are not written out")
            return inner
        if aliases is not None and not choices(aliases):
            parser.open("the aliases of a command are not written out")
        assert parser.commands is not None, "its subparsers exist"
        parser.commands.update(dict.fromkeys((word, *choices(aliases)), inner))
        return inner

    def _add_argument(self, parser: _Parser, node: ast.Call) -> None:
        # Under a condition, or in another function, an option need not be added in every run.
        is_certain = self._is_certain and parser.function == self._function
        given = {each.arg: each.value for each in node.keywords}
        names = [literal(each) for each in node.args or [given.get("dest")]]
        count = literal(given["nargs"]) if "nargs" in given else 1
        kind = self._source.dotted(given["type"]) if "type" in given else "str"
        # A value of another type is made from the word first.
        taken = choices(given.get("choices")) if kind in _KINDS else ()
        if not all(isinstance(each, str) for each in names):
            parser.open("the name of an option is not written out")
        elif names[0].startswith("-"):
            option = _option(names, given, count)
            is_required = is_certain and literal(given.get("required")) is True
            parser.options.append(option._replace(choices=taken, is_required=is_required))
        elif not is_certain or {None, "action"} & set(given) or not _is_counted(count):
            parser.open(f"the argument {names[0]} may take the rest of the line")
        else:
            shown = str(literal(given.get("metavar")) or names[0])
            argument = Argument(shown, count not in ("?", "*"), count in ("*", "+"), taken)
            parser.arguments += [argument] * (count if isinstance(count, int) else 1)


def _is_counted(count: object) -> bool:
    """Return whether `nargs` is one that leaves options to the parser."""
    return isinstance(count, int) or count in ("?", "*", "+")


def _option(names: list[str], given: dict[str | None, ast.expr], count: object) -> Option:
    action = literal(given["action"]) if "action" in given else "store"
    if "action" in given and ast.unparse(given["action"]).endswith("BooleanOptionalAction"):
        # It adds the negated form by itself.
        return Option((*names, *(f"--no-{each[2:]}" for each in names if each[:2] == "--")))
    num_values = count if isinstance(count, int) and action in _WITH_VALUE else None
    return Option(
        tuple(names),
        metavar=str(literal(given.get("metavar")) or ""),
        num_values=None if None in given else 0 if action in _NO_VALUE else num_values,
    )

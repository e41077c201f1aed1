"""Read what an argparse program takes from the calls that are written out.

One source is read once, from the top down, and the variables that hold a parser are followed. No
other value is computed and no call is followed: what is not a literal declaration (a loop, a
computed name, a function that is given the parser) makes the parser open, and an open parser
refutes nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.literals import Literals, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_NO_VALUE = frozenset(
    {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
)
_WITH_VALUE = frozenset({"store", "append", "extend"})
_KINDS = frozenset({"str", "int", "float", "str.lower", "str.upper"})
_HARMLESS = frozenset(
    {"set_defaults", "print_help", "print_usage", "format_help", "format_usage", "error", "exit"}
    | {"get_default", "convert_arg_line_to_args", "prog", "description", "epilog", "usage"}
)
_HARMLESS_FUNCTIONS = frozenset(
    {"print", "isinstance", "repr", "id", "type", "vars", "hasattr", "argcomplete.autocomplete"}
)
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_WHOLE_ARGV = lazy_re(r"sys\.argv\[(?:1:|0)\]")


@dataclass(eq=False)
class _Parser:
    """A parser as far as it was read."""

    place: str
    options: list[Option] = field(default_factory=list[Option])
    arguments: list[Argument] = field(default_factory=list[Argument])
    commands: dict[str, _Parser] | None = None
    why_open: str = ""
    abbreviates: bool = True

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


_Value = _Parser | _Subparsers | None


@dataclass
class _Scope:
    """The names of a module, a class or a function, each within another."""

    node: ast.AST
    outer: _Scope | None = None
    names: dict[str, _Value] = field(default_factory=dict[str, "_Value"])
    is_conditional: bool = False

    def find(self, name: str) -> _Value:
        """Return the parser of a variable, as `parser` or `self.parser`."""
        if name in self.names or self.outer is None:
            return self.names.get(name)
        return self.outer.find(name)

    def is_parameter(self, name: str) -> bool:
        """Return whether it is a parameter: a call that gives it a parser opens that parser."""
        return name in self.parameters or (self.outer is not None and self.outer.is_parameter(name))

    @property
    def parameters(self) -> frozenset[str]:
        given = all_nodes(self.node.args) if isinstance(self.node, _FUNCTIONS) else ()
        return frozenset(each.arg for each in given if isinstance(each, ast.arg))

    @property
    def function(self) -> str:
        """The name of the outermost function; "" outside of all."""
        above = "" if self.outer is None else self.outer.function
        return above or (self.node.name if isinstance(self.node, _FUNCTIONS) else "")


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def read_argparse(
    path: str, function: str, sources: Sources, python: PythonIndex
) -> Command | None:
    """Return what a program takes; None where its source does not make and use one parser.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    if source is None or not source.mentions("argparse"):
        return None
    try:
        return _Reader(source, Literals(sources, python)).read(function)
    except RecursionError:
        return None


class _Reader:
    def __init__(self, source: Source, literals: Literals) -> None:
        self._source = source
        self._literals = literals
        self._made: dict[_Parser, str] = {}
        self._parsed: set[_Parser] = set()
        self._parsing_unknown: set[str] = set()
        self._adds_unknown = False
        self._returned: dict[str, _Value] = {}

    def read(self, function: str) -> Command | None:
        self._visit(self._source.tree, _Scope(self._source.tree))
        # A module with several programs makes the parser of each in its function.
        own = [each for each, made_in in self._made.items() if made_in == function]
        parsers = own if function and own else list(self._made)
        unknown = self._parsing_unknown & {function} if own else self._parsing_unknown
        if len(parsers) != 1 or parsers[0] not in self._parsed or unknown:
            return None
        body = self._source.tree.body
        if not function and not self._source.mentions("__main__"):
            # Without such a block, a module that calls nothing at its top is no script.
            top = (all_nodes(each) for each in body if isinstance(each, (ast.Expr, ast.Assign)))
            if not any(isinstance(each, ast.Call) for nodes in top for each in nodes):
                return None
        if "sys.argv" in _WHOLE_ARGV.sub("", self._source.text):
            parsers[0].open("it reads sys.argv itself")
        if self._adds_unknown:
            parsers[0].open("an option is added to a parser that cannot be followed")
        return parsers[0].command("")

    def _visit(self, node: ast.AST, scope: _Scope) -> _Value:
        """Read a piece of code in the order of its text; return the parser that it is, if any."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                inner = _Scope(node, scope)
                # A parameter hides an outer parser of the same name, and what it holds is unknown.
                inner.names = dict.fromkeys(inner.parameters)
                self._visit_parts(node, inner)
            case ast.Name(id=name):
                return scope.find(name)
            case ast.Attribute(value=inner, attr=name):
                found = scope.find(ast.unparse(node))
                owner = self._visit(inner, scope) if found is None else None
                if name not in _HARMLESS:
                    _open(owner, f"its parser's {name} is used")
                return found
            case ast.Call():
                return self._call(node, scope)
            case ast.Assign(targets=targets, value=value):
                found = self._visit(value, scope)
                for each in targets:
                    self._bind(each, found, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._visit(value, scope), scope)
            case ast.Return(value=ast.expr() as value):
                self._returned[scope.function] = self._visit(value, scope)
            case ast.Expr(value=value):
                self._visit(value, scope)
            case ast.With() | ast.Module():
                self._visit_parts(node, scope)
            # The main block runs whenever the script does, so nothing in it is conditional.
            case ast.If(test=test) if "__name__" in ast.unparse(test):
                self._visit_parts(node, scope)
            case ast.Compare():
                for each in (node.left, *node.comparators):
                    self._visit(each, scope)
            # In all else (an `if`, a `try`, a loop) an option may or may not be added.
            case ast.AST():
                before, scope.is_conditional = scope.is_conditional, True
                self._visit_parts(node, scope)
                scope.is_conditional = before
        return None

    def _visit_parts(self, node: ast.AST, scope: _Scope) -> None:
        # One call in a loop adds any number of options.
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.comprehension)):
            for each in all_nodes(node):
                if isinstance(each, (ast.Name, ast.Attribute)):
                    _open(scope.find(ast.unparse(each)), "its parser is used in a loop")
        for each in ast.iter_child_nodes(node):
            _open(self._visit(each, scope), "a parser is part of a value")

    def _bind(self, target: ast.expr, value: _Value, scope: _Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif ast.unparse(target).startswith("self.") and scope.outer is not None:
            # Kept on the class, where its other methods look for self.parser.
            scope.outer.names[ast.unparse(target)] = value
        else:
            _open(value, "a parser is kept where it cannot be followed")

    def _call(self, node: ast.Call, scope: _Scope) -> _Value:
        dotted = self._source.dotted(node.func)
        if dotted == "argparse.ArgumentParser":
            parser = self._new_parser(node, scope)
            self._made[parser] = scope.function
            return parser
        if isinstance(node.func, ast.Attribute):
            owner, method = self._visit(node.func.value, scope), node.func.attr
            if isinstance(owner, _Parser):
                return self._parser_call(owner, method, node, scope)
            if isinstance(owner, _Subparsers):
                return self._add_parser(owner.parser, method, node, scope)
            if method in ("parse_args", "parse_known_args"):
                self._parsing_unknown.add(scope.function)
            elif method in ("add_argument", "add_parser"):
                # A parameter's parser was opened at the call that hands it over.
                self._adds_unknown |= not scope.is_parameter(ast.unparse(node.func.value))
        for each in (*node.args, *(each.value for each in node.keywords)):
            found = self._visit(each, scope)
            if dotted not in _HARMLESS_FUNCTIONS:
                _open(found, f"{dotted or 'something'} is given the parser")
        return self._returned.get(dotted.removeprefix("self."))

    # Parsers

    def _new_parser(self, node: ast.Call, scope: _Scope) -> _Parser:
        parser = _Parser(f"{self._source.path}:{node.lineno}")
        given = {each.arg: each.value for each in node.keywords}
        if {None, "prefix_chars", "fromfile_prefix_chars"} & set(given):
            parser.open("its parser is made in a way of its own")
        for name in ("add_help", "allow_abbrev"):
            if name in given and literal(given[name]) is None:
                parser.open(f"its {name} is computed")
        # argparse accepts unique prefixes of long options unless it is told not to.
        parser.abbreviates = literal(given.get("allow_abbrev")) is not False
        if literal(given.get("add_help")) is not False:
            parser.options.append(Option(("-h", "--help")))
        parents = given.get("parents")
        if parents is not None and not isinstance(parents, (ast.List, ast.Tuple)):
            parser.open("its parents are unknown")
            return parser
        for each in parents.elts if parents is not None else ():
            parent = self._visit(each, scope)
            if isinstance(parent, _Parser):
                parser.options += parent.options
                parser.arguments += parent.arguments
                parser.why_open = parser.why_open or parent.why_open
                # A parent is no program of its own and must not count as a second parser.
                self._made.pop(parent, None)
            else:
                parser.open("one of its parents is unknown")
        return parser

    def _parser_call(self, parser: _Parser, name: str, node: ast.Call, scope: _Scope) -> _Value:
        if name.startswith("parse_"):
            self._parse(parser, name, node)
        elif name == "add_argument":
            self._add_argument(parser, node, scope)
        elif name in _GROUPS:
            return parser
        elif name == "add_subparsers":
            parser.commands = {} if parser.commands is None else parser.commands
            if {None, "parser_class", "action"} & {each.arg for each in node.keywords}:
                parser.open("its commands are parsed in a way of their own")
            return _Subparsers(parser)
        elif name not in _HARMLESS:
            parser.open(f"its parser is used by {name}()")
        return None

    def _parse(self, parser: _Parser, name: str, node: ast.Call) -> None:
        self._parsed.add(parser)
        if "known" in name:
            parser.open("it lets unknown options pass")
        for each in [*node.args[:1], keyword(node, "args")]:
            shown = "" if each is None else ast.unparse(each)
            # A variable is mostly the argv parameter of main().
            if shown not in ("", "None", "sys.argv[1:]") and not isinstance(each, ast.Name):
                parser.open("it parses other words than those of the command line")

    def _add_parser(self, parser: _Parser, name: str, node: ast.Call, scope: _Scope) -> _Value:
        given = keyword(node, "name") if not node.args else node.args[0]
        words = [self._literals.value(given, self._source)]
        aliases = keyword(node, "aliases")
        words += self._literals.choices(aliases, self._source)
        inner = self._new_parser(node, scope)
        if name != "add_parser" or not isinstance(words[0], str):
            parser.open("the names of its commands are not written out")
            return inner
        if aliases is not None and len(words) == 1:
            parser.open("the aliases of a command are not written out")
        assert parser.commands is not None, "its subparsers exist"
        parser.commands.update(dict.fromkeys(words, inner))
        return inner

    def _add_argument(self, parser: _Parser, node: ast.Call, scope: _Scope) -> None:
        is_certain = (
            # Under a condition, or in another function, an option need not be added in every run.
            not scope.is_conditional and self._made.get(parser, scope.function) == scope.function
        )
        names = [self._literals.value(each, self._source) for each in node.args]
        names = names or [literal(keyword(node, "dest"))]
        if not all(isinstance(each, str) for each in names):
            parser.open("the name of an option is not written out")
        elif names[0].startswith("-"):
            parser.options.append(self._option(names, node, is_certain))
        else:
            self._add_positional(parser, names[0], node, is_certain)

    def _option(self, names: list[str], node: ast.Call, is_certain: bool) -> Option:
        given = {each.arg: each.value for each in node.keywords}
        action = (
            self._literals.value(given["action"], self._source) if "action" in given else "store"
        )
        if "action" in given and self._source.dotted(given["action"]).endswith(
            "BooleanOptionalAction"
        ):
            # BooleanOptionalAction adds the negated form by itself.
            return Option((*names, *(f"--no-{each[2:]}" for each in names if each[:2] == "--")))
        count = self._literals.value(given["nargs"], self._source) if "nargs" in given else 1
        num_values = count if isinstance(count, int) and action in _WITH_VALUE else None
        choices, folds = self._choices(given)
        return Option(
            tuple(names),
            metavar=str(literal(given.get("metavar")) or ""),
            choices=choices,
            is_required=literal(given.get("required")) is True and is_certain,
            num_values=None if None in given else 0 if action in _NO_VALUE else num_values,
            folds_case=folds,
        )

    def _add_positional(self, parser: _Parser, name: str, node: ast.Call, is_certain: bool) -> None:
        given = {each.arg: each.value for each in node.keywords}
        count = self._literals.value(given["nargs"], self._source) if "nargs" in given else 1
        is_counted = isinstance(count, int) or count in ("?", "*", "+")
        if not is_counted or None in given or "action" in given or not is_certain:
            parser.open(f"the argument {name} may take the rest of the line")
            return
        choices, folds = self._choices(given)
        shown = str(literal(given.get("metavar")) or name)
        argument = Argument(shown, count not in ("?", "*"), count in ("*", "+"), choices, folds)
        parser.arguments += [argument] * (count if isinstance(count, int) else 1)

    def _choices(self, given: dict[str | None, ast.expr]) -> tuple[tuple[str, ...], bool]:
        """Return the choices that are written out, and whether upper and lower case are alike."""
        kind = self._source.dotted(given["type"]) if "type" in given else "str"
        if kind not in _KINDS:
            return (), False  # the words are turned into something else first
        return self._literals.choices(given.get("choices"), self._source), kind.startswith("str.")


def _open(value: _Value, reason: str) -> None:
    """Note that a parser that is lost sight of may take more than was read."""
    parser = value.parser if isinstance(value, _Subparsers) else value
    if parser is not None:
        parser.open(reason)

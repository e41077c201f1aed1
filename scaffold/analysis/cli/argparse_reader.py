"""Reads what a program takes that is built with argparse, by following its code as text.

The code is walked as it would run: assignments, helper functions that are given a parser, loops
over lists that are written out, methods of classes. Nothing is executed. Whatever could add an
option unseen (an unknown function that is given the parser, a name that is computed) makes the
parser open, and an open parser refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, cast

from scaffold.analysis.cli.argparse_parser import REMAINDER, Literal, Parser, Subparsers
from scaffold.analysis.cli.argparse_values import (
    MOST_TURNS,
    Argv,
    Class,
    Function,
    Object,
    Scope,
    Value,
    is_literal,
    list_of,
    range_of,
    rows_of,
    sum_of,
    texts_of,
)
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MOST_STEPS = 20_000
_MOST_DEPTH = 12
_HARMLESS = frozenset(
    {"set_defaults", "print_help", "print_usage", "format_help", "format_usage", "error", "exit"}
    | {"get_default", "convert_arg_line_to_args"}
)
_HARMLESS_FUNCTIONS = frozenset({"print", "isinstance", "repr", "id", "type", "vars", "hasattr"})
_LIST_MAKERS = frozenset({"list", "tuple", "sorted", "set", "frozenset"})
_TEXT_METHODS = frozenset({"replace", "lower", "upper", "strip", "format", "title", "split"})
_WORDS = ("argparse", "add_argument", "parse_args")
"""A module without any of these has nothing to do with a parser."""
_COMPLETERS = ("argcomplete.autocomplete",)


class _TooLongError(Exception):
    """The code is too long to follow."""


def read_argparse(
    path: str, function: str, sources: Sources, python: PythonIndex
) -> Command | None:
    """Returns what a program takes; None where its parser cannot be told.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    if source is None:
        return None
    walker = _Walker(sources, python)
    try:
        walker.run(source, function)
    except (_TooLongError, RecursionError):
        return None
    return walker.command()


class _Walker:
    def __init__(self, sources: Sources, python: PythonIndex) -> None:
        self._sources = sources
        self._python = python
        self._modules: dict[str, Scope] = {}
        self._imports: dict[tuple[str, str], Value] = {}
        self._calls: list[ast.AST] = []
        self._steps = 0
        self._main = ""
        self._entry = ""
        self._parsed: list[Parser] = []
        self._unknown_parses = 0
        self._touches_argv = False

    def run(self, source: Source, function: str) -> None:
        """Follows a script, or a module and one of its functions."""
        self._main = "" if function else source.path
        self._entry = source.path
        scope = self._module(source)
        if function:
            found: Value = self._load(function.partition(".")[0], scope)
            for part in function.split(".")[1:]:
                found = self._member(found, part)
            if isinstance(found, Function):
                self._enter(found, [], {})

    def command(self) -> Command | None:
        """Returns what the one parser that was used takes."""
        roots = list({id(each): each for each in self._parsed}.values())
        if len(roots) != 1 or self._unknown_parses:
            return None
        if self._touches_argv:
            roots[0].open("it reads sys.argv itself")
        return roots[0].command("")

    def _module(self, source: Source) -> Scope:
        """Returns the names of a module once its body was followed."""
        if source.path not in self._modules:
            scope = Scope(source, {})
            self._modules[source.path] = scope
            self._block(source.tree.body, scope)
        return self._modules[source.path]

    # Statements

    def _block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follows statements; returns whether what comes behind them is never reached."""
        return any(self._statement(node, scope) for node in body)

    def _statement(self, node: ast.stmt, scope: Scope) -> bool:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooLongError
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.names[node.name] = Function(node, scope.source)
            case ast.ClassDef():
                scope.names[node.name] = Class(node, scope.source)
            case ast.Assign():
                value = self._value(node.value, scope)
                for target in node.targets:
                    self._bind(target, value, scope)
            case ast.AnnAssign():
                if node.value is not None:
                    self._bind(node.target, self._value(node.value, scope), scope)
            case ast.AugAssign():
                self._bind(node.target, None, scope)
                self._value(node.value, scope)
            case ast.Return():
                scope.returned.append(self._value(node.value, scope) if node.value else None)
                return True
            case ast.Raise():
                for each in (node.exc, node.cause):
                    if each is not None:
                        self._value(each, scope)
                return True
            case ast.Continue() | ast.Break():
                return True
            case ast.Expr():
                self._value(node.value, scope)
            case ast.Import() | ast.ImportFrom():
                pass
            case _:
                return self._compound(node, scope)
        return False

    def _compound(self, node: ast.stmt, scope: Scope) -> bool:
        match node:
            case ast.If():
                return self._if(node, scope)
            case ast.For() | ast.AsyncFor():
                self._for(node, scope)
            case ast.While():
                self._value(node.test, scope)
                self._branches([node.body, []], scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self._value(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, value, scope)
                return self._block(node.body, scope)
            case ast.Try() | ast.TryStar():
                ended = self._block(node.body, scope)
                self._branches([[], *(each.body for each in node.handlers)], scope)
                self._block(node.orelse, scope)
                self._block(node.finalbody, scope)
                return ended and not node.handlers
            case ast.Match():
                self._value(node.subject, scope)
                self._branches([[], *(each.body for each in node.cases)], scope)
            case _:
                for each in ast.iter_child_nodes(node):
                    if isinstance(each, ast.expr):
                        self._value(each, scope)
        return False

    def _if(self, node: ast.If, scope: Scope) -> bool:
        test = ast.unparse(node.test)
        if test in ("__name__ == '__main__'", "'__main__' == __name__"):
            return scope.source.path == self._main and self._block(node.body, scope)
        if test in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            return False
        self._value(node.test, scope)
        return self._branches([node.body, node.orelse], scope)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], scope: Scope) -> bool:
        """Follows bodies of which one runs; a name that they leave different means nothing."""
        before = dict(scope.names)
        ends: list[dict[str, Value]] = []
        for body in bodies:
            scope.names = dict(before)
            if not self._block(body, scope):
                ends.append(scope.names)
        scope.names = self._merged(ends) if ends else before
        return not ends

    def _merged(self, ends: Sequence[dict[str, Value]]) -> dict[str, Value]:
        names = dict(ends[0])
        for other in ends[1:]:
            for name, value in other.items():
                names[name] = self._either(names[name], value) if name in names else value
        return names

    def _either(self, one: Value, other: Value) -> Value:
        if one is other or one == other:
            return one
        if isinstance(one, Argv) or isinstance(other, Argv):
            return Argv()
        self._escape([one, other], "it is one of several parsers")
        return None

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        rows = rows_of(self._value(node.iter, scope))
        if rows is None or len(rows) > MOST_TURNS:
            self._bind(node.target, None, scope)
            self._branches([node.body, []], scope)
            return
        for row in rows:
            self._bind(node.target, row, scope)
            self._branches([node.body], scope)

    def _bind(self, target: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, ast.Attribute):
            owner = self._value(target.value, scope)
            if isinstance(owner, Object):
                owner.values[target.attr] = value
            else:
                self._escape([value], "a parser is kept where it cannot be followed")
        elif isinstance(target, (ast.Tuple, ast.List)):
            rows = rows_of(value)
            fits = rows is not None and len(rows) == len(target.elts)
            for index, each in enumerate(target.elts):
                self._bind(each, rows[index] if rows is not None and fits else None, scope)
        elif isinstance(target, ast.Subscript):
            self._escape([value], "a parser is kept where it cannot be followed")

    # Expressions

    def _value(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Constant():
                return Literal(node.value)
            case ast.Name():
                return self._load(node.id, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Call():
                return self._call(node, scope)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._list([self._value(each, scope) for each in node.elts])
            case ast.Dict():
                return self._dict(node, scope)
            case ast.BinOp(op=ast.Add()):
                return sum_of(self._value(node.left, scope), self._value(node.right, scope))
            case ast.JoinedStr():
                return self._joined(node, scope)
            case ast.Await():
                return self._value(node.value, scope)
            case ast.NamedExpr():
                value = self._value(node.value, scope)
                self._bind(node.target, value, scope)
                return value
            case ast.IfExp():
                self._value(node.test, scope)
                return self._either(self._value(node.body, scope), self._value(node.orelse, scope))
            case ast.BoolOp():
                values = [self._value(each, scope) for each in node.values]
                return Argv() if any(isinstance(each, Argv) for each in values) else None
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.Lambda():
                return None
            case _:
                return self._other(node, scope)

    def _other(self, node: ast.expr, scope: Scope) -> Value:
        """Looks through any other expression: a parser that it uses is lost sight of."""
        inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for each in all_nodes(node):
                if isinstance(each, ast.Name) and each.id in scope.names:
                    self._escape([scope.names[each.id]], "a parser is used in a comprehension")
            return None
        self._escape([self._value(each, scope) for each in inner], "a parser is part of a value")
        return None

    def _load(self, name: str, scope: Scope) -> Value:
        if name in scope.names:
            return scope.names[name]
        module = self._modules.get(scope.source.path)
        if module is not None and module is not scope and name in module.names:
            return module.names[name]
        if name in scope.source.imports:
            return self._imported(name, scope.source)
        return None

    def _imported(self, dotted: str, source: Source) -> Value:
        """Returns what a name from elsewhere in the repository is."""
        key = dotted, source.path
        if key not in self._imports:
            self._imports[key] = None  # the answer while it is looked for
            self._imports[key] = self._find_imported(dotted, source)
        return self._imports[key]

    def _find_imported(self, dotted: str, source: Source) -> Value:
        origin = self._sources.origin(dotted.partition(".")[0], source)
        if origin is None:
            return None
        speaks = any(origin.mentions(each) for each in _WORDS)
        is_package = origin.path.endswith("/__init__.py")
        if not (speaks or is_package or dotted.rpartition(".")[2].isupper()):
            return None
        found = self._python.find_in(source.path, dotted)
        if found.path is None or found.line is None or not found.exists:
            return None
        other = self._sources.get(found.path)
        if other is None:
            return None
        node = other.definitions.get(found.line)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return Function(node, other)
        if isinstance(node, ast.ClassDef):
            return Class(node, other)
        if found.kind == "constant":
            for each in other.tree.body:
                if each.lineno == found.line and isinstance(each, (ast.Assign, ast.AnnAssign)):
                    return self._constant(each, other)
        return None

    def _constant(self, node: ast.Assign | ast.AnnAssign, source: Source) -> Value:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if node.value is None or not isinstance(target, ast.Name):
            return None
        if is_literal(node.value):
            return self._value(node.value, Scope(source, {}))
        return self._module(source).names.get(target.id)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        dotted = scope.source.dotted(node)
        if dotted == "sys.argv":
            return Argv()
        if dotted == "argparse.REMAINDER":
            return Literal(REMAINDER)
        if dotted in ("str.lower", "str.upper", "argparse.BooleanOptionalAction"):
            return Literal(dotted.removeprefix("argparse."))
        owner = self._value(node.value, scope)
        if owner is None and dotted:
            return self._imported(ast.unparse(node), scope.source)
        return self._member(owner, node.attr)

    def _member(self, owner: Value, name: str) -> Value:
        if isinstance(owner, Object):
            if name in owner.values:
                return owner.values[name]
            return self._method(owner.kind, name, owner)
        if isinstance(owner, Class):
            return self._method(owner, name, None)
        return None

    def _method(self, kind: Class, name: str, owner: Object | None) -> Value:
        for node in kind.node.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                names = {ast.unparse(each) for each in node.decorator_list}
                if "property" in names:
                    return self._enter(Function(node, kind.source, owner), [], {})
                free = "staticmethod" in names
                itself = owner or Object(kind)
                return Function(node, kind.source, None if free else itself)
        for base in kind.node.bases:
            found = self._value(base, Scope(kind.source, {}))
            if isinstance(found, Class) and found.node is not kind.node:
                return self._method(found, name, owner)
        return None

    def _list(self, values: list[Value]) -> Value:
        if any(isinstance(each, (Parser, Subparsers, Object)) for each in values):
            return tuple(values)
        if all(isinstance(each, Literal) for each in values):
            return Literal([each.value for each in values])
        return tuple(values)

    def _dict(self, node: ast.Dict, scope: Scope) -> Value:
        keys = [None if each is None else self._value(each, scope) for each in node.keys]
        values = [self._value(each, scope) for each in node.values]
        self._escape(values, "a parser is kept in a table")
        if not all(isinstance(each, Literal) for each in keys):
            return None
        pairs = zip(cast("list[Literal]", keys), values, strict=True)
        try:
            return Literal({k.value: v.value if isinstance(v, Literal) else None for k, v in pairs})
        except TypeError:
            return None

    def _joined(self, node: ast.JoinedStr, scope: Scope) -> Value:
        texts: list[str] = []
        for each in node.values:
            inner = each.value if isinstance(each, ast.FormattedValue) else each
            value = self._value(inner, scope)
            if not isinstance(value, Literal) or not isinstance(value.value, (str, int)):
                return None
            texts.append(str(value.value))
        return Literal("".join(texts))

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        value = self._value(node.value, scope)
        if isinstance(value, Argv):
            if ast.unparse(node.slice) in ("1:", "0", "1:None"):
                return Argv() if isinstance(node.slice, ast.Slice) else None
            self._touches_argv = True
            return None
        self._value(node.slice, scope) if not isinstance(node.slice, ast.Slice) else None
        self._escape([value], "a parser is part of a value")
        return None

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        values = [self._value(each, scope) for each in (node.left, *node.comparators)]
        is_none = all(isinstance(each, (ast.Is, ast.IsNot)) for each in node.ops)
        if not is_none and any(isinstance(each, Argv) for each in values):
            self._touches_argv = True

    # Calls

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        dotted = scope.source.dotted(node.func)
        if dotted == "argparse.ArgumentParser":
            return self._new_parser(node, scope)
        if dotted == "len":
            return None
        if isinstance(node.func, ast.Attribute):
            owner = self._value(node.func.value, scope)
            if isinstance(owner, Parser):
                return self._parser_call(owner, node.func.attr, node, scope)
            if isinstance(owner, Subparsers):
                return self._subparsers_call(owner, node.func.attr, node, scope)
            if isinstance(owner, Literal):
                return self._literal_call(owner.value, node.func.attr, node, scope)
            is_parse = node.func.attr.startswith("parse_") and "args" in node.func.attr
            if is_parse and owner is None and not self._is_own(node, scope):
                self._unknown_parses += 1
        target = self._value(node.func, scope)
        args, keywords = self._arguments(node, scope)
        if isinstance(target, Function):
            return self._enter(target, args, keywords)
        if isinstance(target, Class):
            return self._instance(target, args, keywords)
        if dotted == "range" and args and all(isinstance(each, Literal) for each in args):
            return range_of([each.value for each in args])
        if dotted in _LIST_MAKERS and len(args) == 1 and not keywords:
            return list_of(dotted, args[0])
        if dotted not in _HARMLESS_FUNCTIONS and dotted not in _COMPLETERS:
            reason = f"{dotted or 'something'} is given the parser"
            self._escape([*args, *keywords.values()], reason)
            if any(isinstance(each, Argv) for each in [*args, *keywords.values()]):
                self._touches_argv = True
        return None

    def _is_own(self, node: ast.Call, scope: Scope) -> bool:
        """Tells whether a call like `cli.parse_args()` is of a function of the repository."""
        return isinstance(self._value(node.func, scope), Function)

    def _arguments(self, node: ast.Call, scope: Scope) -> tuple[list[Value], dict[str, Value]]:
        args = [
            self._value(each.value if isinstance(each, ast.Starred) else each, scope)
            for each in node.args
        ]
        keywords = {each.arg or "**": self._value(each.value, scope) for each in node.keywords}
        return args, keywords

    def _new_parser(self, node: ast.Call, scope: Scope) -> Parser:
        parser = Parser(f"{scope.source.path}:{node.lineno}")
        _, keywords = self._arguments(node, scope)
        self._configure(parser, keywords)
        return parser

    def _configure(self, parser: Parser, keywords: dict[str, Value]) -> None:
        from scaffold.analysis.cli.commands import Option

        if "**" in keywords or "prefix_chars" in keywords or "fromfile_prefix_chars" in keywords:
            parser.open("its parser is made in a way of its own")
        for name, attribute in (("add_help", "help"), ("allow_abbrev", "abbreviation")):
            if name in keywords and not isinstance(keywords[name], Literal):
                parser.open(f"whether it has {attribute} is computed")
        if keywords.get("allow_abbrev") == Literal(False):
            parser.abbreviates = False
        if keywords.get("add_help") != Literal(False):
            parser.options.append(Option(("-h", "--help")))
        parents = keywords.get("parents", Literal([]))
        if isinstance(parents, tuple):
            for each in cast("tuple[Value, ...]", parents):
                if isinstance(each, Parser):
                    parser.inherit(each)
                else:
                    parser.open("one of its parents is unknown")
        elif parents != Literal([]):
            parser.open("its parents are unknown")

    def _parser_call(self, parser: Parser, name: str, node: ast.Call, scope: Scope) -> Value:
        if name.startswith("parse_"):
            return self._parse(parser, name, node, scope)
        args, keywords = self._arguments(node, scope)
        if name == "add_argument":
            is_complete = "**" not in keywords
            has_star = any(isinstance(each, ast.Starred) for each in node.args)
            if "type" in keywords and keywords["type"] is None:
                keywords["type"] = self._type_name(node)
            names = [None] if has_star else args
            parser.add(names, keywords, is_complete=is_complete)
        elif name in ("add_argument_group", "add_mutually_exclusive_group"):
            return parser
        elif name == "add_subparsers":
            parser.subparsers = parser.subparsers or Subparsers()
            if "parser_class" in keywords or "action" in keywords:
                parser.subparsers.why_open = "its commands are parsed in a way of their own"
            return parser.subparsers
        elif name not in _HARMLESS:
            parser.open(f"its parser is used by {name}()")
        return None

    def _type_name(self, node: ast.Call) -> Value:
        for each in node.keywords:
            if each.arg == "type" and isinstance(each.value, ast.Name):
                return Literal(each.value.id)
        return None

    def _parse(self, parser: Parser, name: str, node: ast.Call, scope: Scope) -> Value:
        self._parsed.append(parser)
        if "known" in name:
            parser.open("it lets unknown options pass")
        for each in node.args[:1]:
            value = self._value(each, scope)
            is_plain = value is None and isinstance(each, ast.Name)
            if not (is_plain or isinstance(value, Argv) or value == Literal(None)):
                parser.open("it parses other words than those of the command line")
        return None

    def _subparsers_call(self, subs: Subparsers, name: str, node: ast.Call, scope: Scope) -> Value:
        args, keywords = self._arguments(node, scope)
        if name != "add_parser":
            subs.why_open = subs.why_open or f"its commands are used by {name}()"
            return None
        first = args[0] if args else keywords.get("name")
        parser = Parser(f"{scope.source.path}:{node.lineno}")
        self._configure(parser, keywords)
        aliases = keywords.get("aliases", Literal([]))
        if not (isinstance(first, Literal) and isinstance(aliases, Literal)):
            subs.why_open = subs.why_open or "the name of a command is not written out"
            return parser
        for each in (first.value, *texts_of(aliases.value)):
            subs.parsers[str(each)] = parser
        return parser

    def _literal_call(self, value: Any, name: str, node: ast.Call, scope: Scope) -> Value:
        args, keywords = self._arguments(node, scope)
        if isinstance(value, dict) and name in ("keys", "values", "items") and not args:
            table = cast("dict[Any, Any]", value)
            rows = {"keys": list(table), "values": list(table.values())}
            return Literal(rows.get(name, [list(each) for each in table.items()]))
        self._escape([*args, *keywords.values()], "a parser is part of a value")
        is_known = all(isinstance(each, Literal) for each in args) and not keywords
        if isinstance(value, str) and name in _TEXT_METHODS and is_known:
            try:
                return Literal(getattr(value, name)(*(each.value for each in args)))
            except (TypeError, ValueError, IndexError, KeyError):
                return None
        return None

    def _instance(self, kind: Class, args: list[Value], keywords: dict[str, Value]) -> Value:
        if any(ast.unparse(each).endswith("ArgumentParser") for each in kind.node.bases):
            parser = Parser(f"{kind.source.path}:{kind.node.lineno}")
            parser.open("its parser is a class of its own")
            return parser
        made = Object(kind)
        start = self._method(kind, "__init__", made)
        if isinstance(start, Function):
            self._enter(start, args, keywords)
        else:
            self._escape([*args, *keywords.values()], f"{kind.node.name} is given the parser")
        return made

    def _enter(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Follows a call of a function; returns what it gives back."""
        if not self._matters(function, [*args, *keywords.values()]):
            return None
        if function.node in self._calls or len(self._calls) >= _MOST_DEPTH:
            self._escape([*args, *keywords.values()], "a function calls itself with the parser")
            return None
        self._module(function.source)
        scope = Scope(function.source, self._parameters(function, args, keywords))
        self._calls.append(function.node)
        try:
            self._block(function.node.body, scope)
        finally:
            self._calls.pop()
        result: Value = scope.returned[0] if scope.returned else None
        for each in scope.returned[1:]:
            result = self._either(result, each)
        return result

    def _matters(self, function: Function, given: list[Value]) -> bool:
        """Tells whether a call may build or use a parser; the program behind it is not followed."""
        source = function.source
        if source.path == self._entry or source.mentions("argparse"):
            return True
        return any(isinstance(each, (Parser, Subparsers, Object, Argv, tuple)) for each in given)

    def _parameters(
        self, function: Function, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        spec = function.node.args
        names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        bound: dict[str, Value] = {}
        scope = Scope(function.source, {})
        for name, default in zip(reversed(names), reversed(spec.defaults), strict=False):
            bound[name] = self._value(default, scope)
        for each, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            bound[each.arg] = None if default is None else self._value(default, scope)
        given = [function.owner, *args] if function.owner is not None else args
        bound.update(zip(names, given, strict=False))
        self._escape(given[len(names) :], "a parser is given beyond the parameters")
        return bound | keywords

    def _escape(self, values: Iterable[Value], reason: str) -> None:
        """Opens every parser among values that are lost sight of."""
        for value in values:
            if isinstance(value, Parser):
                value.open(reason)
            elif isinstance(value, Subparsers):
                value.why_open = value.why_open or reason
            elif isinstance(value, tuple):
                self._escape(cast("tuple[Value, ...]", value), reason)
            elif isinstance(value, Object):
                inner = [each for each in value.values.values() if not isinstance(each, Object)]
                self._escape(inner, reason)

"""Read what an argparse program takes from the calls that are written out.

One pass over a source, from the top down: a parser is the text of a variable, and what it takes is
in the calls of its methods with literals. A parser that is used in any other way is open, and an
open parser refutes nothing.
"""

from __future__ import annotations

import ast

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, Declared, choices, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes, dotted_name

_NO_VALUE = frozenset(
    {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
)
_WITH_VALUE = frozenset({"store", "append", "extend"})
_KINDS = frozenset({"str", "int", "float"})
_HARMLESS = frozenset(
    {"set_defaults", "print_help", "print_usage", "format_help", "format_usage", "error", "exit"}
    | {"get_default", "prog", "description", "epilog", "usage"}
)
_SETTINGS = frozenset(
    {None, "action", "fromfile_prefix_chars", "parents", "parser_class", "prefix_chars"}
)
"""What makes a parser, or the commands of one, other than the calls of its methods have it."""

_GROUPS = ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers")
_WHOLE_ARGV = lazy_re(r"sys\.argv\[(?:1:|0)\]")
_BLOCKS = (
    *(*FUNCTIONS, ast.Lambda, ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While),
    *(ast.Try, ast.TryStar, ast.Match),
)


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
    body = source.tree.body
    if not (function or source.mentions("__main__")):
        # Without such a block, a module that calls nothing at its top is no script.
        top = (all_nodes(each) for each in body if isinstance(each, (ast.Expr, ast.Assign)))
        if not any(isinstance(each, ast.Call) for nodes in top for each in nodes):
            return None
    own = [each for each in body if isinstance(each, FUNCTIONS) and each.name == function]
    # A module with several programs makes the parser of each in its function.
    is_own = bool(own) and "ArgumentParser(" in ast.unparse(own[0])
    reader = _Reader(source)
    reader.visit(own[0] if is_own else source.tree)
    return reader.command()


class _Parser(Declared):
    """A parser or one of its commands, with the blocks of code around the place of its making."""

    blocks: tuple[ast.AST, ...] = ()


class _Reader:
    """The parsers in a piece of code, by the text of the variables that hold them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: dict[str, _Parser] = {}
        # The expressions that are parsers and have not been put to a use that is known.
        self._values: dict[ast.AST, _Parser] = {}
        self._blocks: tuple[ast.AST, ...] = ()
        self._made: list[_Parser] = []
        self._parsed: list[_Parser] = []
        self._uses_unknown = False

    def command(self) -> Command | None:
        """Return what the one parser takes; None where there is not one that parses."""
        if len(self._made) != 1 or self._made[0] not in self._parsed:
            return None
        for node, parser in self._values.items():
            # Who holds a group can reach its commands.
            for each in (parser, *(parser.commands or {}).values()):
                each.add(f"its parser is a value in {self._place(node)}")
        if "sys.argv" in _WHOLE_ARGV.sub("", self._source.text):
            self._made[0].add("it reads sys.argv itself")
        if self._uses_unknown:
            self._made[0].add("it uses a parser that cannot be followed")
        return self._made[0].command()

    def _place(self, node: ast.AST) -> str:
        return f"{self._source.path}:{getattr(node, 'lineno', 1)}"

    def visit(self, node: ast.AST) -> None:
        """Read a piece of code in the order of its text, from the inside out."""
        around = self._blocks
        if isinstance(node, _BLOCKS):
            self._blocks = (*around, node)
        for each in ast.iter_child_nodes(node):
            self.visit(each)
        self._blocks = around
        match node:
            case ast.Call():
                self._read_call(node)
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                self._read_name(node)
            case ast.Assign(targets=targets, value=value):
                self._name([dotted_name(each) for each in targets], value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._name([dotted_name(target)], value)
            case ast.Return(value=ast.expr() as value):
                functions = [each for each in around if isinstance(each, FUNCTIONS)]
                self._name([f"{each.name}()" for each in functions[-1:]], value)
            case ast.Expr(value=value):
                self._values.pop(value, None)
            case _:
                pass

    def _read_name(self, node: ast.Name | ast.Attribute) -> None:
        known = self._names.get(dotted_name(node) or "")
        if known is not None:
            self._values[node] = known
        elif isinstance(node, ast.Attribute) and node.attr in _HARMLESS:
            self._values.pop(node.value, None)

    def _name(self, names: list[str | None], value: ast.expr) -> None:
        parser = self._values.pop(value, None)
        for name in names:
            self._names.pop(name or "", None)
            if parser is not None:
                self._names[name or ""] = parser

    def _read_call(self, node: ast.Call) -> None:
        called, func = self._source.dotted(node.func), node.func
        method = func.attr if isinstance(func, ast.Attribute) else ""
        owner = self._values.pop(func.value, None) if isinstance(func, ast.Attribute) else None
        if called == "argparse.ArgumentParser":
            self._values[node] = self._new_parser(node)
            self._made.append(self._values[node])
        elif called == "argcomplete.autocomplete" and node.args:
            self._values.pop(node.args[0], None)
        elif owner is None:
            self._uses_unknown |= method in ("add_argument", "parse_args", "parse_known_args")
            returned = self._names.get(f"{called.removeprefix('self.')}()")
            if returned is not None:
                self._values[node] = returned
        elif method.startswith("parse_"):
            self._parse(owner, method, node)
        elif method == "add_argument":
            self._add_argument(owner, node)
        elif method == "add_parser":
            self._values[node] = self._add_parser(owner, node)
        elif method in _GROUPS:
            self._values[node] = owner
            if method == "add_subparsers":
                owner.commands = owner.commands or {}
                self._check_settings(owner, node)
        else:
            owner.add(f"its parser is used by {method}()")

    def _check_settings(self, parser: _Parser, node: ast.Call) -> None:
        if _SETTINGS & {each.arg for each in node.keywords}:
            parser.add("its parser is made in a way of its own")

    def _new_parser(self, node: ast.Call) -> _Parser:
        # argparse accepts unique prefixes of long options unless it is told not to.
        abbreviates = literal(keyword(node, "allow_abbrev")) is not False
        parser = _Parser(self._place(node), abbreviates=abbreviates)
        parser.blocks = self._blocks
        self._check_settings(parser, node)
        if literal(keyword(node, "add_help")) is not False:
            parser.add(Option(("-h", "--help")))
        return parser

    def _parse(self, parser: _Parser, name: str, node: ast.Call) -> None:
        self._parsed.append(parser)
        if "known" in name:
            parser.add("it lets unknown options pass")
        for each in [*node.args[:1], keyword(node, "args")]:
            shown = "" if each is None else ast.unparse(each)
            # A variable is mostly the argv parameter of main().
            if shown not in ("", "None", "sys.argv[1:]") and not isinstance(each, ast.Name):
                parser.add("it parses other words than those of the command line")

    def _add_parser(self, parser: _Parser, node: ast.Call) -> _Parser:
        word = literal(keyword(node, "name") if not node.args else node.args[0])
        aliases = keyword(node, "aliases")
        inner = self._new_parser(node)
        if parser.commands is None or not isinstance(word, str):
            parser.add("the names of its commands are not written out")
            return inner
        if aliases is not None and not choices(aliases):
            parser.add("the aliases of a command are not written out")
        parser.commands |= dict.fromkeys((word, *choices(aliases)), inner)
        return inner

    def _add_argument(self, parser: _Parser, node: ast.Call) -> None:
        # Under another condition, or in another function, it need not be added in every run.
        is_certain = self._blocks == parser.blocks
        given = {each.arg: each.value for each in node.keywords}
        names = [literal(each) for each in node.args or [given.get("dest")]]
        count = literal(given["nargs"]) if "nargs" in given else 1
        kind = self._source.dotted(given["type"]) if "type" in given else "str"
        # A value of another type is made from the word first.
        taken = choices(given.get("choices")) if kind in _KINDS else ()
        is_counted = isinstance(count, int) or count in ("?", "*", "+")
        if not all(isinstance(each, str) for each in names):
            parser.add("the name of an option is not written out")
        elif names[0].startswith("-"):
            option = _option(names, given, count)
            is_required = is_certain and literal(given.get("required")) is True
            parser.add(option._replace(choices=taken, is_required=is_required))
        elif not is_certain or {None, "action"} & set(given) or not is_counted:
            parser.add(f"the argument {names[0]} may take the rest of the line")
        else:
            shown = str(literal(given.get("metavar")) or names[0])
            argument = Argument(shown, count not in ("?", "*"), count in ("*", "+"), taken)
            parser.arguments += [argument] * (count if isinstance(count, int) else 1)


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

"""Read which commands and options a click or typer program has, as far as its source writes them.

A group has the commands that `@group.command()`, `add_command` and `add_typer` give it, in any
module. Of a command the names of its options are read; any word may be an argument. What is not
written out, or put to any other use than the plain ones, makes a command open, and an open command
refutes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, WORDS, declared, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_PACKAGES = ("click", "rich_click", "typer")
_WITHOUT_OPTIONS = frozenset(
    {"invoke", "make_pass_decorator", "pass_context", "pass_meta_key", "pass_obj"}
    | {"staticmethod", "update_wrapper", "wraps"}
)
_ODD = frozenset({"aliases", "args", "callback", "chain", "cls", "commands", "params", None})
"""The keywords by which a command is made, added or called that change what it takes."""

_PLAIN_SETTINGS = frozenset(
    {"auto_envvar_prefix", "help_option_names", "max_content_width", "show_default"}
)
_MAKERS = ("command", "group", "callback")
_ADDERS = ("add_command", "add_typer")
_SUFFIXES = ("-command", "-cmd", "-group", "-grp")
_DASHED = lazy_re(r"--?\w[\w.-]*")
_TAKES_MORE = lazy_re(
    r"pkgutil|entry_points|import_module|sys\.argv(?:\[[^]]*\])?\s*(?:\+?=[^=]|\.\w)"
)
# Tests and examples are no part of the program.
_BESIDE = lazy_re(r"(?:^|/)(?:(?:tests?|docs?|examples?|benchmarks?)/|test_|conftest)")
_IMPORTS = (
    r"\bimport\s+(?:\([^)]*|[^\n(]*)\b{module}\b"
    r"|(?:\b{module}|\.)\s+import\s+(?:\([^)]*|[^\n(]*)(?:\*|\b{name}\b)"
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Made(NamedTuple):
    """A command, a group or a typer app.

    Args:
        node: The decorated function, or the assignment of an app.
        maker: The decorator, or the call that is assigned.
        source: Where it is defined.
    """

    node: _Function | ast.Assign
    maker: ast.expr
    source: Source

    @property
    def is_app(self) -> bool:
        """Whether it is an app of typer."""
        return isinstance(self.node, ast.Assign)

    @property
    def name(self) -> str:
        """What its module calls it."""
        node = self.node
        return node.name if isinstance(node, FUNCTIONS) else ast.unparse(node.targets[0])


def read_click(path: str, function: str, sources: Sources, python: PythonIndex) -> Command | None:
    """Return what a program takes; None where it is none of click's or typer's.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    reader = _Reader(path, sources, python)
    made = None if source is None else reader.program(function, source)
    return None if made is None else reader.command(made)


class _Reader:
    def __init__(self, entry: str, sources: Sources, python: PythonIndex) -> None:
        self._entry = entry
        self._sources = sources
        self._python = python

    def program(self, name: str, source: Source, depth: int = 0) -> _Made | None:
        """Return the command that a name means, or the one that the function of this name calls."""
        made = self._find(name, source)
        # One level of `main()` around the command is usual; deeper calls prove little.
        if made is not None or depth > 1:
            return made
        body, where = self._definition(name, source) if name else (_main(source.tree), source)
        calls = [each for each in all_nodes(body) if isinstance(each, ast.Call)] if body else []
        names = {ast.unparse(each.func).removesuffix(".main") for each in calls}
        found = {self.program(each, where, depth + 1) for each in names} - {None}
        return found.pop() if len(found) == 1 else None

    def command(self, made: _Made, above: tuple[ast.AST, ...] = ()) -> Command:
        """Return what a command takes, and the commands of a group."""
        node, maker, source = made
        place = f"{source.path}:{node.lineno}"
        if node in above:
            return declared(["it is a command of itself"], place)
        read = [Option(("--help",)), *self._options(made)]
        if not made.is_app and not ast.unparse(maker).partition("(")[0].endswith("group"):
            return declared(read, place)
        commands: dict[str, Command] = {}
        may_be_one = made.is_app
        for other in (source, *self._importers(made)):
            for use in self._uses(made, other):
                if isinstance(use, str):
                    read.append(use)
                elif isinstance(use, _Made):
                    may_be_one = False
                    read += self._options(use)
                else:
                    words, child = use
                    read += [] if words else ["a command that is added to it is unknown"]
                    inner = declared(["what it runs is unknown"], f"{other.path}:{words}")
                    if child is not None:
                        inner = self.command(child, (*above, node))
                    commands |= {each: inner._replace(name=each) for each in words}
        if may_be_one and len({each.place for each in commands.values()}) == 1:
            read.append("the one command of an app runs without its name")
        return declared(read, place, commands)

    def _definition(self, name: str, source: Source) -> tuple[ast.stmt | None, Source]:
        """Return the statement of a module that defines a name, and its source."""
        if not all(part.isidentifier() for part in name.split(".")):
            return None, source
        head, dot, rest = name.partition(".")
        imported = self._python.absolute(source.path, source.imports.get(head, ""))
        found = self._python.find_in(source.path, name)
        if imported and not found.exists:  # by an import within a function
            found = self._python.find(f"{imported}{dot}{rest}")
        where = self._sources.get(found.path) if found.exists and found.path else None
        for node in where.tree.body if where is not None and found.line else ():
            if (node.end_lineno or 0) >= (found.line or 0):
                return node, where or source
        return None, source

    def _find(self, name: str, source: Source) -> _Made | None:
        """Return the command, group or app that a name means."""
        node, where = self._definition(name, source)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            is_app = where.dotted(getattr(node.value, "func", node.value)) == "typer.Typer"
            return _Made(node, node.value, where) if is_app else None
        for each in node.decorator_list if isinstance(node, FUNCTIONS) else ():
            owner, method = _method(each)
            package, _, last = where.dotted(getattr(each, "func", each)).rpartition(".")
            is_click = package in _PACKAGES and last in _MAKERS
            is_made = is_click or (method in _MAKERS and self._find(ast.unparse(owner), where))
            if is_made and isinstance(node, FUNCTIONS):
                return _Made(node, each, where)
        return None

    def _importers(self, group: _Made) -> Iterator[Source]:
        """Yield the modules that may import a group."""
        path, name = group.source.path, group.name
        module = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        imports = re.compile(_IMPORTS.format(module=re.escape(module), name=name))
        for other in self._sources.paths:
            if other == path or (_BESIDE.search(other) and other != self._entry):
                continue
            text = self._sources.text(other)
            source = self._sources.get(other) if name in text and imports.search(text) else None
            if source is not None:
                yield source

    def _uses(
        self, group: _Made, source: Source
    ) -> Iterator[tuple[list[str], _Made | None] | _Made | str]:
        """Yield each command that a source gives a group, with the words that call it.

        Its callback is yielded alone, and as a text each reason why there may be more.
        """
        more = _TAKES_MORE.search(source.text)
        if more is not None and source.path in (group.source.path, self._entry):
            yield f"{source.path} has {more[0]}"
        nodes = all_nodes(source.tree)
        uses = {each for each in nodes if self._is_use(each, group, source)}
        for node in [each for each in nodes if isinstance(each, FUNCTIONS)] if uses else ():
            for each in node.decorator_list:
                owner, method = _method(each)
                if owner in uses and method in _MAKERS:
                    uses -= {owner}
                    made = _Made(node, each, source)
                    yield made if method == "callback" else (_words(None, made), made)
        for call in [each for each in nodes if isinstance(each, ast.Call)] if uses else ():
            owner, method = _method(call)
            given = [ast.unparse(each) for each in call.args]
            if owner in uses and method in _ADDERS and given:
                uses -= {owner}
                child = self._find(given[0], source)
                yield _words(call, child), child
                yield from _odd(call)
            elif owner in uses and method in ("", "main"):
                uses -= {owner} if given in ([], ["sys.argv[1:]"]) else set()
                yield from _odd(call)
            if method in (*_ADDERS, "invoke"):
                uses -= {*call.args}
        if uses:
            yield "it is used in a way of its own"

    def _is_use(self, node: ast.AST, group: _Made, source: Source) -> bool:
        """Return whether an expression means a group, or may mean it."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Store):
            return False
        last = node.attr if isinstance(node, ast.Attribute) else node.id
        if source.imports.get(last, last).rpartition(".")[2] != group.name:
            return False
        text = ast.unparse(node)
        if source is group.source and text == group.name:
            return True
        found = self._definition(text, source)[0]
        return found is group.node or (found is None and text.partition(".")[0] in source.imports)

    def _options(self, made: _Made) -> Iterator[Option | str]:
        """Yield the options of a command or an app, and each reason why there may be more."""
        node, maker, source = made
        yield from _odd(maker)
        if isinstance(node, ast.Assign):
            yield Option(("--install-completion", "--show-completion"), num_values=None)
            return
        others = [each for each in node.decorator_list if each is not maker]
        owner = self._find(ast.unparse(_method(maker)[0]), source)
        if owner is None or not owner.is_app:
            for each in others:
                yield from self._decorator(each, source)
            return
        if others:
            yield "another decorator may change its parameters"
        spec, nodes = node.args, all_nodes(node.args)
        both = [*spec.posonlyargs, *spec.args]
        needed = both[: len(both) - len(spec.defaults)]
        given = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        needed += [each for each, default in given if default is None]
        shown = [ast.unparse(each) for each in needed]
        if not all("Option" in each or "Context" in each for each in shown):
            yield WORDS
        # An annotation may be the name of `Annotated[str, typer.Option("--name")]`.
        for name in [each.id for each in nodes if isinstance(each, ast.Name)]:
            alias, _ = self._definition(name, source)
            nodes += all_nodes(alias.value) if isinstance(alias, ast.Assign) else ()
        for each in nodes:
            if isinstance(each, ast.arg):
                own = each.arg.replace("_", "-").strip("-")
                yield Option((f"--{own}", f"--no-{own}"), num_values=None)
            elif isinstance(each, ast.Call) and _method(each)[1] == "Option":
                yield from _names(each, "Option")
            elif isinstance(each, ast.Call) and _method(each)[1] == "Argument":
                yield WORDS

    def _decorator(self, node: ast.expr, source: Source) -> Iterator[Option | str]:
        """Yield the options that a decorator adds, and each reason why there may be more."""
        func = node.func if isinstance(node, ast.Call) else node
        package, _, name = source.dotted(func).rpartition(".")
        if package in _PACKAGES and isinstance(node, ast.Call) and name.endswith("option"):
            yield from _names(node, name)
            return
        if package in _PACKAGES and name == "argument":
            yield WORDS
            return
        shared, where = self._definition(ast.unparse(func), source)
        decorators: list[ast.expr] = [shared.value] if isinstance(shared, ast.Assign) else []
        taken: set[str] = set()
        for each in all_nodes(shared) if shared is not None else ():
            if isinstance(each, FUNCTIONS) and each is not shared and each.decorator_list:
                decorators += each.decorator_list
                taken.add(each.name)
            elif isinstance(each, FUNCTIONS):
                taken |= {arg.arg for arg in all_nodes(each.args) if isinstance(arg, ast.arg)}
            elif isinstance(each, ast.Call):
                # `f = click.option("-v")(f)`, and any other function that is given `f`.
                given = [*each.args, *(keyword.value for keyword in each.keywords)]
                decorators += [each.func] if taken & {*map(ast.unparse, given)} else []
        if not decorators and name not in _WITHOUT_OPTIONS:
            yield f"its decorator {ast.unparse(func)} is unknown"
        for each in decorators:
            yield from self._decorator(each, where)


def _names(call: ast.Call, kind: str) -> Iterator[Option | str]:
    """Yield what `click.option` and its like declare: both names of `--shout/--no-shout`."""
    given = [literal(each) for each in call.args]
    parts = [part.strip() for each in given for part in str(each).split("/")]
    names = [each for each in parts if _DASHED.fullmatch(each)]
    # The first of `typer.Option` may be a default, and that of `version_option` is a version.
    texts = given if kind == "option" else given[1:]
    if (kind == "option" and not names) or not all(isinstance(each, str) for each in texts):
        yield "an option is not written out"
    elif not names and kind != "Option":
        names = ["--yes" if kind == "confirmation_option" else f"--{kind.removesuffix('_option')}"]
    if names:
        yield Option(tuple(names), num_values=None)


def _words(added: ast.Call | None, child: _Made | None) -> list[str]:
    """Return the words that call a command, several as versions of click differ; none if unknown.

    Args:
        added: The call that adds it, if there is one.
        child: The command, if it is known.
    """
    given = None if added is None else keyword(added, "name") or next(iter(added.args[1:]), None)
    if given is None and child is not None and isinstance(child.maker, ast.Call):
        given = keyword(child.maker, "name") or next(iter(child.maker.args), None)
    if given is None and child is not None and not child.is_app:
        word = child.name.lower().replace("_", "-")
        return [word, *(word.removesuffix(each) for each in _SUFFIXES if word.endswith(each))]
    word = literal(given)
    return [word] if isinstance(word, str) else []


def _odd(maker: ast.expr) -> Iterator[str]:
    """Yield what a command is made, added or called with that may change what it takes."""
    for each in maker.keywords if isinstance(maker, ast.Call) else ():
        given = literal(each.value)
        is_plain = isinstance(given, dict) and given.keys() <= _PLAIN_SETTINGS
        if each.arg in _ODD or (each.arg == "context_settings" and not is_plain):
            yield f"its {each.arg} may change what it takes"


def _method(node: ast.expr) -> tuple[ast.expr, str]:
    """Return whose method decorates or is called, and its name; "" for what is called itself."""
    func = node.func if isinstance(node, ast.Call) else node
    return (func.value, func.attr) if isinstance(func, ast.Attribute) else (func, "")


def _main(tree: ast.Module) -> ast.Module:
    """Return what a module does when it is run as a script."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return ast.Module(node.body, [])
    return ast.Module([node for node in tree.body if isinstance(node, ast.Expr)], [])

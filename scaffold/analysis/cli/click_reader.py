"""Read what a click or typer program takes from its decorators and the calls that are written out.

A group's commands are looked for where the group is named: in its own module and in those that its
imports lead to. What is not a literal declaration makes the command open, and an open command
refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.click_options import (
    STANDARD_OPTIONS,
    click_argument,
    click_option,
    standard_option,
    typer_parameters,
)
from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.literals import keyword, literal
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MOST_MODULES = 300
_MAKERS = frozenset({"click.command", "click.group", "rich_click.command", "rich_click.group"})
_HARMLESS = frozenset({"pass_context", "pass_obj", "pass_meta_key", "wraps", "staticmethod"})
_COMPLETION = ("install", "show")
_ADDERS = ("add_command", "add_typer")
_LOOSE_SETTINGS = ("ignore_unknown_options", "allow_extra_args", "token_normalize_func")
_LOADERS = ("importlib", "pkgutil", "entry_points", "__import__")
_SUFFIXES = ("-command", "-cmd", "-group", "-grp")
_REACHED = ("click", "typer", ".command(", ".command\n", ".group(", ".group\n")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Thing(NamedTuple):
    """A command, a group or a typer app.

    Args:
        source: Where it is defined.
        name: The name that it has there.
        node: The decorated function, or the value that is assigned.
        maker: The decorator, or that value.
    """

    source: Source
    name: str
    node: _Function | ast.Call
    maker: ast.expr

    @property
    def key(self) -> tuple[str, int]:
        return self.source.path, self.node.lineno

    @property
    def is_typer(self) -> bool:
        return isinstance(self.node, ast.Call)

    @property
    def place(self) -> str:
        return f"{self.source.path}:{self.node.lineno}"


def read_click(path: str, function: str, sources: Sources, python: PythonIndex) -> Command | None:
    """Return what a program takes; None where it is none of click's or typer's.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    return None if source is None else _Reader(source, sources, python).read(function)


class _Taken:
    """What a command takes, as it is collected."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.arguments: list[Argument] = []
        self.commands: dict[str, Command] | None = None
        self.has_callback = False
        self.why_open = ""

    def add(self, read: Option | Argument | str) -> None:
        """Add one parameter; a text is the reason why there may be more."""
        if isinstance(read, Option):
            self.options.append(read)
        elif isinstance(read, Argument):
            self.arguments.append(read)
        else:
            self.why_open = self.why_open or read

    def add_typer(self, node: _Function, source: Source) -> None:
        """Add the parameters of a function that typer runs."""
        if len(node.decorator_list) > 1:
            # typer reads the signature of what the other decorators return.
            self.add("another decorator may change its parameters")
        for each in typer_parameters(node, source):
            self.add(each)

    def finish_typer(self) -> None:
        """Add what every typer app takes; one command of an app runs without its name."""
        self.options += [Option((f"--{each}-completion",), num_values=None) for each in _COMPLETION]
        inner = [*(self.commands or {}).values()]
        if (
            len({id(each) for each in inner}) == 1
            and not self.has_callback
            and inner[0].commands is None
        ):
            self.commands = None
            self.options += inner[0].options
            self.arguments += inner[0].arguments
            self.why_open = self.why_open or inner[0].why_open

    def command(self, name: str, place: str) -> Command:
        options, why = (*self.options, Option(("--help",))), self.why_open
        arguments = tuple(self.arguments)
        return Command(name, "", options, arguments, self.commands, bool(why), why, place)


class _Reader:
    def __init__(self, source: Source, sources: Sources, python: PythonIndex) -> None:
        self._source = source
        self._sources = sources
        self._python = python
        self._things: dict[tuple[str, str], _Thing | None] = {}
        self._reached: list[Source] = []
        self._open_things: set[tuple[str, int]] = set()

    def read(self, function: str) -> Command | None:
        thing = self._thing(function, self._source) if function else None
        if thing is None:
            body, source = _main_body(self._source.tree), self._source
            if function:
                body, source = self._definition(function, self._source)
            thing = self._called(body, source, 0)
        if thing is None:
            return None
        self._reached = list(self._reach([self._source, thing.source]))
        return self._command(thing, "")

    def _called(self, body: ast.AST | None, source: Source, depth: int) -> _Thing | None:
        """Return the one command that code calls: `cli()`, `cli.main()`, `main()`."""
        found: dict[tuple[str, int], _Thing] = {}
        for node in all_nodes(body) if body is not None else ():
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).removesuffix(".main")
                thing = self._thing(name, source)
                # One level of `main()` around the command is usual; deeper calls prove little.
                if thing is None and depth == 0 and isinstance(node.func, ast.Name):
                    thing = self._called(*self._definition(name, source), 1)
                if thing is not None:
                    found[thing.key] = thing
        return next(iter(found.values())) if len(found) == 1 else None

    # What a name is

    def _definition(self, name: str, source: Source) -> tuple[_Function | ast.Call | None, Source]:
        """Return the function or the assigned call that a name stands for, and its source."""
        found = self._sources.origin(name.partition(".")[0], source)
        if found is not None and all(part.isidentifier() for part in name.split(".")):
            there = self._python.find_in(source.path, name)
            found = self._sources.get(there.path) if there.path and there.exists else None
            name = name.rpartition(".")[2]
        source = source if found is None else found
        for node in source.tree.body:
            if isinstance(node, _FUNCTIONS) and node.name == name:
                return node, source
            if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                return node.value if isinstance(node.value, ast.Call) else None, source
        return None, source

    def _thing(self, name: str, source: Source) -> _Thing | None:
        """Return the command, group or app that a name means."""
        key = name, source.path
        if key not in self._things:
            self._things[key] = None  # the answer while it is looked for
            self._things[key] = self._made(*self._definition(name, source), name)
        return self._things[key]

    def _made(self, node: _Function | ast.Call | None, where: Source, name: str) -> _Thing | None:
        if isinstance(node, ast.Call):
            is_app = where.dotted(node.func) == "typer.Typer"
            return _Thing(where, name.rpartition(".")[2], node, node) if is_app else None
        if node is None:
            return None
        for each in node.decorator_list:
            func = _called_name(each)
            is_method = isinstance(func, ast.Attribute) and func.attr in ("command", "group")
            owner = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
            if where.dotted(func) in _MAKERS or (is_method and self._thing(owner, where)):
                return _Thing(where, name.rpartition(".")[2], node, each)
        return None

    def _reach(self, starts: list[Source]) -> Iterator[Source]:
        """Yield the modules that imports lead to, through those of click or typer and packages."""
        seen: set[str] = set()
        waiting = list(starts)
        while waiting and len(seen) < _MOST_MODULES:
            source = waiting.pop()
            if source.path in seen:
                continue
            seen.add(source.path)
            yield source
            found = [self._sources.origin(each, source) for each in source.imports]
            for node in all_nodes(source.tree):
                for each in node.names if isinstance(node, ast.Import) else ():
                    # `import a.b` binds only a.
                    path = self._python.find(each.name).path if "." in each.name else None
                    found.append(self._sources.get(path) if path else None)
            for each in filter(None, found):
                # A gathering package, or a module that adds a command, need not name click.
                is_package = each.path.endswith("/__init__.py")
                if is_package or any(each.mentions(word) for word in _REACHED):
                    waiting.append(each)

    # What it takes

    def _command(self, thing: _Thing, name: str) -> Command:
        if thing.key in self._open_things:
            return Command(name, is_open=True, why_open="it is a command of itself")
        self._open_things.add(thing.key)
        taken = _Taken()
        func = _called_name(thing.maker)
        owner = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
        above = self._thing(owner, thing.source) if owner else None
        if isinstance(thing.maker, ast.Call):
            _read_settings(thing.maker, taken)
        if above is not None and above.is_typer and isinstance(thing.node, _FUNCTIONS):
            taken.add_typer(thing.node, thing.source)
        elif isinstance(thing.node, _FUNCTIONS):
            for each in thing.node.decorator_list:
                if each is not thing.maker:
                    self._read_decorator(each, thing.source, taken)
        if thing.is_typer or ast.unparse(func).rpartition(".")[2] == "group":
            self._read_group(thing, taken)
        self._open_things.discard(thing.key)
        return taken.command(name, thing.place)

    def _read_decorator(self, node: ast.expr, source: Source, taken: _Taken) -> None:
        """Read `@click.option(...)` and the like, or a name that one of them is assigned to."""
        made, where = self._definition(ast.unparse(node), source)
        call = made if isinstance(made, ast.Call) else node
        where = where if isinstance(made, ast.Call) else source
        package, _, name = where.dotted(_called_name(call)).rpartition(".")
        is_own = package in ("click", "rich_click")
        if is_own and name in STANDARD_OPTIONS:
            taken.add(standard_option(name, call))
        elif is_own and name in ("option", "argument") and isinstance(call, ast.Call):
            read = click_option if name == "option" else click_argument
            taken.add(read(call) or "a parameter is not written out")
        elif name not in _HARMLESS:
            taken.add(f"its decorator {ast.unparse(_called_name(node))} is unknown")

    def _read_group(self, group: _Thing, taken: _Taken) -> None:
        """Read what is done with a group, wherever it is named."""
        taken.commands = {}
        if any(group.source.mentions(each) for each in _LOADERS):
            taken.add("its module loads others by name")
        for source in self._reached:
            nodes = all_nodes(source.tree)
            uses = {id(each) for each in nodes if self._is(each, source, group)}
            for node in nodes if uses else ():
                if isinstance(node, _FUNCTIONS):
                    self._read_function(node, source, group, uses, taken)
                elif isinstance(node, ast.Call):
                    self._read_call(node, source, uses, taken)
            if uses:
                taken.add(f"{source.path} uses it in a way of its own")
        if group.is_typer:
            taken.finish_typer()

    def _read_function(
        self, node: _Function, source: Source, group: _Thing, uses: set[int], taken: _Taken
    ) -> None:
        """Read `@group.command()`, `@group.group()` and `@app.callback()`."""
        for each in node.decorator_list:
            func = _called_name(each)
            if isinstance(func, ast.Attribute) and id(func.value) in uses:
                uses.discard(id(func.value))
                if func.attr in ("command", "group"):
                    child = _Thing(source, node.name, node, each)
                    taken.commands = (taken.commands or {}) | self._named(child, "")
                elif func.attr == "callback" and group.is_typer:
                    taken.has_callback = True
                    taken.add_typer(node, source)
                else:
                    taken.add(f"its {func.attr} is used")

    def _is(self, node: ast.AST, source: Source, thing: _Thing) -> bool:
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Store):
            return False
        last = node.id if isinstance(node, ast.Name) else node.attr
        if last != thing.name and source.imports.get(last, "").rpartition(".")[2] != thing.name:
            return False
        found = self._thing(ast.unparse(node), source)
        return found is not None and found.key == thing.key

    def _read_call(self, node: ast.Call, source: Source, uses: set[int], taken: _Taken) -> None:
        """Read `group.add_command(...)`; take what changes nothing out of the uses."""
        func = node.func
        method = func.attr if isinstance(func, ast.Attribute) else ""
        if isinstance(func, ast.Attribute) and id(func.value) in uses:
            if method in _ADDERS:
                child = self._thing(ast.unparse(node.args[0]), source) if node.args else None
                given = keyword(node, "name") or (node.args[1] if len(node.args) > 1 else None)
                name = literal(given) if given is not None else ""
                if child is None or not isinstance(name, str):
                    taken.add("a command that is added to it is unknown")
                else:
                    taken.commands = (taken.commands or {}) | self._named(child, name)
            if method in (*_ADDERS, "main"):
                uses.discard(id(func.value))
        # It is called, added to another group, or invoked by a context.
        uses.discard(id(func))
        if method in (*_ADDERS, "invoke"):
            uses -= {id(each) for each in node.args}

    def _named(self, thing: _Thing, name: str) -> dict[str, Command]:
        """Return a command by the words that call it; several, as versions of click differ."""
        maker = thing.maker
        if not name and isinstance(maker, ast.Call):
            given = literal(maker.args[0] if maker.args else keyword(maker, "name"))
            name = given if isinstance(given, str) else ""
        dashed = thing.name.lower().replace("_", "-")
        stripped = [dashed.removesuffix(each) for each in _SUFFIXES if dashed.endswith(each)]
        words = [name] if name else [dashed, *stripped]
        return dict.fromkeys(words, self._command(thing, words[0]))


def _read_settings(maker: ast.Call, taken: _Taken) -> None:
    for each in maker.keywords:
        if each.arg is None or each.arg in ("cls", "chain", "commands", "params"):
            taken.add("its group is of a class of its own")
        elif each.arg == "context_settings":
            shown = ast.unparse(each.value)
            is_plain = isinstance(each.value, (ast.Dict, ast.Call))
            if not is_plain or any(word in shown for word in _LOOSE_SETTINGS):
                taken.add("it may let unknown options pass")


def _called_name(node: ast.expr) -> ast.expr:
    """Return what a decorator names, without the arguments that it gives."""
    return node.func if isinstance(node, ast.Call) else node


def _main_body(tree: ast.Module) -> ast.Module:
    """Return what a module does when it is run as a script."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return ast.Module(node.body, [])
    return ast.Module([node for node in tree.body if isinstance(node, ast.Expr)], [])

"""Read what a click or typer program takes from its decorators and the calls that are written out.

A group's commands are looked for in every module that its own module leads to. What is not a
literal declaration makes the command open, and an open command refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.click_options import (
    STANDARD_OPTIONS,
    click_argument,
    click_option,
    declared_names,
    typer_parameter,
)
from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.literals import Assignment, Literals, keyword, literal
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MOST_MODULES = 300
_MOST_DEPTH = 8
_MAKERS = frozenset({"click.command", "click.group", "rich_click.command", "rich_click.group"})
_OBJECTS = frozenset({"typer.Typer", "click.Group", "click.Command"})
_HARMLESS = frozenset({"functools.wraps", "staticmethod", "functools.lru_cache", "functools.cache"})
_PASSING = ("pass_context", "pass_obj", "pass_meta_key")
_ADDERS = ("add_command", "add_typer")
_LOOSE_SETTINGS = ("ignore_unknown_options", "allow_extra_args", "token_normalize_func")
_LOADERS = ("importlib", "pkgutil", "entry_points", "__import__")
_SUFFIXES = ("-command", "-cmd", "-group", "-grp")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Thing(NamedTuple):
    """A command, a group or a typer app: a decorated function, or an assignment."""

    source: Source
    name: str
    node: _Function | Assignment

    @property
    def key(self) -> tuple[str, int]:
        return self.source.path, self.node.lineno

    @property
    def place(self) -> str:
        return f"{self.source.path}:{self.node.lineno}"

    @property
    def made_by(self) -> str:
        """The dotted name of the class that an assignment calls; "" for a function."""
        value = None if isinstance(self.node, _FUNCTIONS) else self.node.value
        return self.source.dotted(value.func) if isinstance(value, ast.Call) else ""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def read_click(path: str, function: str, sources: Sources, python: PythonIndex) -> Command | None:
    """Return what a program takes; None where it is none of click's or typer's.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    return None if source is None else _Reader(sources, python).read(source, function)


class _Taken:
    """What a command takes, as it is collected."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.arguments: list[Argument] = []
        self.why_open = ""

    def add(self, read: Option | Argument | str | None) -> None:
        """Add one parameter; a text is the reason why there may be more."""
        if isinstance(read, Option):
            self.options.append(read)
        elif isinstance(read, Argument):
            self.arguments.append(read)
        else:
            self.why_open = self.why_open or read or "a parameter is not written out"

    def command(self, name: str, place: str, inner: dict[str, Command] | None) -> Command:
        options = (*self.options, Option(("--help",)))
        why = self.why_open
        return Command(name, "", options, tuple(self.arguments), inner, bool(why), why, place)


class _Reader:
    def __init__(self, sources: Sources, python: PythonIndex) -> None:
        self._sources = sources
        self._python = python
        self._literals = Literals(sources, python)
        self._reached: list[Source] = []
        self._things: dict[tuple[str, str], _Thing | None] = {}

    def read(self, source: Source, function: str) -> Command | None:
        thing = self._thing(function, source) if function else None
        if thing is None:
            found = self._function(function, source) if function else None
            if function and found is None:
                return None
            body, where = (_main_body(source.tree), source) if found is None else found
            thing = self._called(body, where, 0)
        if thing is None:
            return None
        self._reached = list(self._reach([source, thing.source]))
        return self._command(thing, "", 0)

    def _called(self, body: ast.AST, source: Source, depth: int) -> _Thing | None:
        """Return the one command that code calls: `cli()`, `cli.main()`, `main()`."""
        found: dict[tuple[str, int], _Thing] = {}
        for node in all_nodes(body):
            if not isinstance(node, ast.Call):
                continue
            is_main = isinstance(node.func, ast.Attribute) and node.func.attr == "main"
            name = ast.unparse(node.func).removesuffix(".main" if is_main else "")
            thing = self._thing(name, source)
            # One level of `main()` around the command is usual; deeper calls prove little.
            if thing is None and depth == 0 and isinstance(node.func, ast.Name):
                inner = self._function(name, source)
                thing = None if inner is None else self._called(*inner, depth + 1)
            if thing is not None:
                found[thing.key] = thing
        return next(iter(found.values())) if len(found) == 1 else None

    # What a name is

    def _function(self, name: str, source: Source) -> tuple[_Function, Source] | None:
        for node in source.tree.body:
            if isinstance(node, _FUNCTIONS) and node.name == name:
                return node, source
        if not all(part.isidentifier() for part in name.split(".")):
            return None
        found = self._python.find_in(source.path, name)
        other = self._sources.get(found.path) if found.path and found.exists else None
        node = None if other is None else other.definitions.get(found.line or 0)
        return (node, other) if other is not None and isinstance(node, _FUNCTIONS) else None

    def _thing(self, name: str, source: Source) -> _Thing | None:
        """Return the command, group or app that a name stands for."""
        head = name.partition(".")[0]
        # A cheap refusal: most names in a module are neither defined nor imported at its top.
        if head not in source.top_names and self._sources.origin(head, source) is None:
            return None
        key = name, source.path
        if key not in self._things:
            self._things[key] = None  # the answer while it is looked for
            self._things[key] = self._find_thing(name, source)
        return self._things[key]

    def _find_thing(self, name: str, source: Source) -> _Thing | None:
        function = self._function(name, source)
        if function is not None:
            node, where = function
            is_made = any(self._is_maker(each, where) for each in node.decorator_list)
            return _Thing(where, node.name, node) if is_made else None
        assigned = self._literals.assigned(name, source)
        if assigned is None:
            return None
        thing = _Thing(assigned[1], name.rpartition(".")[2], assigned[0])
        return thing if thing.made_by in _OBJECTS else None

    def _is_maker(self, decorator: ast.expr, source: Source) -> bool:
        func = _called_name(decorator)
        return source.dotted(func) in _MAKERS or (
            isinstance(func, ast.Attribute)
            and func.attr in ("command", "group")
            and self._thing(ast.unparse(func.value), source) is not None
        )

    def _reach(self, starts: list[Source]) -> Iterator[Source]:
        """Yield the modules that imports lead to, as far as they mention click or typer."""
        seen: set[str] = set()
        waiting = list(starts)
        while waiting and len(seen) < _MOST_MODULES:
            source = waiting.pop()
            if source.path in seen:
                continue
            seen.add(source.path)
            yield source
            for path in self._imported_paths(source):
                other = self._sources.get(path) if path not in seen else None
                if other is not None and (other.mentions("click") or other.mentions("typer")):
                    waiting.append(other)

    def _imported_paths(self, source: Source) -> Iterator[str]:
        for node in all_nodes(source.tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for each in node.names:
                name = each.asname or each.name.partition(".")[0]
                origin = self._sources.origin(name, source)
                if origin is not None:
                    yield origin.path
                found = None
                if isinstance(node, ast.Import) and "." in each.name:
                    found = self._python.find(each.name)
                elif origin is not None and origin.path.endswith("/__init__.py") and name != "*":
                    found = self._python.find_in(source.path, name)
                if found is not None and found.path and found.path.endswith(".py"):
                    yield found.path

    # What it takes

    def _command(self, thing: _Thing, name: str, depth: int) -> Command:
        if depth > _MOST_DEPTH:
            return Command(name, is_open=True, why_open="its commands go too deep")
        taken = _Taken()
        node, source = thing.node, thing.source
        if not isinstance(node, _FUNCTIONS):
            return self._object(thing, name, taken, depth)
        maker = next(each for each in node.decorator_list if self._is_maker(each, source))
        if isinstance(maker, ast.Call):
            self._read_settings(maker, source, taken)
        func = _called_name(maker)
        owner = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
        app = self._thing(owner, source) if owner else None
        if app is not None and app.made_by == "typer.Typer":
            if len(node.decorator_list) > 1:
                # typer reads the signature of what the other decorators return.
                taken.add("another decorator may change its parameters")
            self._read_signature(node, source, taken)
            return taken.command(name, thing.place, None)
        for each in node.decorator_list:
            if each is not maker:
                self._read_decorator(each, source, taken, 0)
        is_group = ast.unparse(func).rpartition(".")[2] == "group"
        is_group = is_group or source.dotted(func).endswith(".group")
        inner = self._children(thing, taken, depth) if is_group else None
        return taken.command(name, thing.place, inner)

    def _object(self, thing: _Thing, name: str, taken: _Taken, depth: int) -> Command:
        """Return what `click.Command(...)`, `click.Group(...)` or a typer app takes."""
        call = thing.node.value if not isinstance(thing.node, _FUNCTIONS) else None
        assert isinstance(call, ast.Call), "it calls a class of click or typer"
        self._read_settings(call, thing.source, taken)
        params = keyword(call, "params")
        if params is not None and not isinstance(params, (ast.List, ast.Tuple)):
            taken.add("its parameters are not written out")
        for each in params.elts if isinstance(params, (ast.List, ast.Tuple)) else ():
            self._read_declaration(each, thing.source, taken)
        if keyword(call, "commands") is not None or len(call.args) > 1:
            taken.add("its commands are given when it is made")
        if thing.made_by == "click.Command":
            return taken.command(name, thing.place, None)
        is_typer = thing.made_by == "typer.Typer"
        callbacks = list(self._decorated(thing, ("callback",))) if is_typer else []
        for node, source, _ in callbacks:
            self._read_signature(node, source, taken)
        if is_typer:
            for each in ("--install-completion", "--show-completion"):
                taken.add(Option((each,), num_values=None))
        inner = self._children(thing, taken, depth)
        only = next(iter(inner.values()), None)
        # One command with a second spelling of its name is still one object.
        is_alone = is_typer and not callbacks and len({id(each) for each in inner.values()}) == 1
        if is_alone and only is not None and only.commands is None:
            # typer runs the one command of an app without its name.
            options = (*only.options, *taken.options)
            why = only.why_open or taken.why_open
            return only._replace(name=name, options=options, is_open=bool(why), why_open=why)
        return taken.command(name, thing.place, inner)

    def _read_settings(self, maker: ast.Call, source: Source, taken: _Taken) -> None:
        for each in maker.keywords:
            if each.arg is None or each.arg in ("cls", "chain"):
                taken.add("its group is of a class of its own")
            elif each.arg == "context_settings":
                found = self._literals.assigned(ast.unparse(each.value), source)
                shown = ast.unparse(found[0] if found is not None else each.value)
                is_plain = isinstance(each.value, (ast.Dict, ast.Call)) or found is not None
                if not is_plain or any(word in shown for word in _LOOSE_SETTINGS):
                    taken.add("it lets unknown options pass")

    def _read_declaration(self, node: ast.expr, source: Source, taken: _Taken) -> None:
        """Read `click.option(...)` and the like, as a decorator or in a list of parameters."""
        name = source.dotted(_called_name(node)).rpartition(".")[2]
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        if name in ("option", "Option"):
            taken.add(click_option(call, source, self._literals))
        elif name in ("argument", "Argument"):
            taken.add(click_argument(call, source, self._literals))
        elif name in STANDARD_OPTIONS:
            given = [each for each in declared_names(call) if str(each)[:1] == "-"]
            option = STANDARD_OPTIONS[name]
            taken.add(option._replace(names=tuple(given)) if given else option)
        elif name not in _PASSING:
            taken.add(f"its {name or 'parameter'} is unknown")

    def _read_decorator(self, node: ast.expr, source: Source, taken: _Taken, depth: int) -> None:
        func = _called_name(node)
        dotted = source.dotted(func)
        if dotted in _HARMLESS or dotted.rpartition(".")[2] in _PASSING:
            return
        if dotted.startswith(("click.", "rich_click.")):
            self._read_declaration(node, source, taken)
            return
        shown = ast.unparse(func)
        assigned = self._literals.assigned(shown, source)
        if depth < 3 and assigned is not None and isinstance(assigned[0].value, ast.Call):
            self._read_decorator(assigned[0].value, assigned[1], taken, depth + 1)
        else:
            taken.add(f"its decorator {shown} is unknown")

    # Groups

    def _children(self, group: _Thing, taken: _Taken, depth: int) -> dict[str, Command]:
        found: dict[str, Command] = {}
        if any(group.source.mentions(each) for each in _LOADERS):
            taken.add("its module loads others by name")
        for node, source, decorator in self._decorated(group, ("command", "group")):
            name = _given_name(decorator) if isinstance(decorator, ast.Call) else ""
            words = [name] if name else _names(node.name)
            child = self._command(_Thing(source, node.name, node), words[0], depth + 1)
            found.update(dict.fromkeys(words, child))
        for source in self._reached:
            for node in all_nodes(source.tree):
                if isinstance(node, ast.Call):
                    found.update(self._added(node, source, group, taken, depth))
        return found

    def _is(self, node: ast.expr, source: Source, group: _Thing) -> bool:
        thing = self._thing(ast.unparse(node), source)
        return thing is not None and thing.key == group.key

    def _decorated(
        self, group: _Thing, names: tuple[str, ...]
    ) -> Iterator[tuple[_Function, Source, ast.expr]]:
        """Yield the functions that a method of a group, or of an app, decorates."""
        for source in self._reached:
            for node in all_nodes(source.tree):
                for each in node.decorator_list if isinstance(node, _FUNCTIONS) else ():
                    func = _called_name(each)
                    if not isinstance(func, ast.Attribute) or func.attr not in names:
                        continue
                    if isinstance(node, _FUNCTIONS) and self._is(func.value, source, group):
                        yield node, source, each

    def _added(
        self, node: ast.Call, source: Source, group: _Thing, taken: _Taken, depth: int
    ) -> dict[str, Command]:
        """Return the command that `group.add_command(...)` adds; open what is done otherwise."""
        func = node.func
        if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute):
            # `group.command("name")(function)`: what it decorates is seldom written out.
            if func.func.attr in ("command", "group") and self._is(func.func.value, source, group):
                taken.add("a command is added to it by a call")
        elif isinstance(func, ast.Attribute) and self._is(func.value, source, group):
            if func.attr in _ADDERS:
                return self._added_command(node, source, taken, depth)
            if func.attr in ("register_commands", "list_commands", "add_source"):
                taken.add("its commands are registered in a way of their own")
        # A call that does not touch the group is no evidence about it.
        elif not any(isinstance(e, ast.Name) and self._is(e, source, group) for e in node.args):
            return {}
        # Another group may add it to itself, and a context may invoke it.
        elif ast.unparse(func).rpartition(".")[2] not in (*_ADDERS, "invoke"):
            taken.add(f"{ast.unparse(func)[:40]} is given it")
        return {}

    def _added_command(
        self, node: ast.Call, source: Source, taken: _Taken, depth: int
    ) -> dict[str, Command]:
        thing = self._thing(ast.unparse(node.args[0]), source) if node.args else None
        given = keyword(node, "name") or (node.args[1] if len(node.args) > 1 else None)
        name = literal(given)
        if thing is None or (given is not None and not isinstance(name, str)):
            taken.add("a command that is added to it is unknown")
            return {}
        words = [name] if isinstance(name, str) else self._own_names(thing)
        if not words:
            taken.add("a command that is added to it has no plain name")
        child = self._command(thing, words[0] if words else "", depth + 1)
        return dict.fromkeys(words, child)

    def _own_names(self, thing: _Thing) -> list[str]:
        if not isinstance(thing.node, _FUNCTIONS):
            given = _given_name(thing.node.value) if isinstance(thing.node.value, ast.Call) else ""
            return [given] if given else []
        for each in thing.node.decorator_list:
            if isinstance(each, ast.Call) and self._is_maker(each, thing.source):
                name = _given_name(each)
                if name:
                    return [name]
        return _names(thing.name)

    def _read_signature(self, node: _Function, source: Source, taken: _Taken) -> None:
        """Read the parameters of a typer command."""
        spec = node.args
        both = [*spec.posonlyargs, *spec.args]
        # ast aligns defaults to the right.
        defaults = [None] * (len(both) - len(spec.defaults))
        pairs = [*zip(both, [*defaults, *spec.defaults], strict=True)]
        pairs += [*zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
        for parameter, default in pairs:
            read = typer_parameter(parameter, default, source)
            if read is not None:
                taken.add(read)


def _called_name(node: ast.expr) -> ast.expr:
    """Return what a decorator names, without the arguments that it gives."""
    return node.func if isinstance(node, ast.Call) else node


def _main_body(tree: ast.Module) -> ast.Module:
    """Return what a module does when it is run as a script."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return ast.Module(node.body, [])
    return ast.Module([node for node in tree.body if isinstance(node, ast.Expr)], [])


def _given_name(call: ast.Call) -> str:
    name = literal(call.args[0]) if call.args else literal(keyword(call, "name"))
    return name if isinstance(name, str) else ""


def _names(function: str) -> list[str]:
    """Return the words that may call a function's command: versions of click differ."""
    dashed = function.lower().replace("_", "-")
    stripped = [dashed.removesuffix(each) for each in _SUFFIXES if dashed.endswith(each)]
    return [dashed, *stripped]

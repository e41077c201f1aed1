"""Reads what a program takes that is built with click or typer, from decorators as text.

A group's commands are looked for in every module that its own module leads to. Whatever could add
a command or an option unseen makes the command open, and an open command refutes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.click_options import (
    STANDARD_OPTIONS,
    click_argument,
    click_option,
    keyword,
    literal,
    typer_parameter,
)
from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MOST_MODULES = 300
_MOST_DEPTH = 8
_MAKERS = frozenset({"click.command", "click.group", "rich_click.command", "rich_click.group"})
_PASSING = ("pass_context", "pass_obj", "pass_meta_key")
_HARMLESS = frozenset(
    {"functools.wraps", "staticmethod", "functools.lru_cache", "functools.cache"}
    | {"typing.no_type_check", "contextlib.contextmanager"}
)
_LOOSE_SETTINGS = ("ignore_unknown_options", "allow_extra_args", "token_normalize_func")
_LOADERS = ("importlib", "pkgutil", "entry_points", "__import__")
_SUFFIXES = ("-command", "-cmd", "-group", "-grp")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Thing(NamedTuple):
    """Is a command, a group or a typer app: a decorated function, or an assignment."""

    source: Source
    name: str
    node: FunctionNode | ast.Assign | ast.AnnAssign

    @property
    def key(self) -> tuple[str, int]:
        return self.source.path, self.node.lineno

    @property
    def place(self) -> str:
        return f"{self.source.path}:{self.node.lineno}"


def read_click(path: str, function: str, sources: Sources, python: PythonIndex) -> Command | None:
    """Returns what a program takes; None where it is none of click's or typer's.

    Args:
        path: The source that begins it.
        function: What is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    if source is None:
        return None
    return _Reader(sources, python).read(source, function)


class _Reader:
    def __init__(self, sources: Sources, python: PythonIndex) -> None:
        self._sources = sources
        self._python = python
        self._reached: list[Source] = []
        self._things: dict[tuple[str, str], _Thing | None] = {}

    def read(self, source: Source, function: str) -> Command | None:
        """Returns what a script, or a function of a module, takes."""
        thing = self._start(source, function)
        if thing is None:
            return None
        self._reached = list(self._reach([source, thing.source]))
        return self._command(thing, "", 0)

    def _start(self, source: Source, function: str) -> _Thing | None:
        if function:
            found = self._thing(function, source)
            if found is not None:
                return found
            node = self._function(function, source)
            return None if node is None else self._called(node[0].body, node[1])
        return self._called(_main_body(source.tree), source)

    def _called(self, body: list[ast.stmt], source: Source) -> _Thing | None:
        """Returns the one command that statements call: `cli()`, `cli.main()`, `main()`."""
        found: dict[tuple[str, int], _Thing] = {}
        for statement in body:
            for node in all_nodes(statement):
                if not isinstance(node, ast.Call):
                    continue
                func = node.func
                if isinstance(func, ast.Attribute) and func.attr == "main":
                    func = func.value
                name = ast.unparse(func)
                thing = self._thing(name, source)
                if thing is None and isinstance(func, ast.Name):
                    inner = self._function(name, source)
                    if inner is not None and inner[0].body is not body:
                        thing = self._direct_call(inner[0], inner[1])
                if thing is not None:
                    found[thing.key] = thing
        return next(iter(found.values())) if len(found) == 1 else None

    def _direct_call(self, node: FunctionNode, source: Source) -> _Thing | None:
        """Returns the command that a plain function calls by its name."""
        found: dict[tuple[str, int], _Thing] = {}
        for each in all_nodes(node):
            if isinstance(each, ast.Call):
                thing = self._thing(ast.unparse(each.func), source)
                if thing is not None:
                    found[thing.key] = thing
        return next(iter(found.values())) if len(found) == 1 else None

    # What a name is

    def _function(self, name: str, source: Source) -> tuple[FunctionNode, Source] | None:
        for node in source.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                return node, source
        if not all(part.isidentifier() for part in name.split(".")):
            return None
        found = self._python.find_in(source.path, name)
        other = self._sources.get(found.path) if found.path and found.exists else None
        if other is None or found.line is None:
            return None
        node = other.definitions.get(found.line)
        return None if node is None or isinstance(node, ast.ClassDef) else (node, other)

    def _assigned(
        self, name: str, source: Source
    ) -> tuple[ast.Assign | ast.AnnAssign, Source] | None:
        """Returns the one assignment that gives a name its value."""
        found = [each for each in source.tree.body if _assigns(each, name)]
        if len(found) == 1:
            node = found[0]
            return (node, source) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if found or not all(part.isidentifier() for part in name.split(".")):
            return None
        other = self._python.find_in(source.path, name)
        target = self._sources.get(other.path) if other.path and other.exists else None
        if target is None or target is source:
            return None
        for each in target.tree.body:
            if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.lineno == other.line:
                return each, target
        return None

    def _thing(self, name: str, source: Source) -> _Thing | None:
        """Returns the command, group or app that a name stands for."""
        head = name.partition(".")[0]
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
            is_one = any(self._is_maker(each, where) for each in node.decorator_list)
            return _Thing(where, node.name, node) if is_one else None
        assigned = self._assigned(name, source)
        if assigned is None:
            return None
        node, where = assigned
        value = node.value
        if isinstance(value, ast.Call) and where.dotted(value.func) in (
            "typer.Typer",
            "click.Group",
        ):
            return _Thing(where, name.rpartition(".")[2], node)
        return None

    def _is_maker(self, decorator: ast.expr, source: Source) -> bool:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        if source.dotted(func) in _MAKERS:
            return True
        if isinstance(func, ast.Attribute) and func.attr in ("command", "group"):
            return self._thing(ast.unparse(func.value), source) is not None
        return False

    def _reach(self, starts: list[Source]) -> Iterator[Source]:
        """Yields the modules that others lead to by imports, as far as they speak of click."""
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
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for each in node.names:
                    if isinstance(node, ast.Import) and "." in each.name:
                        yield from self._module_path(each.name)
                    name = each.asname or each.name.partition(".")[0]
                    origin = self._sources.origin(name, source)
                    if origin is not None:
                        yield origin.path
                    if isinstance(node, ast.ImportFrom):
                        yield from self._re_exported(name, origin, source)

    def _module_path(self, name: str) -> Iterator[str]:
        found = self._python.find(name)
        if found.path and found.path.endswith(".py"):
            yield found.path

    def _re_exported(self, name: str, origin: Source | None, source: Source) -> Iterator[str]:
        """Yields where a name of a package really stands."""
        if origin is not None and origin.path.endswith("/__init__.py") and name != "*":
            found = self._python.find_in(source.path, name)
            if found.path and found.path.endswith(".py"):
                yield found.path

    # What it takes

    def _command(self, thing: _Thing, name: str, depth: int) -> Command:
        if depth > _MOST_DEPTH:
            return Command(name, is_open=True, why_open="its commands go too deep")
        if not isinstance(thing.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self._app(thing, name, depth)
        maker = next(
            each for each in thing.node.decorator_list if self._is_maker(each, thing.source)
        )
        return self._made_by(maker, thing.source, thing, name, depth)

    def _made_by(
        self, maker: ast.expr, source: Source, thing: _Thing, name: str, depth: int
    ) -> Command:
        """Returns the command that ``maker``, of the module ``source``, makes of a function."""
        assert isinstance(thing.node, (ast.FunctionDef, ast.AsyncFunctionDef)), "it is a function"
        if self._is_typer(maker, source):
            return self._typer_command(maker, thing.node, thing.source, name)
        taken = _Taken()
        for each in thing.node.decorator_list:
            if each is not maker:
                self._decorator(each, thing.source, taken, 0)
        if isinstance(maker, ast.Call):
            self._settings(maker, source, taken)
        func = maker.func if isinstance(maker, ast.Call) else maker
        is_group = isinstance(func, ast.Attribute) and func.attr == "group"
        is_group = is_group or source.dotted(func).endswith(".group")
        inner = self._children(thing, taken, depth) if is_group else None
        return taken.command(name, thing.place, inner)

    def _is_typer(self, maker: ast.expr, source: Source) -> bool:
        func = maker.func if isinstance(maker, ast.Call) else maker
        if not isinstance(func, ast.Attribute):
            return False
        owner = self._thing(ast.unparse(func.value), source)
        if owner is None or isinstance(owner.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        value = owner.node.value
        return isinstance(value, ast.Call) and owner.source.dotted(value.func) == "typer.Typer"

    def _settings(self, maker: ast.Call, source: Source, taken: _Taken) -> None:
        for each in maker.keywords:
            if each.arg is None or each.arg in ("cls", "chain"):
                taken.open("its group is of a class of its own")
            elif each.arg == "context_settings":
                node = each.value
                if isinstance(node, ast.Name):
                    assigned = self._assigned(node.id, source)
                    node = assigned[0].value if assigned is not None else None
                shown = "ignore_unknown_options" if node is None else ast.unparse(node)
                if any(word in shown for word in _LOOSE_SETTINGS):
                    taken.open("it lets unknown options pass")

    def _decorator(self, node: ast.expr, source: Source, taken: _Taken, depth: int) -> None:
        """Reads what one decorator adds."""
        func = node.func if isinstance(node, ast.Call) else node
        dotted = source.dotted(func)
        name = dotted.rpartition(".")[2]
        if dotted in _HARMLESS or name in _PASSING:
            return
        if dotted.startswith(("click.", "rich_click.")) and isinstance(node, ast.Call):
            self._click_call(name, node, source, taken)
        elif depth > 3:
            taken.open("its decorators go too deep")
        else:
            self._own_decorator(node, func, source, taken, depth)

    def _click_call(self, name: str, node: ast.Call, source: Source, taken: _Taken) -> None:
        if name == "option":
            option = click_option(node, source, self._value_of)
            if option is None:
                taken.open("an option is not written out")
            else:
                taken.options.append(option)
        elif name == "argument":
            argument = click_argument(node, source, self._value_of)
            if argument is None:
                taken.open("an argument is not written out")
            else:
                taken.arguments.append(argument)
        elif name in STANDARD_OPTIONS:
            names = [literal(each) for each in node.args]
            given = tuple(each for each in names if isinstance(each, str) and each[:1] == "-")
            option = STANDARD_OPTIONS[name]
            taken.options.append(option._replace(names=given) if given else option)
        else:
            taken.open(f"its decorator click.{name} is unknown")

    def _own_decorator(
        self, node: ast.expr, func: ast.expr, source: Source, taken: _Taken, depth: int
    ) -> None:
        """Reads a decorator that the repository defines, which may add several options."""
        shown = ast.unparse(func)
        assigned = self._assigned(shown, source)
        if assigned is not None and isinstance(assigned[0].value, ast.Call):
            self._decorator(assigned[0].value, assigned[1], taken, depth + 1)
            return
        found = self._function(shown, source)
        if found is None:
            taken.open(f"its decorator {shown} is unknown")
            return
        before = len(taken.options) + len(taken.arguments)
        if isinstance(node, ast.Call):
            for each in (*node.args, *(one.value for one in node.keywords)):
                self._options_within(each, source, taken, depth)
        for statement in found[0].body:
            self._options_within(statement, found[1], taken, depth)
        has_loop = any(isinstance(each, (ast.For, ast.While)) for each in all_nodes(found[0]))
        if has_loop and before == len(taken.options) + len(taken.arguments):
            taken.open(f"its decorator {shown} adds what cannot be read")

    def _options_within(self, root: ast.AST, source: Source, taken: _Taken, depth: int) -> None:
        """Reads every option that is declared somewhere within a piece of code."""
        if depth > _MOST_DEPTH:
            taken.open("its decorators go too deep")
            return
        if isinstance(root, ast.Name):
            assigned = self._assigned(root.id, source)
            if assigned is not None and assigned[0].value is not None:
                self._options_within(assigned[0].value, assigned[1], taken, depth + 1)
            return
        for node in all_nodes(root):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for each in node.decorator_list:
                    self._inner_decorator(each, source, taken, depth)
            elif isinstance(node, ast.For):
                for each in all_nodes(node.iter):
                    if isinstance(each, ast.Name):
                        self._options_within(each, source, taken, depth + 1)
            if not isinstance(node, ast.Call):
                continue
            dotted = source.dotted(node.func)
            if dotted in ("click.option", "click.argument"):
                self._click_call(dotted.rpartition(".")[2], node, source, taken)
            elif isinstance(node.func, ast.Name) and depth < 3:
                inner = self._function(node.func.id, source)
                if inner is not None and inner[1].mentions("click"):
                    for statement in inner[0].body:
                        self._options_within(statement, inner[1], taken, depth + 1)

    def _inner_decorator(self, node: ast.expr, source: Source, taken: _Taken, depth: int) -> None:
        """Reads a decorator of the function that a decorator returns."""
        func = node.func if isinstance(node, ast.Call) else node
        if not source.dotted(func).startswith(("click.", "rich_click.")):
            self._decorator(node, source, taken, depth + 1)

    def _value_of(self, node: ast.expr, source: Source) -> ast.expr | None:
        """Returns what a name, or a list made from a name, stands for."""
        makers = ("list", "sorted", "tuple")
        if isinstance(node, ast.Call) and source.dotted(node.func) in makers and node.args:
            node = node.args[0]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value if node.func.attr == "keys" else node
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return node
        assigned = self._assigned(ast.unparse(node), source)
        return None if assigned is None else assigned[0].value

    # Groups

    def _children(self, group: _Thing, taken: _Taken, depth: int) -> dict[str, Command]:
        found: dict[str, Command] = {}
        for source in self._reached:
            if any(source.mentions(each) for each in _LOADERS) and source.path == group.source.path:
                taken.open("its module loads others by name")
            for node in all_nodes(source.tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._decorated_child(node, source, group, found, depth)
                elif isinstance(node, ast.Call):
                    self._called_child(node, source, group, found, taken, depth)
        return found

    def _is(self, node: ast.expr, source: Source, group: _Thing) -> bool:
        thing = self._thing(ast.unparse(node), source)
        return thing is not None and thing.key == group.key

    def _decorated_child(
        self,
        node: FunctionNode,
        source: Source,
        group: _Thing,
        found: dict[str, Command],
        depth: int,
    ) -> None:
        for each in node.decorator_list:
            func = each.func if isinstance(each, ast.Call) else each
            if not (isinstance(func, ast.Attribute) and func.attr in ("command", "group")):
                continue
            if self._is(func.value, source, group):
                name = _given_name(each) if isinstance(each, ast.Call) else ""
                words = [name] if name else _names(node.name)
                child = self._command(_Thing(source, node.name, node), words[0], depth + 1)
                found.update(dict.fromkeys(words, child))

    def _called_child(
        self,
        node: ast.Call,
        source: Source,
        group: _Thing,
        found: dict[str, Command],
        taken: _Taken,
        depth: int,
    ) -> None:
        func = node.func
        if isinstance(func, ast.Call):
            self._applied_child(func, node, source, group, found, taken, depth)
            return
        if isinstance(func, ast.Attribute) and self._is(func.value, source, group):
            if func.attr in ("add_command", "add_typer"):
                self._added_child(node, source, found, taken, depth)
            elif func.attr in ("register_commands", "list_commands", "add_source"):
                taken.open("its commands are registered in a way of their own")
            return
        is_adding = isinstance(func, ast.Attribute) and func.attr in (
            "add_command", "add_typer", "invoke", "append",
        )  # fmt: skip
        for each in node.args:
            if isinstance(each, ast.Name) and not is_adding and self._is(each, source, group):
                taken.open(f"{ast.unparse(func)[:40]} is given it")

    def _applied_child(
        self,
        maker: ast.Call,
        node: ast.Call,
        source: Source,
        group: _Thing,
        found: dict[str, Command],
        taken: _Taken,
        depth: int,
    ) -> None:
        """Reads `group.command("name")(function)`."""
        func = maker.func
        if not (isinstance(func, ast.Attribute) and func.attr in ("command", "group")):
            return
        if not self._is(func.value, source, group):
            return
        target = self._function(ast.unparse(node.args[0]), source) if node.args else None
        if target is None:
            taken.open("a command that is added to it is unknown")
            return
        name = _given_name(maker)
        words = [name] if name else _names(target[0].name)
        thing = _Thing(target[1], target[0].name, target[0])
        child = self._made_by(maker, source, thing, words[0], depth + 1)
        found.update(dict.fromkeys(words, child))

    def _added_child(
        self,
        node: ast.Call,
        source: Source,
        found: dict[str, Command],
        taken: _Taken,
        depth: int,
    ) -> None:
        thing = self._thing(ast.unparse(node.args[0]), source) if node.args else None
        given = keyword(node, "name") or (node.args[1] if len(node.args) > 1 else None)
        name = literal(given)
        if thing is None or (given is not None and not isinstance(name, str)):
            taken.open("a command that is added to it is unknown")
            return
        words = [name] if isinstance(name, str) else self._own_names(thing)
        if not words:
            taken.open("a command that is added to it has no plain name")
        child = self._command(thing, words[0] if words else "", depth + 1)
        found.update(dict.fromkeys(words, child))

    def _own_names(self, thing: _Thing) -> list[str]:
        if not isinstance(thing.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return []
        for each in thing.node.decorator_list:
            if isinstance(each, ast.Call) and self._is_maker(each, thing.source):
                name = _given_name(each)
                if name:
                    return [name]
        return _names(thing.name)

    # typer

    def _app(self, thing: _Thing, name: str, depth: int) -> Command:
        taken = _Taken()
        assert isinstance(thing.node, (ast.Assign, ast.AnnAssign)), "functions are read elsewhere"
        value = thing.node.value
        is_typer = isinstance(value, ast.Call) and thing.source.dotted(value.func) == "typer.Typer"
        if isinstance(value, ast.Call):
            self._settings(value, thing.source, taken)
            if not is_typer and (value.args or keyword(value, "commands") is not None):
                taken.open("its commands are given when it is made")
        callbacks = list(self._callbacks(thing))
        for node, source in callbacks:
            self._typer_parameters(node, source, taken)
        if is_typer:
            taken.options += [Option(("--install-completion",), num_values=None)]
            taken.options += [Option(("--show-completion",), num_values=None)]
        inner = self._children(thing, taken, depth)
        if is_typer and len({id(each) for each in inner.values()}) == 1 and not callbacks:
            only = next(iter(inner.values()))
            if only.commands is None:
                options = (*only.options, *taken.options)
                why = only.why_open or taken.why_open
                return only._replace(name=name, options=options, is_open=bool(why), why_open=why)
        return taken.command(name, thing.place, inner)

    def _callbacks(self, app: _Thing) -> Iterator[tuple[FunctionNode, Source]]:
        for source in self._reached:
            for node in all_nodes(source.tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    for each in node.decorator_list:
                        func = each.func if isinstance(each, ast.Call) else each
                        if not isinstance(func, ast.Attribute) or func.attr != "callback":
                            continue
                        if self._is(func.value, source, app):
                            yield node, source

    def _typer_command(
        self, maker: ast.expr, node: FunctionNode, source: Source, name: str
    ) -> Command:
        taken = _Taken()
        if isinstance(maker, ast.Call):
            self._settings(maker, source, taken)
        for each in node.decorator_list:
            if each is not maker:
                taken.open(f"its decorator {ast.unparse(each)[:40]} may change its parameters")
        self._typer_parameters(node, source, taken)
        return taken.command(name, f"{source.path}:{node.lineno}", None)

    def _typer_parameters(self, node: FunctionNode, source: Source, taken: _Taken) -> None:
        spec = node.args
        both = [*spec.posonlyargs, *spec.args]
        defaults: list[ast.expr | None] = [None] * (len(both) - len(spec.defaults))
        pairs = [*zip(both, [*defaults, *spec.defaults], strict=True)]
        pairs += [*zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
        for parameter, default in pairs:
            read = typer_parameter(parameter, default, source)
            if isinstance(read, str):
                taken.open(read)
            elif isinstance(read, Option):
                taken.options.append(read)
            elif read is not None:
                taken.arguments.append(read)


class _Taken:
    """Collects what a command takes."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.arguments: list[Argument] = []
        self.why_open = ""

    def open(self, reason: str) -> None:
        """Notes that it may take more; the first reason counts."""
        self.why_open = self.why_open or reason

    def command(self, name: str, place: str, inner: dict[str, Command] | None) -> Command:
        """Returns it as a command."""
        options = (*self.options, Option(("--help",)))
        why = self.why_open
        return Command(name, "", options, tuple(self.arguments), inner, bool(why), why, place)


def _main_body(tree: ast.Module) -> list[ast.stmt]:
    """Returns what a module does when it is run as a script."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return node.body
    return [node for node in tree.body if isinstance(node, ast.Expr)]


def _assigns(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
    )


def _given_name(call: ast.Call) -> str:
    name = literal(call.args[0]) if call.args else literal(keyword(call, "name"))
    return name if isinstance(name, str) else ""


def _names(function: str) -> list[str]:
    """Returns the words that may call a function's command: versions of click differ."""
    dashed = function.lower().replace("_", "-")
    stripped = [dashed.removesuffix(each) for each in _SUFFIXES if dashed.endswith(each)]
    return [dashed, *stripped]

"""Read what a click or typer program takes from its decorators and the calls that are written out.

A group has the commands that its own module gives it, by `@group.command()` or `add_command` with a
name. What is not a literal declaration, or a use of the group elsewhere, makes the command open,
and an open command refutes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scaffold.analysis.cli.click_options import (
    STANDARD_OPTIONS,
    click_argument,
    click_option,
    standard_option,
    typer_parameters,
)
from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, Declared, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MAKERS = frozenset({"click.command", "click.group", "rich_click.command", "rich_click.group"})
_APPS = frozenset({"typer.Typer"})
_HARMLESS = frozenset({"pass_context", "pass_obj", "pass_meta_key", "wraps", "staticmethod"})
_COMPLETION = ("install", "show")
_ADDERS = ("add_command", "add_typer")
_LOOSE_SETTINGS = ("ignore_unknown_options", "allow_extra_args", "token_normalize_func")
_LOADERS = ("pkgutil", "entry_points")
_SUFFIXES = ("-command", "-cmd", "-group", "-grp")
# Tests and examples are no part of the program.
_BESIDE = lazy_re(r"(?:^|/)(?:(?:tests?|docs?|examples?|benchmarks?)/|test_|conftest)")
_IMPORTS = (
    r"\bimport\s+(?:\([^)]*|[^\n(]*)\b{module}\b"
    r"|(?:\b{module}|\.)\s+import\s+(?:\([^)]*|[^\n(]*)(?:\*|\b{name}\b)"
)
_USES = (
    r"\b{name}\.(?:commands?|group|callback|result_callback|add_\w+)\b"
    r"|(?<!invoke)(?<!add_command)(?<!add_typer)(?<!import )\((?:[\w.]+\.)?{name}\s*[,)]"
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.Assign


class _Made(Declared):
    """A command, a group or a typer app.

    Args:
        node: The decorated function, or the assignment of an app.
        maker: The decorator, or the call that is assigned.
        source: Where it is defined.
    """

    def __init__(self, node: _Definition, maker: ast.expr, source: Source) -> None:
        super().__init__(f"{source.path}:{node.lineno}")
        self.node = node
        self.maker = maker
        self.source = source
        self.is_app = isinstance(node, ast.Assign)
        self.name = _name_of(node)

    def words(self) -> list[str]:
        """Return the words that call it; several, as versions of click differ."""
        given = None
        if isinstance(self.maker, ast.Call):
            given = literal(self.maker.args[0] if self.maker.args else keyword(self.maker, "name"))
        if isinstance(given, str):
            return [given]
        dashed = self.name.lower().replace("_", "-")
        return [dashed, *(dashed.removesuffix(each) for each in _SUFFIXES if dashed.endswith(each))]

    def add_signature(self, node: _Function) -> None:
        """Add the parameters of a function that typer runs."""
        if len(node.decorator_list) > 1:
            # typer reads the signature of what the other decorators return.
            self.add("another decorator may change its parameters")
        for each in typer_parameters(node, self.source):
            self.add(each)


def read_click(path: str, function: str, sources: Sources, python: PythonIndex) -> Command | None:
    """Return what a program takes; None where it is none of click's or typer's.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    if source is None:
        return None
    reader = _Reader(path, sources, python)
    made = reader.find(function, source) if function else None
    if made is None:
        body, where = reader.definition(function, source)
        made = reader.called(body if function else _main_body(source.tree), where, 0)
    return None if made is None else made.command()


class _Reader:
    def __init__(self, entry: str, sources: Sources, python: PythonIndex) -> None:
        self._entry = entry
        self._sources = sources
        self._python = python
        self._made: dict[ast.AST, _Made] = {}

    def called(self, body: ast.AST | None, source: Source, depth: int) -> _Made | None:
        """Return the one command that code calls: `cli()`, `cli.main()`, `main()`."""
        found: set[_Made] = set()
        for node in all_nodes(body) if body is not None else ():
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).removesuffix(".main")
                made = self.find(name, source)
                # One level of `main()` around the command is usual; deeper calls prove little.
                if made is None and depth == 0 and isinstance(node.func, ast.Name):
                    made = self.called(*self.definition(name, source), 1)
                found |= {made} if made is not None else set()
        return found.pop() if len(found) == 1 else None

    def definition(self, name: str, source: Source) -> tuple[_Definition | None, Source]:
        """Return the function or the assignment that a name stands for, and its source."""
        where, line = source, 0
        if name.partition(".")[0] in source.imports:
            there = self._python.find_in(source.path, name)
            found = self._sources.get(there.path) if there.path and there.exists else None
            where, line = (source, -1) if found is None else (found, there.line or -1)
        for node in where.tree.body:
            if not isinstance(node, (*FUNCTIONS, ast.Assign)):
                continue
            makers = [] if isinstance(node, ast.Assign) else node.decorator_list
            lines = {node.lineno, *(each.lineno for each in makers)}
            if line in lines if line else name == _name_of(node):
                return node, where
        return None, source

    def find(self, name: str, source: Source) -> _Made | None:
        """Return the command, group or app that a name means."""
        node, where = self.definition(name, source)
        if node is None:
            return None
        is_assigned = isinstance(node, ast.Assign)
        makers, known = ([node.value], _APPS) if is_assigned else (node.decorator_list, _MAKERS)
        for each in makers:
            if where.dotted(_called_name(each)) in known or self._owner(each, where):
                return self._read(node, each, where)
        return None

    def _owner(self, maker: ast.expr, source: Source) -> _Made | None:
        """Return the group of a decorator `@group.command()`."""
        func = _called_name(maker)
        if not isinstance(func, ast.Attribute) or func.attr not in ("command", "group"):
            return None
        return self.find(ast.unparse(func.value), source)

    def _read(self, node: _Definition, maker: ast.expr, source: Source) -> _Made:
        if node in self._made:
            return self._made[node]
        made = self._made[node] = _Made(node, maker, source)
        made.add(Option(("--help",)))
        owner = self._owner(maker, source)
        if isinstance(maker, ast.Call):
            _read_settings(maker, made)
        if isinstance(node, FUNCTIONS) and owner is not None and owner.is_app:
            made.add_signature(node)
        elif isinstance(node, FUNCTIONS):
            for each in node.decorator_list:
                if each is not maker:
                    self._read_decorator(each, made)
        if made.is_app or ast.unparse(_called_name(maker)).endswith("group"):
            self._read_group(made)
        return made

    def _read_decorator(self, node: ast.expr, made: _Made) -> None:
        """Read `@click.option(...)` and the like, or a name that one of them is assigned to."""
        call, where = node, made.source
        if not isinstance(node, ast.Call):
            assigned, where = self.definition(ast.unparse(node), where)
            call = assigned.value if isinstance(assigned, ast.Assign) else node
        package, _, name = where.dotted(_called_name(call)).rpartition(".")
        is_own = package in ("click", "rich_click")
        if is_own and name in STANDARD_OPTIONS:
            made.add(standard_option(name, call))
        elif is_own and name in ("option", "argument") and isinstance(call, ast.Call):
            read = click_option if name == "option" else click_argument
            made.add(read(call) or "a parameter is not written out")
        elif name not in _HARMLESS and not self._read_shared(node, made):
            made.add(f"its decorator {ast.unparse(_called_name(node))} is unknown")

    def _read_shared(self, node: ast.expr, made: _Made) -> bool:
        """Read a function that gives several options: `f = click.option("-v")(f)`, `return f`."""
        shared, _ = self.definition(ast.unparse(node), made.source)
        if not isinstance(shared, FUNCTIONS):
            return False
        given = [each.func for each in all_nodes(shared) if isinstance(each, ast.Call)]
        decorators = [each for each in given if isinstance(each, ast.Call)]
        for each in decorators:
            if ast.unparse(_called_name(each)) != shared.name:
                self._read_decorator(each, made)
        return bool(decorators)

    def _read_group(self, group: _Made) -> None:
        """Read what its module, and those that import it, do with a group."""
        commands: dict[str, Declared] = {}
        group.commands = commands
        if any(map(group.source.mentions, _LOADERS)):
            group.add("its module loads others by name")
        has_callback = self._read_uses(group, group.name, group.source, commands)
        # To look into every file is dear, and tells nothing of a group that is open.
        for source, name in self._elsewhere(group) if not group.why_open else ():
            has_callback |= self._read_uses(group, name, source, commands)
        if group.is_app:
            _finish_app(group, [] if has_callback else [*commands.values()])

    def _read_uses(
        self, group: _Made, name: str, source: Source, commands: dict[str, Declared]
    ) -> bool:
        """Read what a module does with a group that it calls ``name``.

        Returns:
            Whether it gives it a callback.
        """
        nodes = all_nodes(source.tree)
        names = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
        uses: set[ast.AST] = {each for each in names if isinstance(each.ctx, ast.Load)}
        has_callback = False
        for node in nodes if uses else ():
            if isinstance(node, ast.Call):
                self._read_call(node, group, source, uses, commands)
            if not isinstance(node, FUNCTIONS):
                continue
            for each in node.decorator_list:
                func = _called_name(each)
                if not isinstance(func, ast.Attribute) or func.value not in uses:
                    continue
                uses -= {func.value}
                if func.attr in ("command", "group"):
                    child = self._read(node, each, source)
                    commands |= dict.fromkeys(child.words(), child)
                elif func.attr == "callback" and group.is_app:
                    has_callback = True
                    group.add_signature(node)
                else:
                    group.add(f"its {func.attr} is used")
        if uses:
            group.add("it is used in a way of its own")
        return has_callback

    def _read_call(
        self,
        node: ast.Call,
        group: _Made,
        source: Source,
        uses: set[ast.AST],
        commands: dict[str, Declared],
    ) -> None:
        """Read `group.add_command(...)`; take what changes nothing out of the uses."""
        func = node.func
        method = func.attr if isinstance(func, ast.Attribute) else ""
        if isinstance(func, ast.Attribute) and func.value in uses and method in _ADDERS:
            child = self.find(ast.unparse(node.args[0]), source) if node.args else None
            given = keyword(node, "name") or (node.args[1] if len(node.args) > 1 else None)
            name = literal(given)
            if child is None and isinstance(name, str):
                commands[name] = unread = Declared(f"{source.path}:{node.lineno}")
                unread.add("what is added by this name is unknown")
            elif child is None or (given is not None and not isinstance(name, str)):
                group.add("a command that is added to it is unknown")
            else:
                commands |= dict.fromkeys(child.words() if given is None else [name], child)
        if isinstance(func, ast.Attribute) and method in (*_ADDERS, "main"):
            uses -= {func.value}
        # It is called, added to another group, or invoked by a context.
        uses -= {func}
        if method in (*_ADDERS, "invoke"):
            uses -= {*node.args}

    def _elsewhere(self, group: _Made) -> Iterator[tuple[Source, str]]:
        """Yield the other modules that may give a group commands, with what they call it."""
        path, name = group.source.path, group.name
        module = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        imports = re.compile(_IMPORTS.format(module=re.escape(module), name=name))
        for other in self._sources.paths:
            if other == path or (_BESIDE.search(other) and other != self._entry):
                continue
            text = self._sources.text(other)
            if name not in text or not imports.search(text):
                continue
            source = self._sources.get(other)
            for each in (name, *re.findall(rf"\b{name}\s+as\s+(\w+)", text)):
                if not re.search(_USES.format(name=each), text):
                    continue
                node = self.definition(each, source)[0] if source is not None else None
                if node is group.node and source is not None:
                    yield source, each
                elif node is None:
                    group.add("another module may give it commands")


def _finish_app(app: _Made, commands: list[Declared]) -> None:
    """Add what every typer app takes; one command of an app runs without its name."""
    for each in _COMPLETION:
        app.add(Option((f"--{each}-completion",), num_values=None))
    if len({*commands}) == 1 and commands[0].commands is None:
        app.commands = None
        app.options += commands[0].options
        app.arguments += commands[0].arguments
        app.why_open = app.why_open or commands[0].why_open


def _read_settings(maker: ast.Call, made: _Made) -> None:
    for each in maker.keywords:
        if each.arg is None or each.arg in ("cls", "chain", "commands", "params"):
            made.add("its group is of a class of its own")
        elif each.arg == "context_settings":
            shown = ast.unparse(each.value)
            is_plain = isinstance(each.value, (ast.Dict, ast.Call))
            if not is_plain or any(word in shown for word in _LOOSE_SETTINGS):
                made.add("it may let unknown options pass")


def _name_of(node: _Definition) -> str:
    """Return the one name that a statement defines, or ""."""
    if not isinstance(node, ast.Assign):
        return node.name
    first = node.targets[0]
    return first.id if isinstance(first, ast.Name) and len(node.targets) == 1 else ""


def _called_name(node: ast.expr) -> ast.expr:
    """Return what a decorator names, without the arguments that it gives."""
    return node.func if isinstance(node, ast.Call) else node


def _main_body(tree: ast.Module) -> ast.Module:
    """Return what a module does when it is run as a script."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return ast.Module(node.body, [])
    return ast.Module([node for node in tree.body if isinstance(node, ast.Expr)], [])

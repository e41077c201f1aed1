"""One Python source as its users see it: who writes which name where, and what it means there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.python.annotations import sides_of
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.scopes import (
    Bound,
    Function,
    bindings_of,
    own_nodes,
    parameters,
)
from scaffold.analysis.python.statements import all_nodes, dotted_name
from scaffold.syntax import parse
from scaffold.vcs.review.guards import Guards


class Mention(NamedTuple):
    """A place that names something.

    Args:
        node: The expression; of an import the statement.
        word: The last part of the name.
        line: Its line.
        call: The call whose function it is, or None.
        taken: Of an import, the name that is taken; else None.
    """

    node: ast.expr | ast.ImportFrom
    word: str
    line: int
    call: ast.Call | None = None
    taken: str | None = None


@dataclass
class SourceView:
    """What the names of one source mean.

    Args:
        path: Its path.
        tree: Its tree.
        index: The names of the repository.
        sought: The files with definitions whose users are sought.
    """

    path: str
    tree: ast.Module
    index: PythonIndex
    sought: frozenset[str] = frozenset()

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return all_nodes(self.tree)

    @cached_property
    def _scopes(self) -> list[Function | ast.ClassDef]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [node for node in self._nodes if isinstance(node, kinds)]

    @cached_property
    def _bound(self) -> dict[int, dict[str, str | None]]:
        return {}

    def mentions(self, words: frozenset[str]) -> Iterator[Mention]:
        """Yield the places that name one of some words, imports among them."""
        calls = {id(node.func): node for node in self._nodes if isinstance(node, ast.Call)}
        aliases = {
            each.asname: each.name.rpartition(".")[2]
            for node in self._nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for each in node.names
            if each.asname
        }
        for node in self._nodes:
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    if each.name in words:
                        yield Mention(node, each.name, node.lineno, None, each.name)
            elif isinstance(node, (ast.Name, ast.Attribute)):
                word = node.id if isinstance(node, ast.Name) else node.attr
                # Under `import x as y` the text has y where x is meant.
                if isinstance(node, ast.Name) and word not in words:
                    word = aliases.get(word, word)
                if word in words and isinstance(node.ctx, ast.Load):
                    # A chain over several lines has its last name on the last of them.
                    line = node.end_lineno or node.lineno
                    yield Mention(node, word, line, calls.get(id(node)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                word = _last_of_dotted(node.value)
                if word in words:
                    yield Mention(node, word, node.lineno)

    def meaning(self, mention: Mention) -> tuple[Found, ...]:
        """Return what a place names; nothing where that shows only while it runs."""
        node = mention.node
        if isinstance(node, ast.ImportFrom):
            return tuple(self._taken(node, mention.taken or ""))
        if isinstance(node, ast.Constant):
            return (self.index.find(str(node.value).replace(":", ".")),)
        if isinstance(node, ast.Name) and node.id not in self._all_imported | self._top_names:
            return ()
        dotted = self._dotted(node)
        return () if dotted is None else (self._find(dotted),)

    def imports(self) -> Iterator[tuple[int, frozenset[str]]]:
        """Yield the line of each import, and the absolute names of modules that it may mean."""
        here = self.index.dotted_names(self.path)
        package = here[0].split(".") if here else []
        package = package if self.path.endswith("__init__.py") else package[:-1]
        for node in self._nodes:
            if isinstance(node, ast.Import):
                yield node.lineno, frozenset(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                # One dot is the package itself.
                lead = package[: len(package) - node.level + 1] if node.level else []
                start = ".".join([*lead, *filter(None, [node.module])])
                names = (f"{start}.{each.name}" for each in node.names)
                yield node.lineno, frozenset({start, *names})

    def inside(self, line: int) -> str:
        """Return the dotted name of the function or class around a line, as seen from outside."""
        names: list[str] = []
        for scope in self._scopes:
            if _holds(scope, line):
                names.append(scope.name)
                # What is inside a function has no name outside of it.
                if not isinstance(scope, ast.ClassDef):
                    break
        return ".".join(names)

    @cached_property
    def guards(self) -> Guards:
        """Where the source expects to fail."""
        return Guards(self._nodes)

    def _taken(self, node: ast.ImportFrom, name: str) -> Iterator[Found]:
        module = self.index.modules.at_path(self.path)
        if module is not None:
            for each in self.index.modules.imported(module, node.level, node.module or ""):
                yield self.index.find_in(each.place, name)

    def _find(self, dotted: str) -> Found:
        if dotted.startswith("/"):  # an absolute name, of an import inside a function
            return self.index.find(dotted[1:])
        first, dot, rest = dotted.partition(".")
        node, taken = self._imported_once.get(first, (None, ""))
        if node is None and self.is_own_only(dotted):
            return Found("undecided", dotted, self.path, evidence="the file defines its own")
        if node is None:
            return self.index.find_in(self.path, dotted)
        # What is imported needs no table of the whole module, which costs more than all else.
        found = list(self._taken(node, f"{taken}{dot}{rest}"))
        sure = (each for each in found if each.exists or each.is_missing)
        return next(sure, Found("undecided", dotted, self.path, evidence="it is from elsewhere"))

    def _dotted(self, node: ast.expr) -> str | None:
        """Return an expression as a name of the module; "/" leads what is absolute."""
        rest: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            rest.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Call):
            made = dotted_name(inner.func)
            head = self._head(made, inner) if made and made[:1].isalpha() and rest else None
            # `Maker().use`: nothing shows what a function returns.
            found = self._find(head) if head else None
            return ".".join([head or "", *rest]) if found and found.kind == "class" else None
        head = self._head(inner.id, inner) if isinstance(inner, ast.Name) else None
        return None if head is None else ".".join([head, *rest])

    def _head(self, dotted: str, node: ast.expr) -> str | None:
        """Return what the first part of a name means, seen from where it is written."""
        first, dot, rest = dotted.partition(".")
        around = [each for each in self._scopes if _holds(each, node.lineno)]
        # The walk lists outer scopes first, and lookup begins with the innermost.
        for scope in reversed(around):
            # Names of a class body are not visible in its methods.
            if isinstance(scope, ast.ClassDef):
                continue
            if id(scope) not in self._bound:
                self._bound[id(scope)] = dict(self._bindings(scope, around))
            bound = self._bound[id(scope)]
            if first in bound:
                head = self._class_made(bound[first])
                return None if head is None else f"{head}{dot}{rest}"
        return dotted

    def _bindings(
        self, scope: Function, around: list[Function | ast.ClassDef]
    ) -> Iterator[tuple[str, str | None]]:
        for each in parameters(scope):
            yield each.name, _type_name(getattr(each.node, "annotation", None))
        plain = [*scope.args.posonlyargs, *scope.args.args]
        owner = around[around.index(scope) - 1] if around.index(scope) else None
        is_static = any(dotted_name(each) == "staticmethod" for each in scope.decorator_list)
        # The first parameter of a method is an instance of its class, or the class.
        if isinstance(owner, ast.ClassDef) and plain and not is_static:
            classes = [each.name for each in around[: around.index(scope)]]
            is_plain = all(isinstance(each, ast.ClassDef) for each in around[: len(classes)])
            yield plain[0].arg, ".".join(classes) if is_plain else None
        stored: dict[str, set[str | None]] = {}
        for node in own_nodes(scope):
            for each in bindings_of(node):
                stored.setdefault(each.name, set()).add(self._meant(each))
        # A comprehension is no scope of its own here: its names hide those around it.
        for node in all_nodes(scope):
            if isinstance(node, ast.comprehension):
                for each in bindings_of(node):
                    stored.setdefault(each.name, {None})
        for name, meant in stored.items():
            # Two bindings leave open which of them a line sees.
            yield name, meant.pop() if len(meant) == 1 else None

    def _meant(self, bound: Bound) -> str | None:
        """Return what a name of a function stands for, ``Name()`` for what a call makes."""
        match bound.node:
            case ast.Import():
                return f"/{bound.dotted}"
            case ast.ImportFrom():
                dotted = self.index.absolute(self.path, bound.dotted)
                return None if dotted is None else f"/{dotted}"
            case ast.AnnAssign(annotation=annotation):
                return _type_name(annotation)
            case ast.Name() if isinstance(bound.value, ast.Call):
                name = dotted_name(bound.value.func)
                return f"{name}()" if name else None
            case _:
                return None

    def _class_made(self, meant: str | None) -> str | None:
        """Return the class that ``Name()`` makes an instance of; anything else as it is."""
        if meant is None or not meant.endswith("()"):
            return meant
        name = meant.removesuffix("()")
        return name if self.index.find_in(self.path, name).kind == "class" else None

    def is_own_only(self, name: str) -> bool:
        """Return whether a name is a function that this file defines, and no definition sought."""
        return name in self._own_functions and self.path not in self.sought

    @cached_property
    def _own_functions(self) -> frozenset[str]:
        """The functions at the module's top that nothing else of the module binds."""
        functions = (each for each in self.tree.body if isinstance(each, Function))
        stored = {
            each.id
            for each in self._nodes
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        return frozenset(each.name for each in functions) - stored - self._all_imported

    @cached_property
    def _imported_once(self) -> dict[str, tuple[ast.ImportFrom, str]]:
        """The names that one ``from ... import`` binds and nothing else does."""
        found: dict[str, tuple[ast.ImportFrom, str]] = {}
        bound = set(self._top_names)
        for node in self._nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for each in node.names:
                    name = (each.asname or each.name).partition(".")[0]
                    if isinstance(node, ast.ImportFrom) and name not in bound:
                        found[name] = node, each.name
                    else:
                        found.pop(name, None)
                    bound.add(name)
        return found

    @cached_property
    def _all_imported(self) -> frozenset[str]:
        kinds = (ast.Import, ast.ImportFrom)
        return frozenset(
            (each.asname or each.name).partition(".")[0]
            for node in self._nodes
            if isinstance(node, kinds)
            for each in node.names
        )

    @cached_property
    def _top_names(self) -> frozenset[str]:
        """The names that the module's own statements bind; stars may bind any."""
        found = {each.name for each in self._scopes}
        for node in self._nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
        return frozenset(found)


def read_view(path: str, text: str, index: PythonIndex) -> SourceView | None:
    """Return the view of a source; None where it cannot be parsed."""
    try:
        return SourceView(path, parse(text), index)
    except SyntaxError:
        return None


def _holds(scope: Function | ast.ClassDef, line: int) -> bool:
    # Since Python 3.8 lineno is that of the def, below the decorators.
    first = min([scope.lineno, *(each.lineno for each in scope.decorator_list)])
    return first <= line <= (scope.end_lineno or scope.lineno)


def _type_name(annotation: ast.expr | None) -> str | None:
    """Return the class that an annotation names, where it is one, or one or None."""
    sides = list(sides_of(annotation))
    return dotted_name(sides[0]) if len(sides) == 1 else None


def _last_of_dotted(text: str) -> str | None:
    """Return the last part of a text that names something: ``pkg.mod:attr``, ``pkg.mod.attr``."""
    # Any word could be a name; only dotted ones are worth the look-up.
    if len(text) > 200 or "." not in text:
        return None
    parts = text.replace(":", ".").split(".")
    return parts[-1] if all(each.isidentifier() for each in parts) else None

"""One Python source as its users see it: who writes which name where, and what it expects."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.python.follower import CALLED, Chain, Follower
from scaffold.analysis.python.guards import Guard, guard_of_call, guard_of_try
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.scopes import Bound, Function, Scope
from scaffold.analysis.python.sources import Source
from scaffold.analysis.python.statements import all_nodes, dotted_name

_LACKS = ("ModuleNotFoundError", "AttributeError", "NameError")
_RAISERS = ("raises", "assertRaises", "assertRaisesRegex", "suppress")
_REPLACERS = ("patch", "setattr", "delattr")

# What mypy and pyright call it.
_SILENCED = re.compile(r"#.*\bignore\[[^]]*\b(call-arg|reportCallIssue)\b")

Lines = tuple[int, int]


class Guards:
    """The lines of one source that expect an error, and the names that it replaces."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._nodes = nodes

    def expects_lack(self, line: int, word: str) -> bool:
        """Return whether a line expects that a name is not there."""
        guards = [guard for guard, span in self._guarded if _is_in(line, [span])]
        is_caught = any(each.covers(kind, word) for each in guards for kind in _LACKS)
        return is_caught or _is_in(line, self._asked.get(word, ()))

    def expects_misfit(self, line: int, word: str) -> bool:
        """Return whether a call may fail there by intent, or calls what the source put there."""
        guards = (guard for guard, span in self._guarded if _is_in(line, [span]))
        # Whoever catches any error does not ask for this one.
        is_caught = any(each.is_either or "TypeError" in each.catches for each in guards)
        return word in self._replaced or is_caught

    def is_looked_up(self, text: ast.Constant) -> bool:
        """Return whether a text is surely looked up as a name, which then has to be there."""
        return id(text) in self._looked_up

    @cached_property
    def _calls(self) -> list[tuple[ast.Call, str]]:
        calls = (each for each in self._nodes if isinstance(each, ast.Call))
        return [(each, _last(each.func)) for each in calls]

    @cached_property
    def _guarded(self) -> list[tuple[Guard, Lines]]:
        """What is caught, with the lines in which it is."""
        found: list[tuple[Guard, Lines]] = []
        for node in self._nodes:
            if isinstance(node, (ast.Try, ast.TryStar)):
                # Only the body: handlers and `else` are not guarded by the try.
                span = node.body[0].lineno, node.body[-1].end_lineno or 0
                found.append((guard_of_try(node), span))
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                span = node.lineno, node.end_lineno or 0
                found += [(guard_of_call(item.context_expr, _RAISERS), span) for item in node.items]
        for call, _ in self._calls:
            # With a callable behind the error, assertRaises(Error, f, x) is no context manager.
            if len(call.args) > 1:
                found.append((guard_of_call(call, _RAISERS), (call.lineno, call.end_lineno or 0)))
        return found

    @cached_property
    def _asked(self) -> dict[str, list[Lines]]:
        """The names that ``hasattr`` asks for, with the function or statement that asks."""
        found: dict[str, list[Lines]] = {}
        for call, name in self._calls:
            if name == "hasattr" and len(call.args) == 2:
                asked = call.args[1]
                if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                    found.setdefault(asked.value, []).append(self._around(call.lineno))
        return found

    def _around(self, line: int) -> Lines:
        """Return the smallest function around a line, else the outermost statement."""
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inner = [span for span in self._spans(functions) if _is_in(line, [span])]
        outer = [span for span in self._spans((ast.If,)) if _is_in(line, [span])]
        # Spans compare by their first line: the latest function to begin is the innermost.
        return max(inner) if inner else min(outer, default=(line, line))

    def _spans(self, kinds: tuple[type[ast.stmt], ...]) -> Iterator[Lines]:
        for node in self._nodes:
            if isinstance(node, kinds):
                yield node.lineno, node.end_lineno or 0

    @cached_property
    def _replaced(self) -> frozenset[str]:
        """The last parts of the names that the source gives another meaning, for tests mostly."""
        found = {
            each.attr
            for each in self._nodes
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, (ast.Store, ast.Del))
        }
        for call, name in self._calls:
            if name in (*_REPLACERS, "object"):
                texts = (each for each in call.args[:2] if isinstance(each, ast.Constant))
                found |= {str(each.value).rpartition(".")[2] for each in texts}
        return frozenset(found)

    @cached_property
    def _looked_up(self) -> frozenset[int]:
        return frozenset(
            id(call.args[0])
            for call, name in self._calls
            if name in _REPLACERS
            and call.args
            # raising=False and create=True let the name be missing; `**options` may hold either.
            and not any(each.arg in ("raising", "create", None) for each in call.keywords)
        )


def _is_in(line: int, spans: Sequence[Lines]) -> bool:
    return any(first <= line <= last for first, last in spans)


def _last(node: ast.expr | None) -> str:
    return (dotted_name(node) or "").rpartition(".")[2]


class Mention(NamedTuple):
    """A place that names something.

    Args:
        node: The expression; of an import the statement.
        word: The last part of the name.
        taken: Of an import, the name that is taken; else None.
    """

    node: ast.expr | ast.ImportFrom
    word: str
    line: int
    call: ast.Call | None = None
    taken: str | None = None


class SourceView(Follower):
    """What the names of one source mean, as chains that begin with a file, or "" for the top."""

    def __init__(self, source: Source, index: PythonIndex) -> None:
        super().__init__(source)
        self.path = source.path
        self.index = index
        self.sought = frozenset[str]()
        """The files with definitions whose users are sought."""

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return all_nodes(self.source.tree)

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

    def lacks(self, name: str) -> bool:
        """Return whether nothing in the source binds a name, whatever the scope."""
        return not {name, "*"} & self._bound_names and not hasattr(builtins, name)

    @cached_property
    def _bound_names(self) -> set[str]:
        names = (each for each in self._nodes if isinstance(each, ast.Name))
        found = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
        # The name of an argument binds nothing, nor does one that is imported as another.
        binding = (each for each in self._nodes if not isinstance(each, ast.keyword))
        for each in binding:
            # Definitions, imports, parameters, handlers and patterns.
            known = ("asname",) if getattr(each, "asname", None) else ("name", "arg", "rest")
            fields = (getattr(each, field, None) for field in known)
            found |= {name.partition(".")[0] for name in fields if isinstance(name, str)}
        return found

    def is_silenced(self, call: ast.Call) -> bool:
        """Return whether a comment marks the call as one that does not fit for type checkers."""
        lines = self._lines[call.lineno - 1 : call.end_lineno]
        return any(_SILENCED.search(each) for each in lines)

    @cached_property
    def _lines(self) -> list[str]:
        return self.source.text.split("\n")

    def meaning(self, mention: Mention) -> tuple[Found, ...]:
        """Return what a place names; nothing where that shows only while it runs."""
        node = mention.node
        if isinstance(node, ast.ImportFrom):
            return tuple(self._taken(node, mention.taken or ""))
        if isinstance(node, ast.Constant):
            return (self.index.find(str(node.value).replace(":", ".")),)
        scope = self.scope_at(node)
        if isinstance(node, ast.Attribute):
            inner = self.value(node.value, scope)
            chain = None if inner is None else inner.member(node.attr)
        else:
            chain = self.value(node, scope)
        # An instance is no use of the class beyond the call that made it.
        if chain is None or chain.parts[-1] == CALLED:
            return ()
        found = self._find(chain)
        # What an attribute of an instance holds does not show.
        return () if found.kind == "undecided" and CALLED in chain.parts[:-2] else (found,)

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
        for scope in self._definitions:
            # Since Python 3.8 lineno is that of the def, below the decorators.
            first = min([scope.lineno, *(each.lineno for each in scope.decorator_list)])
            if first <= line <= (scope.end_lineno or scope.lineno):
                names.append(scope.name)
                # What is inside a function has no name outside of it.
                if not isinstance(scope, ast.ClassDef):
                    break
        return ".".join(names)

    @cached_property
    def _definitions(self) -> list[Function | ast.ClassDef]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [node for node in self._nodes if isinstance(node, kinds)]

    @cached_property
    def guards(self) -> Guards:
        return Guards(self._nodes)

    def imported(self, bound: Bound) -> Chain | None:
        node, names = bound.node, bound.dotted.split(".")
        module = self.index.modules.at_path(self.path)
        if isinstance(node, ast.ImportFrom) and module is not None:
            for each in self.index.modules.imported(module, node.level, node.module or ""):
                chain = Chain((each.place, names[-1]))
                found = self._find(chain)
                if found.exists or found.is_missing:
                    return chain
        # A name of another package is known, too: not to be one of these.
        return Chain(("", *(self.index.absolute(self.path, bound.dotted) or "?").split(".")))

    def class_chain(self, node: ast.ClassDef) -> Chain | None:
        names, scope = [node.name], self.scope_at(node)
        while isinstance(scope.node, ast.ClassDef) and scope.parent is not None:
            names.insert(0, scope.node.name)
            scope = scope.parent
        return Chain((self.path, *names)) if scope is self.module else None

    def top_value(self, name: str) -> Chain | None:
        bindings = self.module.names.get(name, [])
        # What is imported needs no table of the whole module, which costs more than all else.
        if len(bindings) == 1 and isinstance(bindings[0].node, ast.ImportFrom):
            return super().top_value(name)
        return Chain((self.path, name)) if bindings or "*" in self.module.names else None

    def called(self, chain: Chain) -> Chain | None:
        # Nothing shows what a function returns.
        return chain.called() if self._find(chain).kind == "class" else None

    def _value(self, node: ast.expr, scope: Scope) -> Chain | None:
        # One line that sets `self.x` shows more than that there is an `x`.
        made = self.set_on_self(node, scope) if isinstance(node, ast.Attribute) else None
        return made or super()._value(node, scope)

    def _taken(self, node: ast.ImportFrom, name: str) -> Iterator[Found]:
        module = self.index.modules.at_path(self.path)
        if module is not None:
            for each in self.index.modules.imported(module, node.level, node.module or ""):
                yield self.index.find_in(each.place, name)

    def _find(self, chain: Chain) -> Found:
        place, *names = (each for each in chain.parts if each != CALLED)
        dotted = ".".join(names)
        if place == self.path and self.is_own_only(dotted):
            return Found("undecided", dotted, place, evidence="the file defines its own")
        return self.index.find_in(place, dotted) if place else self.index.find(dotted)

    def is_own_only(self, name: str) -> bool:
        """Return whether a name is a function that this file defines, and no definition sought."""
        bindings = self.module.names.get(name, [])
        is_own = bool(bindings) and all(isinstance(each.node, Function) for each in bindings)
        return is_own and self.path not in self.sought


def _last_of_dotted(text: str) -> str | None:
    """Return the last part of a text that names something: ``pkg.mod:attr``, ``pkg.mod.attr``."""
    # Any word could be a name; only dotted ones are worth the look-up.
    if len(text) > 200 or "." not in text:
        return None
    parts = text.replace(":", ".").split(".")
    return parts[-1] if all(each.isidentifier() for each in parts) else None

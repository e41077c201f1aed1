"""Where a Python source expects what a review would call broken, or puts something in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from scaffold.analysis.python.guards import Guard, guard_of_call, guard_of_try
from scaffold.analysis.python.statements import dotted_name

_LACKS = ("ModuleNotFoundError", "AttributeError")
_RAISERS = ("raises", "assertRaises", "assertRaisesRegex", "suppress")
_REPLACERS = ("patch", "setattr", "delattr")

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

"""Where a Python source expects what a review would call broken, or puts something in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from scaffold.analysis.python.statements import dotted_name

_ANY = frozenset({"Exception", "BaseException"})
_LACKS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError"}) | _ANY
_MISFITS = frozenset({"TypeError"})
_RAISERS = ("raises", "assertRaises", "assertRaisesRegex", "suppress")
_REPLACERS = ("patch", "setattr", "delattr")

Lines = tuple[int, int]


class Guards:
    """The lines of one source that expect an error, and the names that it replaces.

    Args:
        nodes: All nodes of its tree.
    """

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._nodes = nodes

    def expects_lack(self, line: int, word: str) -> bool:
        """Return whether a line expects that a name is not there."""
        return _is_in(line, self._lacks) or _is_in(line, self._asked.get(word, ()))

    def expects_misfit(self, line: int, word: str) -> bool:
        """Return whether a call may fail there by intent, or calls what the source put there."""
        return word in self._replaced or _is_in(line, self._misfits)

    def is_looked_up(self, text: ast.Constant) -> bool:
        """Return whether a text is surely looked up as a name, which then has to be there."""
        return id(text) in self._looked_up

    @cached_property
    def _calls(self) -> list[tuple[ast.Call, str]]:
        calls = (each for each in self._nodes if isinstance(each, ast.Call))
        return [(each, _last(each.func)) for each in calls]

    @cached_property
    def _lacks(self) -> list[Lines]:
        return list(self._expecting(_LACKS, is_broad=True))

    @cached_property
    def _misfits(self) -> list[Lines]:
        return list(self._expecting(_MISFITS, is_broad=False))

    def _expecting(self, errors: frozenset[str], *, is_broad: bool) -> Iterator[Lines]:
        """Yield the lines that expect an error; broad is to take a bare ``except`` for that."""
        for node in self._nodes:
            if isinstance(node, (ast.Try, ast.TryStar)):
                bare = is_broad and any(each.type is None for each in node.handlers)
                if bare or any(errors.intersection(_errors(each.type)) for each in node.handlers):
                    # Only the body: handlers and `else` are not guarded by the try.
                    yield node.body[0].lineno, node.body[-1].end_lineno or 0
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                waits = (_raises(item.context_expr, errors, is_broad) for item in node.items)
                yield from [(node.lineno, node.end_lineno or 0)] * any(waits)
        for call, _ in self._calls:
            # With a callable behind the error, assertRaises(Error, f, x) is no context manager.
            if len(call.args) > 1 and _raises(call, errors, is_broad):
                yield call.lineno, call.end_lineno or 0

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


def _raises(node: ast.expr, errors: frozenset[str], is_broad: bool) -> bool:
    """Return whether an expression waits for one of some errors, as ``pytest.raises`` does."""
    if not isinstance(node, ast.Call) or _last(node.func) not in _RAISERS:
        return False
    named = {name for each in node.args for name in _errors(each)}
    # An error that is not named here, as a variable, may be any.
    return is_broad or bool(named & (errors | _ANY)) or not named


def _errors(node: ast.expr | None) -> Iterator[str]:
    for each in node.elts if isinstance(node, ast.Tuple) else [node]:
        name = _last(each)
        if name:
            yield name


def _last(node: ast.expr | None) -> str:
    return (dotted_name(node) or "").rpartition(".")[2]

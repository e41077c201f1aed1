"""Whether calls that fit a definition before its change still fit it: by names and by places."""

from __future__ import annotations

import ast
from typing import NamedTuple

from scaffold.vcs.symbols import Symbol


class _Parameters(NamedTuple):
    by_place: tuple[str, ...]
    by_name: frozenset[str]
    required: frozenset[str]
    takes_any_place: bool
    takes_any_name: bool


def why_calls_break(old: Symbol, new: Symbol) -> str | None:
    """Return why callers break, where that is certain; None elsewhere.

    Only heads of Python are compared by their parameters.
    """
    # What a class takes is the head of its constructor, which is compared by itself.
    if old.kind == new.kind == "class" or old.kind in ("constant", "type"):
        return None
    if old.kind != new.kind:
        return f"{new.name} is a {new.kind} and no {old.kind}"
    if old.head.startswith("async ") != new.head.startswith("async "):
        word = "a coroutine" if new.head.startswith("async ") else "no coroutine"
        return f"{new.name} is {word} now"
    before, after = (_parameters(each.head, each.kind) for each in (old, new))
    if before is None or after is None:
        return None
    return _why(new.name, before, after)


def _why(name: str, old: _Parameters, new: _Parameters) -> str | None:
    known = {*old.by_name, *old.by_place}
    added = sorted(new.required - known)
    if added:
        return f"{name} requires {_listed(added)}"
    required = sorted((new.required - old.required) & known)
    if required:
        return f"{name} has no default for {_listed(required)} any more"
    lost = sorted(old.by_name - new.by_name)
    if lost and not new.takes_any_name:
        return f"{name} takes no {_listed(lost)} any more"
    # Fewer places, or no `*args` any more.
    if not new.takes_any_place and (len(old.by_place) > len(new.by_place) or old.takes_any_place):
        return f"{name} takes fewer arguments by their place"
    # A new parameter in front of an old one moves the old one's place, be it optional.
    if new.by_place[: len(old.by_place)] != old.by_place and known >= set(old.by_place):
        order = [each for each in new.by_place if each in old.by_place]
        if tuple(order) == old.by_place or set(order) == set(old.by_place):
            return f"{name} takes its arguments in another order"
    return None


def _parameters(head: str, kind: str) -> _Parameters | None:
    try:
        # A head is kept as text; put behind a name it parses again.
        node = ast.parse(f"def f{head.removeprefix('async ')}: ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    given = node.args
    placed = [*given.posonlyargs, *given.args]
    defaults = len(given.defaults)
    required = {each.arg for each in placed[: len(placed) - defaults]}
    required |= {
        each.arg
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    }
    by_name = {each.arg for each in (*given.args, *given.kwonlyargs)}
    # The receiver by its usual names: a static method has none.
    first = {placed[0].arg} if kind == "method" and placed else set[str]()
    first &= {"self", "cls"}
    return _Parameters(
        tuple(each.arg for each in placed if each.arg not in first),
        frozenset(by_name - first),
        frozenset(required - first),
        given.vararg is not None,
        given.kwarg is not None,
    )


def _listed(names: list[str]) -> str:
    return " and ".join(f"{each!r}" for each in names)

"""What a new release changes for a call, and for a class that derives from its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scaffold.analysis.python.binding import Given
from scaffold.analysis.python.follower import CALLED
from scaffold.analysis.python.index import Parameter, Signature
from scaffold.analysis.python.signatures import read_signature
from scaffold.deps.deprecation_texts import (
    Function,
    deprecated_parameters,
    folded,
    names_in,
    parameter_deprecation,
    renamed_parameter,
)
from scaffold.deps.keywords import taken_by_kwargs, takes
from scaffold.deps.release import Meaning, Place, Release
from scaffold.deps.source_code import own_names
from scaffold.deps.use import Change


@dataclass(frozen=True)
class _Side:
    """One release's end of a call: its signature, and the ``def`` behind it."""

    release: Release
    signature: Signature
    place: Place | None

    @property
    def node(self) -> Function | None:
        return None if self.place is None else self.place[1]

    def takes(self, name: str) -> bool | None:
        return None if self.place is None else takes(self.release, self.place, name)


def call_changes(old: Meaning, new: Meaning, call: ast.Call) -> Iterator[Change]:
    """Yield the differences between two releases that a call meets."""
    before, after = _side(old), _side(new)
    if before is None or after is None:
        which = (old if before is None else new).release.version
        yield Change("undecided", "undecided", f"what it takes in {which} is not certain")
        return
    given = Given(call)
    # The old release decides how a call is meant, since the tree was written for it.
    on_class = given.positional and before.signature.receiver is not None
    if on_class and given.problem(before.signature):
        given.positional -= 1  # Class.method(instance, ...)
    if given.problem(before.signature, deprecated_parameters(before.node)):
        why = f"the call does not fit {old.release.version} as its text reads"
        yield Change("undecided", "undecided", why)
        return
    broken = list(_unbound(before, after, given))
    yield from broken
    # A new name that a broken keyword leads to is not reported a second time.
    yield from _keywords(before, after, given, {each.likely for each in broken})
    if not any(each.level == "breaks" for each in broken):
        ends = before.signature, after.signature
        yield from _reordered(*ends, given, lambda name: _successor(before, after, name)[0])
        yield from _defaults(before, after, given)


def _side(meaning: Meaning) -> _Side | None:
    signature = meaning.signature
    if signature is None:
        return None
    return _Side(meaning.release, signature, meaning.release.body_of(signature))


def _unbound(before: _Side, after: _Side, given: Given) -> Iterator[Change]:
    """Yield why the call no longer binds."""
    signature = after.signature
    extra = deprecated_parameters(after.node)
    if not signature.takes_any_keyword:
        for name in given.keywords:
            if name not in signature.names and name not in extra:
                likely, is_certain = _successor(before, after, name)
                verdict = "parameter-renamed" if is_certain else "parameter-removed"
                yield Change(verdict, "breaks", f"{signature.name}() has no {name!r}", likely, name)
    count = len(signature.slots)
    if given.positional > count and not signature.takes_any_place:
        why = f"it takes {count} by position and gets {given.positional}"
        yield Change("too-many-arguments", "breaks", why)
    if given.is_open:
        yield from _unseen(before, after, given)
        return
    filled = given.fills(signature)
    required = {each.name for each in before.signature.parameters if not each.has_default}
    for each in signature.parameters:
        if _is_needed(each) and each.name not in filled:
            news = "is required now" if each.name not in required else "is not filled any more"
            yield Change("parameter-required", "breaks", f"{each.name!r} {news}", "", each.name)


def _is_needed(parameter: Parameter) -> bool:
    return not parameter.has_default and not parameter.kind.startswith("var_")


def _unseen(before: _Side, after: _Side, given: Given) -> Iterator[Change]:
    """Yield what a call meets in the arguments that its ``*args`` and ``**kwargs`` may hold."""
    old, new = before.signature, after.signature
    filled = given.fills(old) | given.fills(new)
    for each in new.parameters:
        known = _parameter(old, each.name)
        if _is_needed(each) and each.name not in filled and (known is None or known.has_default):
            why = f"{each.name!r} is required now, and {given.unseen} may lack it"
            yield Change("parameter-required", "check", why)
    if not given.has_kwargs or new.takes_any_keyword:
        return
    extra = deprecated_parameters(after.node)
    gone = [
        each.name
        for each in old.parameters
        if not each.kind.startswith("var_") and each.kind != "positional_only"
        if each.name not in (*filled, *new.names, *extra)
    ]
    if gone:
        names = ", ".join(map(repr, gone))
        why = f"{new.name}() no longer takes {names}: look at what {given.unseen} holds"
        likely = _successor(before, after, gone[0])[0] if len(gone) == 1 else ""
        yield Change("parameter-removed", "check", why, likely)


def _successor(before: _Side, after: _Side, name: str) -> tuple[str, bool]:
    """Return what most likely took a parameter's place, and whether nothing speaks against it."""
    names = after.signature.names
    if before.node is not None:
        told = [renamed_parameter(before.node, name)]
        told += names_in(parameter_deprecation(before.node, name))
        found = next((each for each in told if each in names), "")
        if found:
            return found, True
    # A parameter that was there before has not taken the place of another.
    fresh = [each for each in names if each not in before.signature.names]
    word = folded(name)
    # `max_tokens` and `maxTokens`, or `tokens` and `max_tokens`.
    near = [each for each in fresh if folded(each) == word]
    if near:
        return near[0], True
    ends = [(each, folded(each)) for each in fresh]
    near = [each for each, end in ends if end.endswith(word) or word.endswith(end)]
    if not near:
        return "", False
    was, now = before.signature.slots, after.signature.slots
    is_in_place = name in was and now[was.index(name) :][:1] == near
    return near[0], is_in_place


def _parameter(signature: Signature, name: str) -> Parameter | None:
    return next((each for each in signature.parameters if each.name == name), None)


def _keywords(before: _Side, after: _Side, given: Given, told: set[str]) -> Iterator[Change]:
    """Yield what becomes of keywords that warn, or that only ``**kwargs`` takes now."""
    if after.node is None:
        return
    filled = given.fills(after.signature) if not given.is_open else set(given.keywords)
    extra = deprecated_parameters(after.node)
    for name in sorted(filled - told):
        is_own = name in after.signature.names or name in extra
        warned = parameter_deprecation(after.node, name) if is_own else ""
        if warned:
            likely = renamed_parameter(after.node, name) or next(names_in(warned), "")
            yield Change("parameter-deprecated", "deprecated", f"{name!r}: {warned}", likely)
        elif not is_own and name in given.keywords and after.signature.takes_any_keyword:
            yield from _swallowed(before, after, name)


def _swallowed(before: _Side, after: _Side, name: str) -> Iterator[Change]:
    assert after.node is not None
    taken = taken_by_kwargs(after.node, name)
    likely = next((each for each in names_in(taken.text) if each != name), "")
    if taken.how == "refused":
        yield Change("keyword-refused", "breaks", f"{name!r}: {taken.text}", likely)
    elif taken.how == "deprecated":
        yield Change("parameter-deprecated", "deprecated", f"{name!r}: {taken.text}", likely)
    elif name in before.signature.names and taken.how == "unread":
        why = f"{name!r} is no longer a parameter: **kwargs accepts it, and nothing reads it"
        yield Change("keyword-unread", "breaks", why, _successor(before, after, name)[0])
    elif taken.how == "passed":
        yield from _handed_on(before, after, name)


def _handed_on(before: _Side, after: _Side, name: str) -> Iterator[Change]:
    """Yield what becomes of a keyword that ``**kwargs`` hands on to something else."""
    # Three answers on each side: it is taken, it is not, or that does not show.
    had = name in before.signature.names or before.takes(name)
    has = after.takes(name)
    if had and has is False:
        why = f"{after.signature.name}() hands {name!r} on to what does not take it"
        yield Change("parameter-removed", "breaks", why)
    elif had and has is None and not after.release.defines(name):
        why = f"{name!r} was taken, and is nowhere in {after.release.version}"
        yield Change("keyword-unread", "breaks", why)
    elif had and has is None:
        why = f"**kwargs takes {name!r}, and where it goes does not show"
        yield Change("undecided", "undecided", why)


def _reordered(
    before: Signature, after: Signature, given: Given, renamed: Callable[[str], str]
) -> Iterator[Change]:
    # The places of what `*args` alone gives are unknown.
    if given.is_open and not given.positional:
        return
    old, new = before.slots, after.slots
    for index, name in enumerate(old[: given.positional]):
        other = new[index] if index < len(new) else ""
        likely = name if name in after.names else renamed(name)
        if other != name and other in before.names:
            why = f"argument {index + 1} filled {name!r} and fills {other!r} now"
            yield Change("reordered", "breaks", why, likely)
        elif other and other != name and name in after.names:
            why = f"argument {index + 1} filled {name!r} and fills the new {other!r}"
            yield Change("reordered", "breaks", why, likely)


def _defaults(before: _Side, after: _Side, given: Given) -> Iterator[Change]:
    filled = given.fills(before.signature) | given.fills(after.signature)
    for each in before.signature.parameters:
        other = _parameter(after.signature, each.name)
        if each.name in filled or other is None or not (each.has_default and other.has_default):
            continue
        one, two = _effective(before, each), _effective(after, other)
        if one is None or two is None or not (one[0] or two[0]):
            continue  # not known, or empty both
        # With the types, as 1 == True == 1.0 would hide a change.
        if (type(one[0]), one[0]) != (type(two[0]), two[0]):
            left_out = f"may be left out by {given.unseen}" if given.is_open else "is left out"
            why = f"{each.name!r} {left_out}: its default was {one[0]!r} and is {two[0]!r}"
            yield Change("default-changed", "check", why)


def _effective(side: _Side, parameter: Parameter) -> tuple[object] | None:
    """Return the value of a default, or what the body puts in the place of None."""
    value = _literal(side, parameter.default)
    if value != (None,) or side.node is None:
        return value
    for row in side.node.body:
        if not isinstance(row, ast.If) or len(row.body) != 1:
            continue
        inner = row.body[0]
        # `if x is None: x = 5`: the default in effect is 5.
        is_asked = ast.unparse(row.test) == f"{parameter.name} is None"
        if is_asked and isinstance(inner, ast.Assign):
            targets = [ast.unparse(each) for each in inner.targets]
            return _literal(side, ast.unparse(inner.value)) if targets == [parameter.name] else None
    return value


def _literal(side: _Side, text: str | None) -> tuple[object] | None:
    """Return the value of a default, through a constant's name; None where it is no literal."""
    if text is None:
        return None
    try:
        return (ast.literal_eval(text),)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    if not all(part.isidentifier() for part in text.split(".")):
        return None
    found = side.release.index.find_in(side.signature.path, text)
    node = side.release.assigned(found) if found.kind == "constant" else None
    try:
        return (ast.literal_eval(node.value),) if isinstance(node, ast.Assign) else None
    except (ValueError, TypeError):
        return None


def subclass_changes(before: Meaning, after: Meaning, derived: ast.ClassDef) -> Iterator[Change]:
    """Yield what a class of the tree meets in the new release of its base."""
    for name in sorted(_abstract(after) - _abstract(before) - own_names(derived)):
        yield Change("abstract-added", "breaks", f"{name!r} is abstract now and not defined here")


def override_changes(old: Meaning, new: Meaning, method: Function) -> Iterator[Change]:
    """Yield what a method that replaces one of the package's meets in the new release."""
    before, after = old.signature, new.signature
    if before is None or after is None:
        return
    own = read_signature(method)
    marks = {ast.unparse(each) for each in method.decorator_list}
    own = own if "staticmethod" in marks else own.bound()
    known = {each.name for each in before.parameters}
    kinds = {each.kind for each in own.parameters}
    for each in after.parameters:
        if each.name in known or each.kind.startswith("var_") or each.name in own.names:
            continue
        # A catch-all of the override takes what the base adds.
        if "var_keyword" in kinds or (each.kind != "keyword_only" and "var_positional" in kinds):
            continue
        level = "check" if each.has_default else "breaks"
        # A parameter may take the place of one that only has another name.
        slots, is_no_more = after.slots, len(after.slots) <= len(before.slots)
        if is_no_more and each.name in slots and slots.index(each.name) < len(own.slots):
            continue
        why = f"the base takes {each.name!r} now, which this does not"
        yield Change("override-signature", level, why, each.name)


def _abstract(meaning: Meaning) -> set[str]:
    """Return the names of a class's abstract members."""
    release, dotted = meaning.release, meaning.dotted
    if not dotted or CALLED in dotted or not release.mentions(rb"@(?:\w+\.)?abstract"):
        return set()
    found: set[str] = set()
    for member in (release.index.members(dotted) or {}).values():
        source = release.source(member.path)
        node = None if source is None else source.definitions.get(member.line)
        marks = [ast.unparse(each) for each in node.decorator_list] if node is not None else []
        if any("abstract" in mark.rpartition(".")[2] for mark in marks):
            found.add(member.name)
    return found

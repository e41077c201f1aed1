"""Whether calls that fit a definition before its change still fit it: by names and by places."""

from __future__ import annotations

import ast

from scaffold.analysis.python.signatures import Signature, read_signature
from scaffold.vcs.symbols import Symbol


def why_calls_break(old: Symbol, new: Symbol) -> str | None:
    """Return why callers break, where that is certain; None elsewhere."""
    # What a class takes is the head of its constructor, which is compared by itself.
    # A property is not called.
    if old.kind == "constant" or (old.kind == new.kind and old.kind in ("class", "property")):
        return None
    if old.kind != new.kind:
        return f"{new.name} is a {new.kind} and no {old.kind}"
    if old.head.startswith("async ") != new.head.startswith("async "):
        word = "a coroutine" if new.head.startswith("async ") else "no coroutine"
        return f"{new.name} is {word} now"
    before, after = _signature(old), _signature(new)
    return None if before is None or after is None else _why(new.name, before, after)


def _why(name: str, old: Signature, new: Signature) -> str | None:
    places, known = old.slots, {*old.slots, *old.names}
    added = sorted(_required(new) - known)
    if added:
        return f"{name} requires {_listed(added)}"
    required = sorted((_required(new) - _required(old)) & known)
    if required:
        return f"{name} has no default for {_listed(required)} any more"
    lost = sorted({*old.names} - {*new.names})
    if lost and not new.takes_any_keyword:
        return f"{name} takes no {_listed(lost)} any more"
    # Fewer places, or no `*args` any more.
    here = new.slots
    if not new.takes_any_place and (len(places) > len(here) or old.takes_any_place):
        return f"{name} takes fewer arguments by their place"
    # A new parameter in front of an old one moves the old one's place, be it optional.
    if here[: len(places)] != places:
        order = [each for each in here if each in places]
        if order == places or set(order) == set(places):
            return f"{name} takes its arguments in another order"
    return None


def _required(signature: Signature) -> set[str]:
    rows = (each for each in signature.parameters if not each.kind.startswith("var_"))
    return {each.name for each in rows if not each.has_default}


def _signature(symbol: Symbol) -> Signature | None:
    try:
        # A head is kept as text; put behind a name it parses again.
        node = ast.parse(f"def f{symbol.head.removeprefix('async ')}: ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    signature = read_signature(node)
    # The receiver by its usual names: a static method has none.
    has_receiver = {each.name for each in signature.parameters[:1]} & {"self", "cls"}
    return signature.bound() if symbol.kind == "method" and has_receiver else signature


def _listed(names: list[str]) -> str:
    return " and ".join(f"{each!r}" for each in names)

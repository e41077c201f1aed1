"""Whether a call fits a signature, as Python itself would bind it."""

from __future__ import annotations

import ast
from collections.abc import Container
from typing import NamedTuple

from scaffold.analysis.python.signatures import Parameter, Signature


class Problem(NamedTuple):
    """The reason why a call does not fit a signature.

    Args:
        rule: ``missing``, ``unknown``, ``too-many`` or ``twice``.
        names: The arguments concerned.
        text: One sentence for a reader.
    """

    rule: str
    names: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


class Given:
    """The arguments of a call.

    A ``*args`` or ``**kwargs`` in it may stand for anything, so nothing counts as missing then.
    """

    def __init__(self, call: ast.Call) -> None:
        self.positional = sum(not isinstance(each, ast.Starred) for each in call.args)
        self.keywords = [each.arg for each in call.keywords if each.arg is not None]
        starred = self.positional < len(call.args)
        spread = [word.value for word in call.keywords if word.arg is None]
        for each in list(spread):
            keys = each.keys if isinstance(each, ast.Dict) else [None]
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            # `**{"a": 1}` hides nothing.
            if len(names) == len(keys):
                self.keywords += [name for name in names if isinstance(name, str)]
                spread.remove(each)
        self.has_kwargs = bool(spread)
        self.is_open = starred or self.has_kwargs
        words = [f"**{ast.unparse(each)}" for each in spread]
        words += [ast.unparse(each) for each in call.args if isinstance(each, ast.Starred)]
        self.unseen = " and ".join(words)

    def problem(self, signature: Signature, more: Container[str] = ()) -> Problem | None:
        """Return why a call with these arguments does not fit; None where it fits or may fit.

        Args:
            signature: What is called.
            more: Keywords that it takes beside those of its signature.
        """
        slots = [each for each in signature.parameters if each.kind.startswith("positional")]
        given, keywords = self.positional, [each for each in self.keywords if each not in more]
        repeated = tuple(sorted({name for name in keywords if keywords.count(name) > 1}))
        if repeated:
            return Problem("twice", repeated, f"{signature.name}() gets {_list(repeated)} twice")
        return (
            _too_many(signature, slots, given)
            or _unknown(signature, keywords)
            or _twice(signature, slots, given, keywords)
            or (None if self.is_open else _missing(signature, slots, given, keywords))
        )

    def fills(self, signature: Signature) -> set[str]:
        """Return the parameters that the call gives, by position or by name."""
        return {*signature.slots[: self.positional], *self.keywords}


def bind(signature: Signature, call: ast.Call) -> Problem | None:
    """Return why a call cannot be bound; None where it fits or may fit.

    A method that is called on its class (``Class.method(instance, ...)``) may be given the
    receiver too.
    """
    given = Given(call)
    problem = given.problem(signature)
    if problem is None or signature.receiver is None or not _is_on_class(call.func):
        return problem
    # The first argument is the receiver then.
    given.positional -= 1
    return None if given.positional >= 0 and given.problem(signature) is None else problem


def _too_many(signature: Signature, slots: list[Parameter], given: int) -> Problem | None:
    takes_more = any(each.kind == "var_positional" for each in signature.parameters)
    if takes_more or given <= len(slots):
        return None
    noun = "argument" if len(slots) == 1 else "arguments"
    text = f"{signature.name}() takes {len(slots)} positional {noun} and gets {given}"
    return Problem("too-many", (), text)


def _unknown(signature: Signature, keywords: list[str]) -> Problem | None:
    if signature.takes_any_keyword:
        return None
    wrong = tuple(name for name in keywords if name not in signature.names)
    if not wrong:
        return None
    return Problem("unknown", wrong, f"{signature.name}() has no parameter {_list(wrong)}")


def _twice(
    signature: Signature, slots: list[Parameter], given: int, keywords: list[str]
) -> Problem | None:
    # A positional-only name may come again in **kwargs: Python binds both.
    filled = {each.name for each in slots[:given] if each.kind == "positional_or_keyword"}
    both = tuple(name for name in keywords if name in filled)
    if not both:
        return None
    text = f"{signature.name}() gets {_list(both)} by position and by keyword"
    return Problem("twice", both, text)


def _missing(
    signature: Signature, slots: list[Parameter], given: int, keywords: list[str]
) -> Problem | None:
    lacking = [
        each
        for each in slots[given:]
        # A keyword of that name never fills a positional-only slot.
        if not each.has_default and (each.kind == "positional_only" or each.name not in keywords)
    ]
    lacking += [
        each
        for each in signature.parameters
        if each.kind == "keyword_only" and not each.has_default and each.name not in keywords
    ]
    if not lacking:
        return None
    names = tuple(each.name for each in lacking)
    return Problem("missing", names, f"{signature.name}() needs {_list(names)}")


def _is_on_class(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    # Only the case of the name separates a class from an instance here.
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.lstrip("_")[:1].isupper()


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)

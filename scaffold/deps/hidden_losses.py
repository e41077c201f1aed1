"""Attributes of what a tree does not type, or reads by name, that classes no longer have."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property

from scaffold.analysis.python.follower import CALLED
from scaffold.deps.judgement import Judgement
from scaffold.deps.release import Release
from scaffold.deps.use import Use

_SHOWN = 3
# What begins at the left edge: a class, by its name, or anything else.
_TOP = re.compile(rb"^(?:class (\w+)|[A-Za-z@])", re.MULTILINE)

_OF_ANY_OBJECT = {*dir(type), *dir(lambda: None)}
"""Attributes of every class or function, such as ``__name__``."""


class HiddenLosses:
    """The attributes that classes of the old release set, and those of the new one do not."""

    def __init__(self, old: Release, new: Release) -> None:
        self._old, self._new = old, new
        self._loss = cache(self._find_loss)

    def anywhere(self, use: Use) -> Iterator[Judgement]:
        """Yield the finding on ``getattr(x, "name", default)`` where what ``x`` is does not show.

        Each class of the old release that sets the attribute is asked for in the new one.
        """
        if loss := self._loss(use.parts[-1]):
            yield Judgement("absence-hidden", "check", loss, use=use)

    def _find_loss(self, name: str) -> str:
        """Return which classes have lost an attribute, in words; "" where none has."""
        # `__name__` and its like are there in any function or class, whatever a class sets.
        had = [] if name in _OF_ANY_OBJECT else sorted({*self._setters(name)})
        lost = [each for each in had if _sets(self._new, each, name) is False]
        # A name that most classes keep says nothing about the object that is asked.
        if not lost or 2 * len(lost) < len(had):
            return ""
        shown = ", ".join(lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
        which = f"{len(lost)} of {len(had)} classes ({shown})" if len(had) > 1 else shown
        return f"{which} had {name!r}, and the fallback takes its place in {self._new.version}"

    def _setters(self, name: str) -> Iterator[str]:
        """Yield the top-level classes of the old release whose own text sets an attribute.

        They are read by pattern, as to parse thousands of sources would take minutes.
        """
        word = name.encode()
        # `name: int = 1` or `def name(self)` of a class, `self.name = 1`.
        own, by_self = rb"^ {4}(?:def )?%s *(?:[:=](?!=)|\(self\))", rb"\bself\.%s *[:=](?!=)"
        sets = re.compile(b"|".join((own, by_self)) % (word, word), re.MULTILINE)
        for path in self._old.files.python:
            data = self._old.files.data(path) or b""
            for each in sets.finditer(data) if word in data else ():
                around: list[bytes] = _TOP.findall(data, 0, each.start())
                if around and around[-1]:
                    yield around[-1].decode()

    @cached_property
    def _gone(self) -> set[str]:
        """The public names that the old release defines, and no builtin type or new source has."""
        builtin = {name for kind in vars(builtins).values() for name in dir(kind)}
        gone = {*self._old.index.names()} - {*self._new.index.names()} - builtin
        return {each for each in gone if not each.startswith("_")}

    def of_unknown(self, use: Use) -> Judgement | None:
        """Return the finding on ``x.name`` where what ``x`` is does not show.

        A method of the old release whose name is in no source of the new one is lost, be it of
        whichever class; what the tree itself defines, the caller leaves out.
        """
        name = use.parts[-1]
        if name not in self._gone or self._new.defines(name):
            return None
        for path, line in self._old.index.defined(name):
            source = self._old.source(path)
            node = source.definitions.get(line) if source is not None else None
            if source is not None and node is not None and node not in source.tree.body:
                place = f"{path}:{line}"
                why = f"no source of {self._new.version} has {name!r}, which stood in {place}"
                return Judgement("removed", "check", why, use=use, old=place)
        return None

    def of_class(self, found: Judgement) -> Judgement:
        """Return an undecided finding decided, where its class has plainly lost the attribute."""
        parts = found.use.parts
        owner, name = parts[-3] if CALLED in parts[-2:-1] else "", parts[-1]
        if not found.is_unsure or not _sets(self._old, owner, name):
            return found
        if _sets(self._new, owner, name) is not False:
            return found
        verdict = "absence-hidden" if isinstance(found.use.node, ast.Call) else "removed"
        why = f"no text of {self._new.version} sets {name!r} of {owner} any more"
        return replace(found, verdict=verdict, level="check", why=why)


def _sets(release: Release, owner: str, name: str) -> bool | None:
    """Return whether a class, or one that it derives from, sets an attribute; None without it.

    Classes of one name in several modules count as one.
    """
    index = release.index
    modules = [index.dotted_names(path)[:1] for path, _ in index.defined(owner)]
    classes = [index.members(f"{module}.{owner}") for each in modules for module in each]
    known = [each for each in classes if each is not None]
    return any(name in each for each in known) if known else None

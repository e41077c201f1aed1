"""Attributes that a tree asks for by name, with a fallback, and that classes no longer have."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from scaffold.analysis.python.sources import Source
from scaffold.deps.deprecation_texts import Defined
from scaffold.deps.judgement import Judgement
from scaffold.deps.release import Ask, Release
from scaffold.deps.use import CALLED, Use

_SHOWN = 3
# `class Name(Base)`, anything else at the left edge, `name: int = 1` of a class, `self.name = 1`.
_LINE = re.compile(
    r"^class (?P<owner>\w+)(?:\((?P<bases>[^)]*)\))?|^(?P<top>[A-Za-z@])"
    r"|^ {4}(?:def )?(?P<own>\w+)[ ]*(?:[:=](?!=)|\(self\))"
    r"|^[ ]{8,}self\.(?P<set>\w+)[ ]*[:=](?!=)",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w.]+")


@dataclass
class _Class:
    """The bases of a class, and the attributes that its text sets."""

    bases: set[str] = field(default_factory=set[str])
    sets: set[str] = field(default_factory=set[str])


class HiddenLosses:
    """The attributes that classes of the old release set, and those of the new one do not.

    Args:
        old: The release that the tree was written for.
        new: The one that it is to run with.
        names: The attributes that may be asked about.
    """

    def __init__(self, old: Release, new: Release, names: set[str]) -> None:
        self._old, self._new = old, new
        self._before, self._after = (_classes(each, names) if names else {} for each in (old, new))
        self._losses: dict[str, str] = {}

    def anywhere(self, use: Use) -> Iterator[Judgement]:
        """Yield the finding on ``getattr(x, "name", default)`` where what ``x`` is does not show.

        Each class of the old release that sets the attribute is asked for in the new one.
        """
        name = use.parts[-1]
        if name not in self._losses:
            self._losses[name] = _loss(name, self._before, self._after)
        if self._losses[name]:
            why = f"{self._losses[name]} in {self._new.version}"
            yield Judgement(use, "absence-hidden", "check", why)

    @cached_property
    def _gone(self) -> set[str]:
        """The public names that the old release defines, and no builtin type or new source has."""
        builtin = {name for kind in vars(builtins).values() for name in dir(kind)}
        gone = {*self._old.index.names()} - {*self._new.index.names()} - builtin
        return {each for each in gone if not each.startswith("_")}

    def of_unknown(self, use: Use) -> Iterator[Judgement]:
        """Yield the finding on ``x.name`` where what ``x`` is does not show.

        A method of the old release whose name is in no source of the new one is lost, be it of
        whichever class; what the tree itself defines, the caller leaves out.
        """
        name = use.parts[-1]
        if name not in self._gone or self._new.defines(name):
            return
        for path, line in self._old.index.defined(name):
            source = self._old.source(path)
            node = source.definitions.get(line) if source is not None else None
            if source is not None and node is not None and node not in source.tree.body:
                why = f"no class of {self._new.version} has {name!r} any more, as one had in"
                place = f"{path}:{line}"
                verdict, unread = "removed", self._unread_base(source, node)
                if unread:
                    verdict, why = "unclear", f"{unread}, which may have {name!r} that stood in"
                yield Judgement(use, verdict, "check", f"{why} {place}", place)
                return

    def _unread_base(self, source: Source, node: Defined) -> str:
        """Return the words on the class of a method having bases that were not read; "" if not."""
        owner = next((each for each in source.tree.body if node in ast.walk(each)), None)
        for module in self._old.index.dotted_names(source.path) if owner is not None else ():
            name = getattr(owner, "name", "")
            found = self._new.follow_ask(Ask("", f"{module}.{name}.{node.name}")).found
            if found.kind == "undecided":
                return f"{name} derives from what is not read"
        return ""

    def of_class(self, found: Judgement) -> Judgement:
        """Return an undecided finding decided, where its class has plainly lost the attribute."""
        parts = found.use.parts
        owner, name = (parts[-3], parts[-1]) if CALLED in parts[-2:-1] else ("", parts[-1])
        old, new = self._before.get(owner), self._after.get(owner)
        is_lost = old and new and name in old.sets and not _has(name, owner, self._after)
        if not found.is_unsure or not is_lost:
            return found
        node = found.use.node
        verdict = "absence-hidden" if isinstance(node, ast.Call) else "removed"
        why = f"no text of {self._new.version} sets {name!r} of {owner} any more"
        return replace(found, verdict=verdict, level="check", why=why)


def _loss(name: str, before: dict[str, _Class], after: dict[str, _Class]) -> str:
    """Return which classes have lost an attribute, in words; "" where none has."""
    had = sorted(each for each, found in before.items() if name in found.sets)
    lost = [each for each in had if each in after and not _has(name, each, after)]
    # A name that most classes keep says nothing about the object that is asked.
    if not lost or 2 * len(lost) < len(had):
        return ""
    shown = ", ".join(lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
    which = f"{len(lost)} of {len(had)} classes ({shown})" if len(had) > 1 else shown
    return f"{which} had {name!r}, and the fallback takes its place"


def _has(name: str, owner: str, classes: dict[str, _Class]) -> bool:
    """Return whether a class or one that it derives from sets an attribute."""
    pending, seen = [owner], set[str]()
    while pending:
        each = pending.pop()
        found = classes.get(each)
        if found is None or each in seen:
            continue
        seen.add(each)
        if name in found.sets:
            return True
        pending += found.bases
    return False


def _classes(release: Release, names: set[str]) -> dict[str, _Class]:
    """Return the top-level classes of a release by name, with which of the names they set.

    They are read by pattern, as to parse thousands of sources would take minutes. Classes of one
    name in several modules count as one.
    """
    found: dict[str, _Class] = {}
    for path in release.files.python:
        owner = None
        for each in _LINE.finditer((release.files.data(path) or b"").decode("utf-8", "replace")):
            if each["owner"]:
                owner = found.setdefault(each["owner"], _Class())
                owner.bases |= {
                    one.rpartition(".")[2] for one in _NAME.findall(each["bases"] or "")
                }
            elif each["top"]:
                owner = None
            elif owner is not None and (each["own"] or each["set"]) in names:
                owner.sets.add(each["own"] or each["set"])
    return found

"""The verdict on each use: what it names in the old release, and in the new one."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scaffold.analysis.python.decorators import PROPERTIES
from scaffold.analysis.python.follower import CALLED, ELEMENT
from scaffold.analysis.python.guards import hides_absence
from scaffold.analysis.python.scopes import own_nodes
from scaffold.deps.deprecation_texts import deprecation_of, names_in
from scaffold.deps.losses import Renames, likely_name
from scaffold.deps.release import Meaning, Release
from scaffold.deps.signature_changes import call_changes, override_changes, subclass_changes
from scaffold.deps.use import Change, Judgement, Use

_ELSEWHERE = re.compile(r"is not known here|shows only while|is not written down|only a stub")
_DYNAMIC = re.compile(
    r"__getattr__|on first use|more names|by name|through __dict__|generated code|hands on "
)


class Judge:
    """The binding of uses to two releases of a package.

    Args:
        old: The release that the tree was written for.
        new: The one that it is to run with.
    """

    def __init__(self, old: Release, new: Release) -> None:
        self._old = old
        self._new = new
        self._renames = Renames(new)

    def judge(self, use: Use) -> list[Judgement]:
        """Return the findings on one use; none where both releases treat it alike."""
        # Without a name that the new release has, only the old one gets here.
        if any(self._new.follow(each).is_there for each in use.guard.absent):
            use = replace(use, guard=replace(use.guard, is_either=True))
        if use.parts[-2:-1] == (CALLED,):
            ends = self._ends(use.parts[:-2])
            lost = _lost_of_builtin(use, *ends)
            if lost is not None:
                return [_judgement(use, lost, *ends).guarded(None)]
        inner = self._within(use)
        if inner is None:
            return []
        before, after = self._ends(inner.parts)
        # One loss is reported once, by the use that makes the call.
        called = max((at for at, part in enumerate(inner.parts) if part == CALLED), default=0)
        if called and after.lacking and not self._new.follow(inner.parts[:called]).is_there:
            return []
        # Which part of the name is the first that the new release lacks.
        counts = range(1, len(inner.parts))
        lacks = (at for at in counts if not self._new.follow(inner.parts[:at]).is_there)
        lost_at = None if after.is_there else next(lacks, len(inner.parts)) - 1
        changes = self._changes(inner, before, after)
        return [_judgement(inner, each, before, after).guarded(lost_at) for each in changes]

    def _ends(self, parts: tuple[str, ...]) -> tuple[Meaning, Meaning]:
        return self._old.follow(parts), self._new.follow(parts)

    def _changes(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Change]:
        if use.kind == "override":
            yield from self._override(use, before, after)
        elif not before.is_there:
            yield from self._unknown_before(use, before, after)
        elif _is_gone(before, after):
            yield self._gone(use, before, after)
        elif not after.is_there:
            yield _undecided(use, before, after)
        else:
            yield from _compare(use, before, after)

    def _within(self, use: Use) -> Use | None:
        """Return the part of a use that is the package's; None where that is a use of its own.

        What an attribute holds, or a call gives, is some other package's as often as not: where no
        annotation gives its class, the use ends with the attribute. A call is meant itself.
        """
        parts = use.parts
        # The package and its first name are always its own.
        for count in range(2, len(parts)):
            meaning = self._old.follow(parts[: count + 1])
            is_there = meaning.is_there
            # An element of what is no class of the package is some other package's as well.
            is_element = ELEMENT in parts[: count + 1]
            if not is_there and (is_element or _ELSEWHERE.search(meaning.found.evidence)):
                if CALLED in (parts[count - 1], parts[count]):
                    return None
                return replace(use, kind="reference", parts=parts[:count], call=None, node=None)
        return use

    def _unknown_before(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Change]:
        if use.kind in ("string", "patch") and use.call is None and not after.is_missing:
            return
        if use.kind == "string" or after.is_there:
            return  # a text that only looks like a name, or a name that came to be
        if use.local and before.is_missing:
            return  # the class of the tree has it from another of its bases
        is_unsure = before.found.kind == "undecided" and CALLED not in use.parts
        if after.is_missing and is_unsure and use.kind != "patch":
            yield self._gone(use, before, after)
        else:
            yield _undecided(use, before, after)

    def _gone(self, use: Use, before: Meaning, after: Meaning) -> Change:
        likely = likely_name(before, after, self._renames)
        why = after.found.evidence
        if not after.is_missing:
            why = f"{after.lacking!r} is in no source of {self._new.version}"
        if after.given is not None:
            why = after.given.text or why
        if isinstance(use.node, ast.Call) and hides_absence(use.node):
            why = f"{ast.unparse(use.node.func)}() no longer finds it: {why}"
            return Change("absence-hidden", "check", why, likely.likely)
        return replace(likely, why=why, argument=after.lacking, evidence=likely.evidence or why)

    def _override(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Change]:
        if not before.found.exists or before.found.path is None:
            return  # a member of the subclass alone
        name = use.parts[-1]
        # Special methods are called by Python, whatever the base does.
        if name.startswith("__") and name.endswith("__") and name != "__init__":
            return
        owner, _, last = after.ask.name.rpartition(".")
        is_listed = after.lacking and not after.found.exists
        listed = self._renames.of(last, owner) if is_listed else None
        if listed is not None:
            yield replace(listed, verdict="override-gone")
        elif _is_gone(before, after):
            found = self._gone(use, before, after)
            why = f"nothing of {self._new.version} asks for it: {found.why}"
            yield replace(found, verdict="override-gone", why=why)
        elif after.found.exists and isinstance(use.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if name != "__init__":
                yield from override_changes(before, after, use.node)
            yield from _deprecated(use, before, after)
        elif not after.is_there:
            yield _undecided(use, before, after)


def _judgement(use: Use, change: Change, before: Meaning, after: Meaning) -> Judgement:
    """Return a change as the finding on a use, with what both releases have."""
    told: dict[str, Any] = {**vars(change), "evidence": change.evidence or after.place}
    return Judgement(**told, use=use, old=before.place)


def _lost_of_builtin(use: Use, before: Meaning, after: Meaning) -> Change | None:
    """Return the change where a call gives a builtin now that lacks what is asked of it.

    Until then the old release may have given anything else, such as bytes, which decode.
    """
    old, new = before.definition, after.definition
    if isinstance(old, ast.ClassDef) or old is None or isinstance(new, ast.ClassDef | None):
        return None
    given = ast.unparse(new.returns) if new.returns is not None else ""
    kind = getattr(builtins, given, None)
    is_same = old.returns is not None and ast.unparse(old.returns) == given
    if not isinstance(kind, type) or is_same or hasattr(kind, use.parts[-1]):
        return None
    version = after.release.version
    why = f"{new.name}() gives {given} in {version}, which has no {use.parts[-1]!r}"
    return Change("removed", "breaks", why)


def _is_gone(before: Meaning, after: Meaning) -> bool:
    """Return whether a name is certainly gone.

    Where the index cannot tell, a name that the old release defines and that is in no source of
    the new one, not even as a string, cannot come from a table or a loop either.
    """
    if after.is_missing:
        return True
    if after.found.kind != "undecided" or not after.lacking or before.found.path is None:
        return False
    evidence = after.found.evidence
    if _ELSEWHERE.search(evidence) or not _DYNAMIC.search(evidence):
        return False
    return _is_lost_module(before, after) or not after.release.defines(after.lacking)


def _is_lost_module(before: Meaning, after: Meaning) -> bool:
    """Return whether a part of a name was a module, of which the new release has no file.

    A module that others stand in for has its dotted name in a text somewhere.
    """
    parts = after.ask.name.split(".")
    if after.ask.path or after.lacking not in parts[1:]:
        return False
    count = parts.index(after.lacking, 1) + 1
    if before.release.follow(tuple(parts[:count])).found.kind != "module":
        return False
    word = re.escape(after.lacking.encode())
    return not after.release.mentions(rb"\.%s[\"']|[\"']%s[\"']\s*:" % (word, word))


def _undecided(use: Use, before: Meaning, after: Meaning) -> Change:
    side = after if before.is_there else before
    why = f"{side.release.version}: {side.found.evidence}"
    if before.is_missing and after.is_missing:
        why = f"neither release has it: {after.found.evidence}"
    # A name that was there must not pass for one that still is.
    if before.is_there and use.kind not in ("string", "override"):
        return Change("unclear", "check", why)
    return Change("undecided", "undecided", why)


def _compare(use: Use, before: Meaning, after: Meaning) -> Iterator[Change]:
    if use.is_star:
        had, has = (each.release.index.module_names(each.ask.name) for each in (before, after))
        gone = ", ".join(sorted(each for each in had - has if not each.startswith("_")))
        why = f"which names are used does not show{gone and '; gone are ' + gone}"
        yield Change("unclear" if gone else "undecided", "check" if gone else "undecided", why)
    kind = _kind_change(use, before, after)
    if kind is not None:
        yield kind
    elif use.call is not None and before.found.exists and after.found.exists:
        yield from call_changes(before, after, use.call)
    if use.kind == "subclass" and isinstance(use.node, ast.ClassDef) and not use.local:
        yield from subclass_changes(before, after, use.node)
    yield from _deprecated(use, before, after)


_AWAITABLE = re.compile(r"Awaitable|Coroutine|Future|Task")


def _kind_change(use: Use, before: Meaning, after: Meaning) -> Change | None:
    old, new = before.definition, after.definition
    is_call = use.call is not None and not use.is_awaited
    if is_call and isinstance(old, ast.FunctionDef) and isinstance(new, ast.AsyncFunctionDef):
        gives_rows = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_nodes(new))
        is_as_before = old.returns is not None and _AWAITABLE.search(ast.unparse(old.returns))
        if not gives_rows and not is_as_before:
            why = "it is a coroutine: its call is to be awaited"
            if use.is_handed_on:
                why = "it is a coroutine: what gets it has to await it"
            return Change("kind-changed", "check" if use.is_handed_on else "breaks", why)
    if not (isinstance(old, ast.FunctionDef) and isinstance(new, ast.FunctionDef)):
        return None
    was, is_now = _is_property(old), _is_property(new)
    # Importing or patching a member works for a method and a property alike.
    if was == is_now or use.kind in ("import", "string", "patch"):
        return None
    if (use.call is None) == is_now:
        return None  # it is written as the new release wants it
    now = "a property: it is not called any more" if is_now else "a method: it is called"
    return Change("kind-changed", "breaks", f"it is {now}")


def _is_property(node: ast.FunctionDef) -> bool:
    marks = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    return bool(marks & {*PROPERTIES})


def _deprecated(use: Use, before: Meaning, after: Meaning) -> Iterator[Change]:
    node, known = after.definition, before.definition
    text = deprecation_of(node) if node is not None and after.found.exists else ""
    text = (after.given.text if after.given is not None else "") or text
    # A deprecation that the old release had is no news.
    if not text or (known is not None and deprecation_of(known) == text):
        return
    names = (each for each in names_in(text) if each != use.parts[-1])
    likely = after.given.target if after.given is not None else next(names, "")
    yield Change("deprecated", "deprecated", text, likely)

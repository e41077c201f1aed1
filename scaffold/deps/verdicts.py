"""The verdict on each use: what it names in the old release, and in the new one."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import replace

from scaffold.analysis.python.decorators import PROPERTIES
from scaffold.deps.call_changes import Change, call_changes
from scaffold.deps.class_changes import override_changes, subclass_changes
from scaffold.deps.deprecation_texts import deprecation_of, names_in
from scaffold.deps.guards import hides_absence
from scaffold.deps.judgement import Judgement
from scaffold.deps.release import Meaning, Release
from scaffold.deps.rename_candidates import likely_name
from scaffold.deps.renames import Renamed, Renames
from scaffold.deps.use import CALLED, Use

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
        lost = self._lost_of_builtin(use)
        if lost is not None:
            return [lost.guarded(None)]
        inner = self._within(use)
        if inner is None:
            return []
        use = inner
        before, after = self._old.follow(use.parts), self._new.follow(use.parts)
        # One loss is reported once, at its origin.
        if CALLED in use.parts and self._is_lost_earlier(use, after):
            return []  # the use that makes it says so
        if use.kind == "override":
            found = list(self._override(use, before, after))
        elif not before.is_there:
            found = list(self._unknown_before(use, before, after))
        elif self._is_gone(before, after):
            found = [self._gone(use, before, after)]
        elif not after.is_there:
            found = [self._undecided(use, before, after)]
        else:
            found = list(self._compare(use, before, after))
        lost = None if after.is_there else self._lost_at(use)
        return [each.guarded(lost) for each in found]

    def _lost_of_builtin(self, use: Use) -> Judgement | None:
        """Return the finding where a call gives a builtin now that lacks what is asked of it.

        Until then the old release may have given anything else, such as bytes, which decode.
        """
        if use.parts[-2:-1] != (CALLED,):
            return None
        before, after = (each.follow(use.parts[:-2]) for each in (self._old, self._new))
        old, new = self._old.definition(before.found), self._new.definition(after.found)
        if isinstance(old, ast.ClassDef) or old is None or isinstance(new, ast.ClassDef | None):
            return None
        given = ast.unparse(new.returns) if new.returns is not None else ""
        kind = getattr(builtins, given, None)
        is_same = old.returns is not None and ast.unparse(old.returns) == given
        if not isinstance(kind, type) or is_same or hasattr(kind, use.parts[-1]):
            return None
        why = f"{new.name}() gives {given} in {self._new.version}, which has no {use.parts[-1]!r}"
        ends = self._place(self._old, before), self._place(self._new, after)
        return Judgement(use, "removed", "breaks", why, *ends)

    def _lost_at(self, use: Use) -> int:
        """Return which part of a name is the first that the new release lacks."""
        counts = range(1, len(use.parts))
        there = (count for count in counts if not self._new.follow(use.parts[:count]).is_there)
        return next(there, len(use.parts)) - 1

    def _is_lost_earlier(self, use: Use, after: Meaning) -> bool:
        """Return whether what a use is reached through, by a call, is not there any more."""
        called = max(index for index, part in enumerate(use.parts) if part == CALLED)
        return bool(after.lacking) and not self._new.follow(use.parts[:called]).is_there

    def _within(self, use: Use) -> Use | None:
        """Return the part of a use that is the package's; None where that is a use of its own.

        What an attribute holds, or a call gives, is some other package's as often as not: where no
        annotation says what it is, the use ends with the attribute. A call stands for itself.
        """
        parts = use.parts
        # The package and its first name are always its own.
        for count in range(2, len(parts)):
            meaning = self._old.follow(parts[: count + 1])
            is_there = meaning.is_there
            if not is_there and _ELSEWHERE.search(meaning.found.evidence):
                if CALLED in (parts[count - 1], parts[count]):
                    return None
                return replace(use, kind="reference", parts=parts[:count], call=None, node=None)
        return use

    def _is_gone(self, before: Meaning, after: Meaning) -> bool:
        """Return whether a name is certainly gone.

        Where the index cannot tell, a name that the old release defines and that stands in no
        source of the new one, not even as a string, cannot come from a table or a loop either.
        """
        if after.is_missing:
            return True
        if after.found.kind != "undecided" or not after.lacking or before.found.path is None:
            return False
        evidence = after.found.evidence
        if _ELSEWHERE.search(evidence) or not _DYNAMIC.search(evidence):
            return False
        if self._is_lost_module(after):
            return True
        return not self._new.defines(after.lacking)

    def _is_lost_module(self, after: Meaning) -> bool:
        """Return whether a part of a name was a module, of which the new release has no file.

        A module that others stand in for has its dotted name in a text somewhere.
        """
        parts = after.ask.name.split(".")
        if after.ask.path or after.lacking not in parts[1:]:
            return False
        count = parts.index(after.lacking, 1) + 1
        if self._old.follow(tuple(parts[:count])).found.kind != "module":
            return False
        word = re.escape(after.lacking.encode())
        return not self._new.mentions(rb"\.%s[\"']|[\"']%s[\"']\s*:" % (word, word))

    def _unknown_before(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Judgement]:
        if use.kind in ("string", "patch") and use.call is None and not after.is_missing:
            return
        if use.kind == "string" or after.is_there:
            return  # a text that only looks like a name, or a name that came to be
        if use.local and before.is_missing:
            return  # the class of the tree has it from another of its bases
        is_unsure = before.found.kind == "undecided" and CALLED not in use.parts
        if after.is_missing and is_unsure and use.kind != "patch":
            yield self._gone(use, before, after)
            return
        yield self._undecided(use, before, after)

    def _gone(self, use: Use, before: Meaning, after: Meaning) -> Judgement:
        likely = likely_name(self._old, self._new, before, after, self._renames)
        why = after.found.evidence
        if not after.is_missing:
            why = f"{after.lacking!r} is in no source of {self._new.version}"
        if after.given is not None:
            why = after.given.text or why
        if isinstance(use.node, ast.Call) and hides_absence(use.node):
            old = self._place(self._old, before)
            why = f"{ast.unparse(use.node.func)}() no longer finds it: {why}"
            return Judgement(use, "absence-hidden", "check", why, old, "", likely.name)
        new = likely.evidence or why
        return Judgement(
            use, likely.verdict, "breaks", why, self._place(self._old, before), new, likely.name
        )

    def _undecided(self, use: Use, before: Meaning, after: Meaning) -> Judgement:
        side = after if before.is_there else before
        release = self._new if before.is_there else self._old
        if before.is_missing and after.is_missing:
            why = f"neither release has it: {after.found.evidence}"
        else:
            why = f"{release.version}: {side.found.evidence}"
        old, new = self._place(self._old, before), self._place(self._new, after)
        # A name that was there must not pass for one that still is.
        if before.is_there and use.kind not in ("string", "override"):
            return Judgement(use, "unclear", "check", why, old, new)
        return Judgement(use, "undecided", "undecided", why, old, new)

    def _override(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Judgement]:
        if not before.found.exists or before.found.path is None:
            return  # a member of the subclass alone
        name = use.parts[-1]
        # Special methods are called by Python, whatever the base does.
        if name.startswith("__") and name.endswith("__") and name != "__init__":
            return
        listed = self._listed(after)
        if listed is not None:
            old, verdict = self._place(self._old, before), "override-gone"
            why = f"{self._new.version} lists it as {'renamed' if listed.new else 'removed'}"
            yield Judgement(use, verdict, "breaks", why, old, listed.evidence, listed.new)
        elif self._is_gone(before, after):
            found = self._gone(use, before, after)
            why = f"nothing of {self._new.version} asks for it: {found.why}"
            likely = found.likely
            yield Judgement(use, "override-gone", "breaks", why, found.old, found.new, likely)
        elif after.found.exists and isinstance(use.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if name != "__init__":
                ends = (self._old, before), (self._new, after)
                yield from self._findings(use, override_changes(*ends, use.node), before, after)
            yield from self._deprecated(use, before, after)
        elif not after.is_there:
            yield self._undecided(use, before, after)

    def _listed(self, after: Meaning) -> Renamed | None:
        """Return the entry of a table of the new release for a name that it does not have."""
        if after.found.exists or not after.lacking:
            return None
        owner, _, last = after.ask.name.rpartition(".")
        return self._renames.of(last, owner)

    def _compare(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Judgement]:
        ends = (self._old, before), (self._new, after)
        changes: list[Change] = []
        kind = self._kind_change(use, before, after)
        if kind is not None:
            changes.append(kind)
        elif use.call is not None and before.found.exists and after.found.exists:
            changes += call_changes(*ends, use.call)
        if use.kind == "subclass" and isinstance(use.node, ast.ClassDef) and not use.local:
            changes += subclass_changes(*ends, use.node)
        yield from self._findings(use, changes, before, after)
        yield from self._deprecated(use, before, after)

    def _kind_change(self, use: Use, before: Meaning, after: Meaning) -> Change | None:
        kinds = [self._is_property(self._old, before), self._is_property(self._new, after)]
        # Importing or patching a member works for a method and a property alike.
        if None in kinds or kinds[0] == kinds[1] or use.kind in ("import", "string", "patch"):
            return None
        if (use.call is None) == kinds[1]:
            return None  # it is written as the new release wants it
        now = "a property: it is not called any more" if kinds[1] else "a method: it is called"
        return Change("kind-changed", "breaks", f"it is {now}")

    def _is_property(self, release: Release, meaning: Meaning) -> bool | None:
        node = release.definition(meaning.found)
        if not isinstance(node, ast.FunctionDef):
            return None
        marks = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
        return bool(marks & {*PROPERTIES})

    def _deprecated(self, use: Use, before: Meaning, after: Meaning) -> Iterator[Judgement]:
        node = self._new.definition(after.found)
        text = deprecation_of(node) if node is not None and after.found.exists else ""
        text = (after.given.text if after.given is not None else "") or text
        known = self._old.definition(before.found)
        # A deprecation that the old release had is no news.
        if not text or (known is not None and deprecation_of(known) == text):
            return
        names = (each for each in names_in(text) if each != use.parts[-1])
        likely = after.given.target if after.given is not None else next(names, "")
        old, new = self._place(self._old, before), self._place(self._new, after)
        yield Judgement(use, "deprecated", "deprecated", text, old, new, likely)

    def _findings(
        self, use: Use, changes: list[Change] | Iterator[Change], before: Meaning, after: Meaning
    ) -> Iterator[Judgement]:
        old, new = self._place(self._old, before), self._place(self._new, after)
        for each in changes:
            more = each.likely, each.argument
            yield Judgement(use, each.verdict, each.level, each.why, old, new, *more)

    def _place(self, release: Release, meaning: Meaning) -> str:
        """Return what a release has, as its signature or name, with path and line."""
        found = meaning.found
        if not found.exists or not found.path:
            return found.evidence
        signature = release.signature(meaning)
        text = str(signature) if signature is not None else found.kind
        text = text if len(text) <= 300 else f"{text[:297]}..."
        return f"{found.path}:{found.line} {text}"

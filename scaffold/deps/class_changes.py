"""What a new release changes for the classes of a tree that derive from its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.python.follower import CALLED
from scaffold.analysis.python.index import Signature
from scaffold.analysis.python.signatures import read_signature
from scaffold.deps.deprecation_texts import Function
from scaffold.deps.judgement import Change
from scaffold.deps.release import Meaning
from scaffold.deps.source_code import own_names


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
        if _has_room(own, before, after, each.name):
            continue
        why = f"the base takes {each.name!r} now, which this does not"
        yield Change("override-signature", level, why, each.name)


def _has_room(own: Signature, before: Signature, after: Signature, name: str) -> bool:
    """Return whether the parameter took the place of one that only has another name."""
    new = after.slots
    is_no_more = name in new and len(new) <= len(before.slots)
    return is_no_more and new.index(name) < len(own.slots)


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

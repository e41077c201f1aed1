"""Whether types of TypeScript have the members that a text shows, and files what it takes."""

from __future__ import annotations

import re
from collections.abc import Collection

from scaffold.skills.check.reference import Asked, Verdict
from scaffold.skills.check.references.code import ShownType, Taken
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.resolve.scope import Scope

_ENDS = (".ts", ".tsx", ".js", ".jsx", "/index.ts", "/index.tsx", "/index.js")


def resolve_type(shown: ShownType, scope: Scope) -> Verdict:
    """Resolve a member of a type of TypeScript by the one declaration that has its name."""
    every = scope.repository.typescript.declared.get(shown.owner, [])
    # Of several, as of versions of a format, the one whose source the page names is meant.
    declared = [each for each in every if _ending(each[0]) in scope.document.text] or every
    alike = [(path, each) for path, each in declared if _is_alike(shown, each.members)]
    if not alike:
        return Verdict.unknown("it may be a type of another kind")
    for path, each in alike:
        if shown.name in each.members:
            return Verdict.holds(f"{path}:{each.members[shown.name]} declares it", path)
    if not all(each.is_whole for _, each in alike):
        return Verdict.unknown(f"{alike[0][0]} declares it with members of another type")
    path, there = alike[0]
    message = f"{shown.owner!r} has no {shown.name!r}"
    evidence = f"{path} declares it with {', '.join(there.members)}"
    return Verdict("contradicts", evidence, "method-missing", message, is_sure=False, place=path)


def _is_alike(shown: ShownType, members: Collection[str]) -> bool:
    held = sum(each in members for each in shown.every)
    return held >= 2 and 2 * held >= len(shown.every)


def _ending(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def resolve_taken(taken: Taken, scope: Scope) -> Verdict:
    """Resolve a name that a block of TypeScript takes from a file: does the file hold the word?

    An example is of a file that is yet to be, so its path is known by its end alone.
    """
    end = re.sub(r"^(?:\.{1,2}/|@/)+|\.[jt]sx?$", "", taken.path)
    found = [each for one in _ENDS for each in scope.ending_in(f"{end}{one}")]
    bases = [f"{each}/" if each else "" for each in scope.wider_bases]
    groups = ([each for each in found if each.startswith(base)] for base in bases)
    near = next(filter(None, groups), found)
    text = scope.text(near[0]) if len(near) == 1 else None
    if text is None:
        return Verdict.unknown("no one source here is meant by this path")
    if re.search(rf"(?<![\w$]){re.escape(taken.name)}(?![\w$])", text):
        return Verdict.holds(f"{near[0]} holds {taken.name}", near[0])
    if "export *" in text or "module.exports" in text or is_invented(taken.name):
        return Verdict.unknown(f"{near[0]} may take it from elsewhere, or it is a name for others")
    message = f"{near[0]} has no {taken.name!r}"
    evidence = f"the word {taken.name!r} does not occur in {near[0]}"
    asked = Asked(name=taken.name, otherwise="contradicts")
    return Verdict("absent", evidence, "import-name-missing", message, asked=asked, place=near[0])

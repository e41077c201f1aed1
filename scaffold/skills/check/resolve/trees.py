"""Whether the entries of a drawn tree are where most of the drawing is."""

from __future__ import annotations

from scaffold.skills.check.intent import intent
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.trees import Entry
from scaffold.skills.check.resolve.paths import missing
from scaffold.skills.check.resolve.scope import Scope

_MOST = 0.6
"""A drawing of which less exists is of another place, or of one that is yet to be."""


def resolve_tree(reference: Reference, scope: Scope) -> Verdict:
    """Resolve an entry of a tree."""
    entry: Entry = reference.data
    base = _base(entry, scope)
    if base is None:
        evidence = "most of the drawing does not exist: it may show another place"
        return Verdict.unknown(evidence, "another namespace")
    whole = f"{base}/{entry.path}" if base else entry.path
    if scope.files.has(whole):
        return Verdict.holds(f"git lists {whole}", whole)
    parent = whole.rpartition("/")[0]
    if entry.path.rpartition("/")[0] in entry.drawn and not scope.files.has(parent):
        return Verdict.unknown(f"{parent} is missing, which is reported already")
    name = entry.path.rpartition("/")[2]
    verdict = missing(whole, "tree-missing", scope, before=name)
    if verdict.reason not in ("absent", "moved", "other spelling"):
        return verdict
    if entry.is_made:
        # It may be missing, unless it was here: then it is made at another place now.
        verdict = verdict._replace(reason="absent", now="", fix=None)
    fix = verdict.fix
    if fix is not None:
        # A line of a drawing is fixed where the name alone is another one.
        near = fix.after.rpartition("/")[2]
        is_beside = fix.after.rpartition("/")[0].endswith(parent) and near != name
        fix = fix._replace(before=name, after=near) if is_beside else None
    asked = Asked((whole,), otherwise="generated" if entry.is_made else "contradicts")
    message = f"the tree shows {entry.path!r}"
    evidence = f"there is no {whole}"
    # A drawing of what is to be made shows what is there, too; an example of a folder that is
    # written out is one of that folder.
    is_sure = "/" in entry.root and intent(reference).wide != "makes"
    return verdict._replace(
        message=message, fix=fix, asked=asked, evidence=evidence, is_sure=is_sure
    )


def _base(entry: Entry, scope: Scope) -> str | None:
    """Return the folder in which most of a drawing exists, or None."""
    starts = list(scope.wider_bases)
    if "/" in entry.root:
        # A folder that is written with those above it is one, however much of it is there.
        whole = [
            each for each in scope.from_bases(entry.root, scope.bases) if scope.files.has(each)
        ]
        if whole:
            return whole[0]
    if entry.root not in ("", "."):
        found = scope.ending_in(entry.root)
        starts = [f"{base}/{entry.root}".strip("/") for base in starts] + found[:3] + starts
    best, most = None, 0.0
    for start in dict.fromkeys(starts):
        there = sum(scope.files.has(f"{start}/{path}" if start else path) for path in entry.every)
        if there >= 2 and there / len(entry.every) > most:
            best, most = start, there / len(entry.every)
    return best if most >= _MOST else None

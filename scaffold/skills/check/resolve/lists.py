"""Whether a list that enumerates a folder has all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from scaffold.analysis.files.history import is_test
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.lists import LEAST, Listing
from scaffold.skills.check.resolve.scope import Scope

Names = AbstractSet[str]
# What lies in a folder and is seldom meant by "its files".
_ASIDE = frozenset(
    {"__init__.py", "README.md", "readme.md", "index.md", "index.ts", "index.js", "AGENTS.md"}
    | {"CLAUDE.md", "conftest.py", "py.typed", "mod.rs"}
)
_SEVERAL = 12
_MOST = 0.75
"""A list of which more is missing is a choice."""
_SAME = 0.6
"""The same where the text names what the list is of."""


def resolve_list(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a list: its names are those of one folder, and it lacks some."""
    listing: Listing = reference.data
    if listing.what != "folder":
        return _NAMED[listing.what](reference, listing, scope)
    names = {each.strip("/").removeprefix("./") for each in listing.names}
    found: dict[str, tuple[set[str], set[str]]] = {}
    for folder in dict.fromkeys(_folders(min(names), scope)):
        for there in _entries(folder, scope):
            # Written from the folder, from above it, or with what every entry has in it.
            parts = [each.removeprefix(f"{folder}/").partition("/") for each in names]
            own, rests = {each[0] for each in parts}, {each[2] for each in parts}
            if folder and own <= there and len(own) >= LEAST and len(rests) == 1:
                if own == there:
                    return Verdict.holds(f"it has all of {folder}", folder)
                found.setdefault(folder, (own, there))
    if len(found) != 1:
        return Verdict.unknown(
            f"it enumerates {'one of several folders' if found else 'no folder'}"
        )
    folder, (own, there) = next(iter(found.items()))
    return _told(reference, own, there, folder)


def _told(reference: Reference, own: set[str], there: set[str], folder: str) -> Verdict:
    lacking = sorted(each for each in there - own if each not in _ASIDE)
    if not lacking:
        return Verdict.holds(f"it has all of {folder} that counts", folder)
    if len(own) < _MOST * len(there):
        return Verdict.unknown(f"it has {len(own)} of {len(there)} in {folder}")
    message = f"the list of {folder} lacks {lacking[0]!r}"
    evidence = f"{folder} has {len(there)}, the list {len(own)}"
    now = f"there is {', '.join(lacking)}, too"
    return Verdict(
        "contradicts", evidence, "list-incomplete", message, now, is_sure=False, place=folder
    )


def _of_classes(reference: Reference, listing: Listing, scope: Scope) -> Verdict:
    """Resolve a list of what derives from a class; a drawing is judged as a whole."""
    families = scope.repository.families
    there = {name for each in listing.of for name in families.children.get(each, ())}
    own = set(listing.names)
    if not own & there or not own <= there | {*listing.of}:
        return Verdict.unknown("it is no list of what derives from a class")
    if not listing.every:
        return _lacks(listing.of[0], there, own, there, scope)
    below = families.below(listing.every[0])
    return _lacks(listing.of[0], there, below.intersection(listing.every), below, scope)


def _of_enum(reference: Reference, listing: Listing, scope: Scope) -> Verdict:
    """Resolve the members of an enum that the sentence names."""
    own = set(listing.names)
    every = map(scope.repository.families.values, listing.of)
    if len(found := [each for each in every if own <= each]) != 1:
        return Verdict.unknown("they are of no enum that the text names")
    return _lacks(listing.of[0], found[0], own, found[0], scope)


def _of_members(reference: Reference, listing: Listing, scope: Scope) -> Verdict:
    """Resolve one of the names of a list of which the others are members of a class."""
    index, (name,) = scope.repository.python, listing.every
    words = {each for word in listing.of for each in (word, word.removesuffix("s"))}
    owners = [
        (path, f"{owner}.")
        for owner in sorted(words)
        for path, _ in index.defined(owner)[:_SEVERAL]
        if not is_test(path)
        and sum(index.find_in(path, f"{owner}.{each}").exists for each in listing.names)
        >= max(LEAST, _MOST * len(listing.names))
    ]
    if len(owners) != 1:
        return Verdict.unknown("it is no list of the members of one class")
    place, owner = owners[0]
    found = index.find_in(place, f"{owner}{name}")
    if not found.is_missing:
        return Verdict.holds(found.evidence, place)
    asked = Asked(name=name, otherwise="contradicts")
    message = f"{owner[:-1]!r} has no {name!r}"
    return Verdict("absent", found.evidence, "method-missing", message, asked=asked, place=place)


def _lacks(of: str, there: Names, named: Names, every: Names, scope: Scope) -> Verdict:
    """Return what a list lacks of what is there, where it has most of all that counts."""
    # What the page names elsewhere was left out on purpose.
    words = set(re.findall(r"\w+", scope.document.text))
    lacking = sorted(each for each in there if each not in words and each[:1] != "_")
    if not lacking:
        return Verdict.holds(f"it has all of {of}")
    if len(named) < _SAME * len(named | (every - words)):
        return Verdict.unknown(f"it is a choice of what {of} has")
    message = f"the list of {of} lacks {lacking[0]!r}"
    now = f"there is {', '.join(lacking)}, too"
    evidence = f"{of} has {', '.join(sorted(there))}"
    return Verdict("contradicts", evidence, "list-incomplete", message, now, is_sure=False)


def _of_file(reference: Reference, listing: Listing, scope: Scope) -> Verdict:
    """Resolve what a file is said to have, by its definitions: all but one are there."""
    place, index = scope.only(listing.of[0]), scope.repository.python
    if not place:
        return Verdict.unknown("no one file of this name is here")
    found = {name: index.find_in(place, name) for name in listing.names}
    missing = [name for name, each in found.items() if each.is_missing]
    if len(missing) != 1 or not all(each.exists or each.is_missing for each in found.values()):
        return Verdict.unknown("it is no list of what the file defines")
    message = f"{missing[0]!r} is not in {listing.of[0]}"
    asked = Asked(name=missing[0], otherwise="contradicts")
    evidence = found[missing[0]].evidence
    return Verdict("absent", evidence, "symbol-missing", message, asked=asked, place=place)


_NAMED = {
    "classes": _of_classes,
    "enum": _of_enum,
    "file": _of_file,
    "members": _of_members,
}


def _folders(name: str, scope: Scope) -> Iterator[str]:
    """Yield the folders that may be enumerated: those above the first name, and in it."""
    parts = name.split("/")
    for end in ("", ".py", ".md"):
        for place in scope.ending_in(f"{name}{end}")[:_SEVERAL]:
            above = place.removesuffix(f"{name}{end}").rstrip("/")
            yield from ("/".join([above, *parts[:n]]).strip("/") for n in range(len(parts)))


def _entries(folder: str, scope: Scope) -> Iterator[set[str]]:
    """Yield the names of the folders in a folder, of its files, and of its modules."""
    files = scope.files
    inner = [each.removeprefix(f"{folder}/") for each in files.below(folder)]
    plain = [each for each in inner if not each.startswith((".", "_"))]
    yield {each.partition("/")[0] for each in plain if "/" in each}
    direct = [each for each in plain if "/" not in each]
    for end in {each.rpartition(".")[2] for each in direct if "." in each}:
        same = {each for each in direct if each.endswith(f".{end}")}
        yield same
        yield {each.removesuffix(f".{end}") for each in same}

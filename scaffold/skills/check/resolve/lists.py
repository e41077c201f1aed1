"""Whether a list that enumerates a folder has all of it."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.counts import ASIDE
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.lists import LEAST, Listing
from scaffold.skills.check.resolve.scope import Scope

_SEVERAL = 12
_MOST = 0.75
"""A list of which more is missing is a choice."""


def resolve_list(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a list: its names are those of one folder, and it lacks some."""
    listing: Listing = reference.data
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
    lacking = sorted(each for each in there - own if each not in ASIDE)
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

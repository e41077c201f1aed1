"""Whether counts, versions and tags are those of the repository's own files."""

from __future__ import annotations

import re

from scaffold.analysis.counts import Counted, count_collection, count_folder
from scaffold.analysis.project.project import as_version, normal_name
from scaffold.findings import Fix
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.numbers import Count, Given
from scaffold.skills.check.resolve.scope import Scope

_TOLERANCE = 0.25
"""Sizes of files are given for orientation: so much of them may have come or gone."""
_MOVING = frozenset({"latest", "main", "master", "nightly", "dev", "edge", "stable", "local"})


def resolve_count(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a number: does any way of counting give it?"""
    count: Count = reference.data
    if count.unit in ("lines", "held"):
        return _of_file(reference, count, scope)
    items = Counted((int(count.of),), "the list below") if count.unit == "items" else None
    counted = items or _counted(count, scope)
    if counted is None:
        return Verdict.unknown("nothing of this name can be counted")
    if count.number in counted.numbers:
        return Verdict.holds(f"{counted.place} has {count.number}")
    plain = counted.numbers[0]
    is_digit = count.written.isdigit() and count.unit == "entries"
    fix = Fix(reference.line, count.written, str(plain), is_safe=False) if is_digit else None
    message = f"the number in {reference.text!r} is wrong"
    evidence = f"{counted.place} has {plain}"
    now = f"there are {plain}"
    return Verdict("contradicts", evidence, "count-differs", message, now, fix, is_sure=False)


def _of_file(reference: Reference, count: Count, scope: Scope) -> Verdict:
    """Resolve the size of a file, or a number that it is said to hold."""
    place = scope.locate(count.of)
    text = scope.text(place) if place is not None else None
    if place is None or text is None or (place != count.of and len(scope.ending_in(count.of)) > 1):
        return Verdict.unknown("no one file of this name can be read")
    message = f"the number in {reference.text!r} is wrong"
    if count.unit == "held":
        if re.search(rf"(?<![\w.]){count.number}(?![\w.])", text):
            return Verdict.holds(f"{place} has {count.number}", place)
        evidence = f"the number {count.number} does not occur in {place}"
        return Verdict("contradicts", evidence, "count-differs", message, is_sure=False)
    num_lines = len(text.splitlines())
    if abs(num_lines - count.number) <= _TOLERANCE * count.number:
        return Verdict.holds(f"{place} has {num_lines} lines", place)
    evidence, now = f"{place} has {num_lines} lines", f"there are {num_lines}"
    fix = Fix(reference.line, count.written, str(num_lines), is_safe=False)
    return Verdict("contradicts", evidence, "count-differs", message, now, fix, is_sure=False)


def _counted(count: Count, scope: Scope) -> Counted | None:
    if count.unit == "entries":
        return count_collection(count.of.rpartition(".")[2], None, scope.repository)
    clean = count.of.rstrip("/")
    place = scope.locate(clean)
    if place is None or place not in scope.files.folders:
        return None
    # A folder that is named by its last part only may be any of several.
    if place != clean and len(scope.ending_in(clean)) > 1:
        return None
    return count_folder(place, scope.files)


def resolve_version(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a version: is it that of the project's own files?"""
    given: Given = reference.data
    if given.what == "image":
        return _image(reference, given, scope)
    if given.what == "floor":
        return _floor(reference, given, scope)
    if given.what == "limit":
        return _limit(reference, given, scope)
    project = scope.repository.project
    known = project.pins.get(normal_name(given.name), {})
    asked = as_version(given.version)
    for version, path in known.items():
        if version == given.version or as_version(version) == asked:
            return Verdict.holds(f"{path} has it", path)
    document = scope.document
    known = {
        version: path
        for version, path in known.items()
        if project.is_general(path, document.path) or path in document.text
    }
    if not known:
        return Verdict.unknown(f"no file of the project pins {given.name} for all of it")
    version, path = next(iter(known.items()))
    return _differs(reference, f"{path} has {version}", given, version if len(known) == 1 else "")


def _floor(reference: Reference, given: Given, scope: Scope) -> Verdict:
    floors = scope.repository.project.floors(given.name)
    asked = as_version(given.version)
    for path, floor in floors.items():
        # "Node 20" is said of 20.11, and "Python 3.11" of 3.11.4.
        if asked == floor[: len(asked)] or floor == asked[: len(floor)]:
            return Verdict.holds(f"{path} has it", path)
    if not floors or any(floor < asked for floor in floors.values()):
        return Verdict.unknown("the project's files ask for no more than that")
    path, floor = min(floors.items(), key=lambda each: (each[1], each[0].count("/")))
    now = ".".join(map(str, floor))
    return _differs(reference, f"{path} asks for {now}", given, now)


def _limit(reference: Reference, given: Given, scope: Scope) -> Verdict:
    """Resolve the limit of a package by the limits on the same side that files of here have."""
    bounds = scope.repository.project.bounds
    name = normal_name(given.name)
    known = bounds.get(name) or bounds.get(name.removeprefix("py")) or {}  # PyTorch is torch
    sign, version = given.version.rstrip("0123456789."), given.version.lstrip("<>=")
    same = {each: path for each, path in known.items() if each[0][0] == sign[0]}
    for (_, limit), path in known.items():
        # "< 3.24" is what ">= 3.24" leaves out.
        if as_version(limit) == as_version(version):
            return Verdict.holds(f"{path} has it", path)
    if not same:
        return Verdict.unknown(f"no file of the project has such a limit of {given.name}")
    (other, limit), path = next(iter(same.items()))
    now = f"{other}{limit}" if len({*same}) == 1 else ""
    return _differs(reference, f"{path} has {other}{limit}", given, now)


def _image(reference: Reference, given: Given, scope: Scope) -> Verdict:
    tags = scope.repository.images.tags(given.name)
    tag = given.version
    if tag in tags:
        return Verdict.holds(f"{tags[tag]} has it", tags[tag])
    if any(each.startswith((f"{tag}-", f"{tag}.")) for each in tags):
        return Verdict.holds(f"a tag of the repository begins with {tag}")
    if not tags or tag in _MOVING or any("$" in each or each in _MOVING for each in tags):
        return Verdict.unknown("no file of the repository has one fixed tag of this image")
    now, path = next(iter(tags.items()))
    message = f"{given.name} has another tag than {tag!r}"
    one = len(tags) == 1
    fix = Fix(reference.line, reference.text, f"{given.name}:{now}", is_safe=False) if one else None
    shown = f"the tag is {now}" if one else ""
    return Verdict(
        "contradicts", f"{path} uses {now}", "image-tag-differs", message, shown, fix, is_sure=False
    )


def _differs(reference: Reference, evidence: str, given: Given, now: str) -> Verdict:
    message = f"{reference.text!r} is not the version of the project"
    fix = Fix(reference.line, given.version, now, is_safe=False) if now else None
    # A command runs with what it is given; in a sentence the version may be that of something else.
    is_sure = given.what == "floor" and reference.block is not None
    return Verdict(
        "contradicts", evidence, "version-differs", message, evidence, fix, is_sure=is_sure
    )

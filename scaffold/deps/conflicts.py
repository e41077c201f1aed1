"""What can be done about pins that do not go together: move another one, or ask a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from scaffold.analysis.files.files import Files
from scaffold.deps.groups import groups_of
from scaffold.deps.pin import EditedFiles, Pin
from scaffold.deps.pins import find_pins
from scaffold.deps.resolver import Resolution, Want, resolve_with_pip
from scaffold.deps.specifiers import admits

# `black==24.1.0` and `black<=24.1.0`, of uv, or `black[d] 24.1.0`, of pip.
_RELEASES = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?(?:[<>=!~^]|\s+\d)")


class Choice(NamedTuple):
    """One package in the way.

    Args:
        package: The package that wants something else.
        kind: "auto" where a pin of it can move within its declared range, else "person".
        pin: The release to move it to, as ``name==version``; "" where none was found.
        why: One sentence for a reader.
        wants: Who wants what.
    """

    package: str
    kind: Literal["auto", "person"]
    pin: str
    why: str
    wants: tuple[Want, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON has it."""
        return {**self._asdict(), "wants": [each._asdict() for each in self.wants]}


def choices_for(
    files: Files,
    pins: Sequence[Pin],
    answer: Resolution,
    releases: Container[str],
    python: str | None,
) -> list[Choice]:
    """Return what to do about each package that is in the way of a resolution.

    A pin whose package is declared elsewhere in the manifests with a range may move within that
    range; whether a release there makes all agree is asked of pip.

    Args:
        files: The tree, edited.
        pins: The pins that moved.
        answer: Why their packages do not go together.
        releases: Their packages.
        python: The interpreter whose pip is asked; None for the one that runs this.
    """

    def version_within(name: str, loosened: Sequence[Pin], spec: str) -> str:
        """Return the release that pip finds with some pins of a package replaced by a range."""
        loose = EditedFiles(files, ((pin, spec) for pin in loosened))
        for group in groups_of(loose, pins):
            # pip names the group that failed; the others answer for all groups at once.
            if group.name == answer.group or answer.resolver != "pip":
                tried = resolve_with_pip(group, python)
                version = tried.versions.get(name, "") if tried.ok else ""
                if version and (not spec or admits(spec, Version(version))):
                    return version
        return ""

    found: list[Choice] = []
    for want in answer.wants:
        by = _RELEASES.match(want.by)
        name = canonicalize_name(by["name"]) if by else ""
        if not name or name in releases or any(each.package == name for each in found):
            continue
        found.append(_choice(files, answer, name, version_within))
    if not found:
        text = next((row for row in answer.text.splitlines() if row), "no releases go together")
        found.append(Choice("", "person", "", text[:300], tuple(answer.wants)))
    return found


def _choice(
    files: Files,
    answer: Resolution,
    name: str,
    version_within: Callable[[str, Sequence[Pin], str], str],
) -> Choice:
    # Version 0 only asks whether the specifier can be read at all.
    own = [each for each in find_pins(files, name) if admits(each.spec, Version("0")) is not None]
    exact = [each for each in own if each.spec.startswith("==") and "*" not in each.spec]
    ranges = [each for each in own if each not in exact and each.spec]
    wants = tuple(answer.wants)
    told = "; ".join(f"{each.by} wants {each.requirement}" for each in wants)
    if not own:
        return Choice(name, "person", "", f"{name} comes with another package: {told}", wants)
    spec = ",".join(sorted({each.spec for each in ranges}))
    version = version_within(name, exact, spec)
    if version and exact and ranges:
        places = ", ".join(f"{each.path}:{each.line}" for each in exact)
        text = f"{name}=={version} lies within {spec!r} and agrees: move {places}"
        return Choice(name, "auto", f"{name}=={version}", text, wants)
    # Asked without any range at last, to name the release that a person would have to allow.
    free = version or version_within(name, own, "")
    if free:
        declared = ", ".join(f"{each.spec} in {each.path}:{each.line}" for each in own)
        text = f"{name}=={free} would agree, outside of what is declared: {declared}"
        return Choice(name, "person", f"{name}=={free}", text, wants)
    return Choice(name, "person", "", f"no release of {name} agrees: {told}", wants)

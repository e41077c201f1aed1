"""Pins in commands and lists: Dockerfiles, scripts, Makefiles, pipelines, environments of conda."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.project.project import normal_name
from scaffold.deps.pin import Pin, name_pattern, pin_at

# One clause of a specifier; extras in brackets; the beginning of `$X`, `${X}` or `${{ env.X }}`.
_CLAUSE = r"(?:===|==|~=|>=|<=|!=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_EXTRAS = r"(?:\[[^\]\s]*\])?"
_VALUE = r"[\"']?\$[{(]*\s*(?:env\.)?"
# `FROM vllm/vllm-openai:v0.8.5-cu121`.
_IMAGE = (
    r"(?m:^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*)(?P<image>[\w./-]+(?::\d+/[\w./-]+)?)"
    r":v?(?P<spec>\d[\w.]*)(?P<suffix>[-+]\S+)?"
)
_CONDA = re.compile(r"(^|/)environment[^/]*\.ya?ml$")


def pins_in_commands(path: str, text: str, wanted: str) -> Iterator[Pin]:
    """Yield the pins of a package: written out, by a variable of the file, or out of reach."""
    named = rf"{name_pattern(wanted)}{_EXTRAS}"
    # Places that a closer pattern has read, so that the last and widest one skips them.
    covered: set[int] = set()
    for each in _outside_comments(rf"{named}\s*(?P<spec>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)", text):
        covered.add(each.start())
        yield pin_at(path, text, each.span("spec"), "command")
    variables: dict[str, list[Pin]] = {}
    for each in _outside_comments(rf"{named}=={_VALUE}(?P<name>\w+)", text):
        name = each["name"]
        if name not in variables:
            variables[name] = list(_assigned(path, text, name, wanted))
            yield from variables[name]
        if variables[name]:
            covered.add(each.start())
    for each in _outside_comments(rf"{named}(?P<spec>(?:===|==|~=|>=|<=|!=)\S*)", text):
        if each.start() not in covered:
            yield pin_at(path, text, each.span("spec"), "command", "the release is computed")
    for each in _outside_comments(_IMAGE, text):
        words = {*re.split(r"[/_.-]", each["image"].lower()), *each["image"].split("/")}
        suffix = each["suffix"]
        why = f"whether an image {suffix!r} of another release exists is not known here"
        if wanted in words:
            yield pin_at(path, text, each.span("spec"), "image", why if suffix else "")
    own = f"{re.sub(r'[-.]', '_', wanted)}_VERSION"
    for name in {own.upper(), own} - variables.keys():
        yield from _assigned(path, text, name, wanted)
    if _CONDA.search(path):
        for each in _outside_comments(rf"{named}\s*(?P<spec>=(?!=)\s*\d\S*)", text):
            why = "it is conda's, whose channels have their own releases"
            yield pin_at(path, text, each.span("spec"), "command", why)


def _outside_comments(pattern: str, text: str) -> Iterator[re.Match[str]]:
    for each in re.finditer(pattern, text):
        row = text[text.rfind("\n", 0, each.start()) + 1 : each.start()]
        if not row.lstrip().startswith(("#", "//")):
            yield each


def _assigned(path: str, text: str, variable: str, wanted: str) -> Iterator[Pin]:
    """Yield the places that set a variable; they stay where another package takes it too."""
    takers = re.finditer(
        rf"(?P<other>[A-Za-z0-9][\w.-]*){_EXTRAS}=={_VALUE}{variable}\b", text, re.ASCII
    )
    others = sorted({each["other"] for each in takers if normal_name(each["other"]) != wanted})
    why = f"{', '.join(others)} takes {variable} too" if others else ""
    # `ENV X 1.2`, `X=1.2`, `X := 1.2`, `X: "1.2"`.
    assigned = re.compile(
        rf"(?m:^|\s)(?:(?:ENV|ARG)\s+{variable}\s+|{variable}\s*(?:[:?]?=|:)\s*)[\"']?v?"
        r"(?P<spec>\d[A-Za-z0-9.+!]*)"
    )
    for each in assigned.finditer(text):
        yield pin_at(path, text, each.span("spec"), f"variable {variable}", why)

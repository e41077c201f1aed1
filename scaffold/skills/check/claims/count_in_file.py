"""Counts of what a settings file lists: "4 markers in `pyproject.toml`"."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.count import PARTLY
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.numbers import NUMBER, value_of
from scaffold.skills.check.claims.places import locate
from scaffold.skills.check.documents import Document
from scaffold.skills.check.doubt import is_doubtful_intro
from scaffold.skills.check.markdown import Block

_NOUNS = (
    "markers", "extras", "dependencies", "scripts", "entry points", "hooks", "services", "jobs",
)  # fmt: skip
_NOUN = rf"(?P<noun>{'|'.join(_NOUNS)})"
_ENDS = ("pyproject", ".toml", ".yaml", ".yml", ".json")
_KIND = r"(?:(?:pytest|runtime|optional|console|npm|pre-commit|compose|registered)\s+)?"
_FILE = r"`?(?P<file>pyproject(?:\.toml)?|[\w./-]*\.(?:toml|ya?ml|json))`?"
_IN_FILE = lazy_re(
    rf"\b{NUMBER}\s+{_KIND}{_NOUN}\s+(?:(?:are\s+)?(?:registered|declared|defined|listed)\s+)?"
    rf"(?:in|of)\s+(?:the\s+)?{_FILE}",
    re.IGNORECASE,
)
_FILE_HAS = lazy_re(
    rf"{_FILE}\s+(?:has|registers|declares|defines|lists|contains)\s+(?:exactly\s+)?{NUMBER}\s+"
    rf"{_KIND}{_NOUN}\b",
    re.IGNORECASE,
)
_SENTENCE = lazy_re(r"(?<=[.;!?])\s")


class Listed(NamedTuple):
    """A number of things with the file that lists them.

    Args:
        number: The number.
        written: How it is written.
        noun: What is counted.
        file: The file, as the text names it.
        is_partly: Whether the number may be that of some of them.
    """

    number: int
    written: str
    noun: str
    file: str
    is_partly: bool


def find_counts_in_files(document: Document) -> Iterator[Claim]:
    """Yield the numbers that a text about its repository gives of what a file lists."""
    if not document.is_about_here:
        return
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item", "cell"):
            words = block.text.lower()
            if any(each in words for each in _ENDS) and any(each in words for each in _NOUNS):
                yield from _claims(block)


def _claims(block: Block) -> Iterator[Claim]:
    for pattern in (_IN_FILE, _FILE_HAS):
        for found in pattern.finditer(block.text):
            sentence = _SENTENCE.split(block.text[: found.end()])[-1]
            is_partly = bool(PARTLY.search(sentence)) or is_doubtful_intro(sentence)
            noun, file = found["noun"].lower(), found["file"]
            data = Listed(value_of(found["number"]), found["number"], noun, file, is_partly)
            line = block.line + block.text.count("\n", 0, found.start("number"))
            yield Claim("count in file", f"{found['number']} {noun} in {file}", line, 1, data)


def judge_count_in_file(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a number: does the file list so many?"""
    listed = cast("Listed", claim.data)
    name = "pyproject.toml" if listed.file == "pyproject" else listed.file
    place = locate(name, document, repository)
    text = repository.files.look_into(place.path) if place else None
    if place is None or text is None:
        return Verdict.open(f"there is no {name} to count in")
    numbers = _numbers(place.path, text, listed.noun)
    if not numbers:
        return Verdict.open(f"{place.path} has no {listed.noun} that can be counted")
    if listed.number in numbers:
        return Verdict.holds(f"{place.path} has {listed.number}")
    if listed.is_partly:
        return Verdict.open("the number may be that of some of them")
    now = numbers[0]
    is_digit = listed.written.isdigit()
    return Verdict.fails(
        "count-differs",
        f"the number in {claim.text!r} is another",
        f"{place.path} has {now}",
        now=f"there are {now}",
        fix=Fix(claim.line, listed.written, str(now), is_safe=False) if is_digit else None,
    )


def _numbers(path: str, text: str, noun: str) -> list[int]:
    """Return how many a file lists, by each way of counting; none where it lists no such thing."""
    try:
        table = _loaded(path, text)
    except (ValueError, RecursionError):
        return []
    found = [_at(table, *keys) for keys in _KEYS.get(noun, ())]
    numbers = [len(cast("list[Any]", each)) for each in found if isinstance(each, dict | list)]
    if noun == "hooks":
        hooks = (each for repo in _rows(_at(table, "repos")) for each in _rows(_at(repo, "hooks")))
        ids = [str(_at(each, "id")) for each in hooks]
        numbers = [len(ids), len(set(ids))] if ids else []
    return [*numbers, sum(numbers)] if len(numbers) > 1 else numbers


_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "markers": (("tool", "pytest", "ini_options", "markers"), ("tool", "pytest", "markers")),
    "extras": (("project", "optional-dependencies"), ("tool", "poetry", "extras")),
    "dependencies": (
        *(("project", "dependencies"), ("tool", "poetry", "dependencies")),
        *(("dependencies",), ("devDependencies",)),
    ),
    "scripts": (("project", "scripts"), ("tool", "poetry", "scripts"), ("scripts",)),
    "entry points": (("project", "scripts"), ("project", "gui-scripts")),
    "services": (("services",),),
    "jobs": (("jobs",),),
}


def _loaded(path: str, text: str) -> Any:
    if path.endswith(".toml"):
        return tomllib.loads(text)
    if path.endswith(".json"):
        return json.loads(text)
    import yaml  # costs 20 ms; only YAML needs it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def _rows(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


COUNTS_IN_FILES = Kind("count in file", find_counts_in_files, judge_count_in_file)

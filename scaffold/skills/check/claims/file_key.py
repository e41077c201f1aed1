"""Keys that a text names with their file: "`project.scripts` in `pyproject.toml`"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.files.data_files import known_part, load_data
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.places import locate
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.sentence import sentence_around

_KEY = lazy_re(r"\[?(?P<key>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)+)\]?")
_IN_FILE = lazy_re(
    r"^\s+(?:key\s+|field\s+|setting\s+|section\s+|table\s+)?(?:in|of|from)\s+(?:the\s+)?"
    r"`(?P<file>[\w./-]+\.(?:ya?ml|json|toml))`"
)
# What is set, or comes by default, need not stand in the file.
_SET = lazy_re(
    r"\b(?:set\w*|add\w*|chang\w+|updat\w+|configur\w+|enabl\w+|disabl\w+|overrid\w+|put\w*|defin\w+"
    r"|edit\w*|adjust\w*|uncomment\w*|insert\w*|via|default\w*|specif\w+|declar\w+|check\w*|need\w*"
    r"|must|should|may|can|whether|list(?:ed)?|customi[sz]\w+|register\w*|extend\w*|bump\w*)\b",
    re.IGNORECASE,
)

_TAKEN = frozenset({"extends", "include", "includes", "inherit", "defaults", "imports", "<<"})


class FileKey(NamedTuple):
    """A key with its file, and why the text claims nothing, or empty."""

    key: str
    file: str
    silent: str


def find_file_keys(document: Document) -> Iterator[Claim]:
    """Yield the dotted keys that a text gives together with their file."""
    if not document.is_about_here:
        return
    for span in document.markdown.codes:
        found = _KEY.fullmatch(span.text)
        place = _IN_FILE.match(span.after) if found else None
        if not found or not place or is_placeholder(found["key"]) or is_placeholder(place["file"]):
            continue
        silent = silence(span) or ""
        if not silent and _SET.search(" ".join(sentence_around(span))):
            silent = "it may be a key that is yet to be set"
        text = f"{found['key']} in {place['file']}"
        data = FileKey(found["key"], place["file"], silent)
        yield Claim("file key", text, span.line, span.column, data)


def judge_file_key(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a key: does the file have it?"""
    key: FileKey = claim.data
    place = locate(key.file, document, repository)
    if place is None or place.path not in repository.files.paths:
        return Verdict.open(f"there is no {key.file} here")
    value = load_data(place.path, repository.files)
    if not isinstance(value, dict):
        return Verdict.open(f"{place.path} cannot be read as keys and values")
    if any(each in value for each in _TAKEN):
        return Verdict.open(f"{place.path} takes keys from another file")
    known = known_part(value, key.key)
    parts = key.key.split(".")
    if known is None:
        return Verdict.open("a list is on the way")
    if known == len(parts):
        return Verdict.holds(f"{place.path} has it")
    if key.silent:
        return Verdict.open(key.silent)
    if parts[known] in (repository.files.look_into(place.path) or ""):
        return Verdict.open(f"{place.path} has the word at another place")
    name = key.file.rpartition("/")[2]
    if "/" not in key.file and len(repository.files.by_name.get(name, ())) > 1:
        return Verdict.open(f"{key.file} may be any of several files")
    above = ".".join(parts[:known]) or "its top"
    return Verdict.fails(
        "config-key-missing",
        f"there is no key {key.key!r} in {key.file}",
        f"{place.path} has no {parts[known]!r} at {above}",
    )


FILE_KEYS = Kind("file key", find_file_keys, judge_file_key)

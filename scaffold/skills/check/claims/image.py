"""Container images with their tags: ``ghcr.io/owner/name:tag``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.command_words import find_commands
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import is_placeholder
from scaffold.skills.check.documents import Document
from scaffold.skills.check.doubt import is_doubted
from scaffold.skills.check.sentence import sentence_around

# With a dot at the end of its name, it is a file with a line.
_IMAGE = lazy_re(
    r"(?P<name>[a-z0-9][\w.-]*(?::\d{2,5})?(?:/[a-z0-9][\w-]*)+):(?P<tag>[A-Za-z0-9_][\w.-]*)"
)
# Without a slash it may be anything ("python:3.12"), if nothing around it speaks of images.
_SHORT = lazy_re(r"(?P<name>[a-z][a-z0-9-]*):(?P<tag>v?\d[\w.-]*)")
_NEAR = 20
_OF_IMAGES = lazy_re(r"\b(?:images?|containers?|docker\w*|base|compose|podman)\b", re.IGNORECASE)
_MOVING = frozenset({"latest", "main", "master", "nightly", "dev", "edge", "stable", "local"})
_ANOTHER = lazy_re(
    r"\b(?:old(?:er)?|legacy|previous\w*|example|e\.g|your|instead|not|never|upgrad\w*|was|were|bump\w*"
    r"|replac\w*|chang\w*|tag(?:s|ged|ging)?|build|push|from|migrat\w*)\b",
    re.IGNORECASE,
)


def find_images(document: Document) -> Iterator[Claim]:
    """Yield the images that a document names with a tag."""
    if not document.is_about_here:
        return
    for span in document.markdown.codes:
        if ":" not in span.text:
            continue
        before, after = sentence_around(span)
        words = f"{before} {after}"
        found = _IMAGE.fullmatch(span.text)
        if found is None and _OF_IMAGES.search(f"{before[-_NEAR:]} {after[:_NEAR]}"):
            found = _SHORT.fullmatch(span.text)
        if found and not is_placeholder(span.text):
            silent = bool(_ANOTHER.search(words)) or is_doubted(span)
            yield _claim(found, span.line, span.column, silent)
    for command in find_commands(document):
        texts = [word.text for word in command.words]
        makes = {"build", "push", "tag"} & set(texts)
        takes = texts[0] in ("docker", "podman") and bool({"run", "pull"} & set(texts[1:3]))
        for word in command.words:
            found = _IMAGE.fullmatch(word.text) if word.is_sure else None
            if found is None and takes and word.is_sure:
                found = _SHORT.fullmatch(word.text)
                takes = found is None  # what follows is for the program in it
            if found and not is_placeholder(word.text):
                silent = bool(makes) or command.is_wrong
                yield _claim(found, command.line_of(word), command.column, silent)


def _claim(found: re.Match[str], line: int, column: int, silent: bool) -> Claim:
    return Claim("image", found.group(), line, column, (found["name"], found["tag"], silent))


def judge_image(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a tag: do the files that use the image have it, too?"""
    name, tag, silent = claim.data
    tags = repository.images.tags(name)
    if tag in tags:
        return Verdict.holds(f"{tags[tag]} has it")
    if any(each.startswith((f"{tag}-", f"{tag}.")) for each in tags):
        return Verdict.holds(f"a tag of the repository begins with {tag}")
    if not tags:
        return Verdict.open("no file of the repository uses this image")
    if tag in _MOVING or any("$" in each or each in _MOVING for each in tags):
        return Verdict.open("one of the tags moves, or is made of variables")
    if silent:
        return Verdict.open("the words around it may speak of another tag on purpose")
    now, path = next(iter(tags.items()))
    return Verdict.fails(
        "image-tag-differs",
        f"{name} has another tag than {tag!r}",
        f"{path} uses {now}",
        now=f"the tag is {now}" if len(tags) == 1 else "",
        fix=Fix(claim.line, claim.text, f"{name}:{now}", is_safe=False) if len(tags) == 1 else None,
    )


IMAGES = Kind("image", find_images, judge_image)

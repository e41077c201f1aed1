"""Links to files and to headings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.assertion import Stance
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import denial, is_placeholder
from scaffold.skills.check.documents import CLIENT_FOLDERS, Document
from scaffold.skills.check.markdown import Span, parse_markdown

_SCHEME = lazy_re(r"^(?:[a-z][a-z0-9+.-]*:|//|#!|@)", re.IGNORECASE)
_SUCH_AS = lazy_re(r"\b(?:such as|e\.g\.,?|for example,?|links? like)\s*$", re.IGNORECASE)
_HTML_ANCHOR = lazy_re(r"<\w+[^>]*\s(?:id|name)=[\"']([^\"']+)[\"']")


def find_links(document: Document) -> Iterator[Claim]:
    """Yield the links of a document that lead to no address of the web."""
    for span in document.markdown.links:
        if not _SCHEME.match(span.text) and not is_placeholder(_unquoted(span.text)):
            yield Claim("link", span.text, span.line, span.column, span)


def judge_link(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a link: do the file and the heading exist?"""
    to, _, anchor = claim.text.partition("#")
    to = _unquoted(to.partition("?")[0])
    if not to:
        return _judge_anchor(anchor, document.path, document.text, claim)
    if to in ("url", "link", "path", "file", "text"):
        return Verdict.open("the destination is a word that stands for any")
    places = _places(to, document)
    inside = [place for place in places if not place.startswith("..")]
    if not inside:
        return _judge_outside(claim, document)
    found = next((place for place in inside if repository.files.has(place)), None)
    if found is None:
        if denied := _denial(claim.data):
            return Verdict.open(denied)
        if to.startswith("/") and inside[0].split("/")[0] not in repository.files.folders:
            return Verdict.open("it may be meant from the root of a site")
        return _judge_missing(claim, inside[0], document, repository)
    if not anchor:
        return Verdict.holds(f"git lists {found}")
    text = repository.files.look_into(found) if found.endswith(".md") else None
    if text is None:
        return Verdict.holds(f"git lists {found}; only headings of Markdown are looked for")
    return _judge_anchor(anchor, found, text, claim)


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # 3 ms, and few links need it

    return unquote(text)


def _denial(span: Span) -> str | None:
    """Return why the words around a link say that it leads to nothing yet, or None."""
    if _SUCH_AS.search(span.before):
        return "it may be an example"
    return None if Stance(span).is_directed else denial(span)


def _places(to: str, document: Document) -> list[str]:
    """Return where a link can lead: from its file, from the skill, and with / from the root."""
    if to.startswith("/"):
        return [os.path.normpath(to.lstrip("/") or ".")]
    own = document.path.rpartition("/")[0]
    # What stands in a client's folder is read from the top of the repository.
    top = [""] if document.path.startswith(CLIENT_FOLDERS) and document.kind != "reference" else []
    folders = dict.fromkeys([own, document.folder, *top])
    return [os.path.normpath(f"{folder}/{to}" if folder else to) for folder in folders]


def _judge_outside(claim: Claim, document: Document) -> Verdict:
    if document.kind not in ("skill", "reference"):
        return Verdict.open("it leads out of the repository")
    return Verdict.fails(
        "link-outside", f"{claim.text!r} leads out of the repository", "it climbs above the root"
    )


def _judge_missing(claim: Claim, place: str, document: Document, repository: Repository) -> Verdict:
    files = repository.files
    if files.is_ignored(place):
        return Verdict.open("git ignores it: it is made, not kept")
    own = document.path.rpartition("/")[0] or "."
    same = files.by_lower.get(place.lower())
    near = [same] if same else files.by_name.get(place.rpartition("/")[2], [])
    fix = None
    if len(near) == 1:
        path, _, anchor = claim.text.partition("#")
        after = os.path.relpath(near[0], own) + (f"#{anchor}" if anchor else "")
        fix = Fix(claim.line, claim.text, after, is_safe=path.rpartition("/")[2] not in _COMMON)
    return Verdict.fails(
        "link-missing",
        f"the link {claim.text!r} leads nowhere",
        f"there is no {place}",
        now=f"there is {near[0]}" if len(near) == 1 else "",
        fix=fix,
    )


_COMMON = frozenset({"README.md", "SKILL.md", "index.md", "__init__.py"})


def _judge_anchor(anchor: str, path: str, text: str, claim: Claim) -> Verdict:
    anchors = heading_anchors(text)
    if anchor in anchors or _unquoted(anchor) in anchors or re.fullmatch(r"L\d+(?:-L\d+)?", anchor):
        return Verdict.holds(f"{path} has the heading")
    if anchor.lower() in anchors or anchor == "top" or anchor.startswith(":~:"):
        return Verdict.holds(f"{path} has the heading in another case")
    from difflib import get_close_matches

    near = get_close_matches(anchor, sorted(anchors), n=1, cutoff=0.8)
    before = f"#{anchor}"
    return Verdict.fails(
        "link-anchor",
        f"the link {claim.text!r} leads to a heading that does not exist",
        f"{path} has {len(anchors)} headings",
        now=f"there is #{near[0]}" if near else "",
        fix=Fix(claim.line, before, f"#{near[0]}", is_safe=False) if near else None,
    )


@lru_cache(maxsize=256)
def heading_anchors(text: str) -> frozenset[str]:
    """Return the anchors of a text's headings as GitHub makes them, and those set in HTML.

    Source:
        The behaviour of github.com: lower case, punctuation dropped, spaces to hyphens, a number
        behind the second of two equal ones.
    """
    found: set[str] = set(_HTML_ANCHOR.findall(text))
    counts: dict[str, int] = {}
    body_line = read_front_matter(text).body_line
    for block in parse_markdown(text.split("\n"), body_line).headings:
        slug = _slug(block.text)
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return frozenset(found)


def _slug(heading: str) -> str:
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    plain = re.sub(r"<[^>]+>", "", plain).replace("`", "")
    plain = re.sub(r"(?<!\w)[*_]{1,3}|[*_]{1,3}(?!\w)", "", plain)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


LINKS = Kind("link", find_links, judge_link)

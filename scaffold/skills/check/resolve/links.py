"""Whether a link leads to a file and to a heading."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.files.sites import find_page, may_be_generated, site_of
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import closest
from scaffold.findings import Fix
from scaffold.skills.check.read.markdown import parse_markdown
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.links import unquoted
from scaffold.skills.check.references.placeholders import is_placeholder
from scaffold.skills.check.resolve.scope import Scope

_HTML_ANCHOR = lazy_re(r"<\w+[^>]*\s(?:id|name)=[\"']([^\"']+)[\"']")
_OWN_ID = lazy_re(r"\{#([\w:.-]+)[^}]*\}|^\(([\w:. -]+)\)=\s*$", re.MULTILINE)
"""An anchor that a heading is given: ``{#name}``, and ``(name)=`` in front of it."""

_RULE = "link-missing"
ANOTHER = "another namespace"


def resolve_link(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a link: are the file and the heading there?"""
    to, _, anchor = reference.text.partition("#")
    to = unquoted(to.partition("?")[0])
    if not to:
        return _anchor(anchor, scope.document.path, scope.document.text, reference)
    own = scope.document.path.rpartition("/")[0]
    start = "" if to.startswith("/") else own
    place = os.path.normpath(os.path.join(start, to.lstrip("/"))).replace(os.sep, "/")
    site = site_of(scope.document.path, scope.files) if scope.document.kind == "page" else None
    if site is not None and not scope.files.has(place):
        if found := find_page(to, scope.document.path, site, scope.files):
            return Verdict.holds(f"the site shows {found} there", found)
        if may_be_generated(to):
            return Verdict.unknown("the site's generator may make this address", ANOTHER)
    if place.startswith(".."):
        return _outside(reference, to, scope)
    if scope.files.has(place):
        return _at(place, anchor, reference, scope)
    return _missing(reference, place, to, scope)


def _at(place: str, anchor: str, reference: Reference, scope: Scope) -> Verdict:
    text = scope.text(place) if anchor and place.endswith((".md", ".mdc")) else None
    if text is None:
        return Verdict.holds(f"git lists {place}", place)
    return _anchor(anchor, place, text, reference)


def _outside(reference: Reference, to: str, scope: Scope) -> Verdict:
    if scope.document.kind not in ("skill", "reference"):
        return Verdict.unknown("it leads out of the repository", "another namespace")
    if found := _from_root(to, scope):
        return _written_from_root(reference, found, to, scope)
    message = f"{reference.text!r} leads out of the repository"
    return Verdict("contradicts", "it climbs above the root", "link-outside", message)


def _missing(reference: Reference, place: str, to: str, scope: Scope) -> Verdict:
    files = scope.files
    row = scope.document.lines[reference.line - 1]
    if row[reference.column - 2 : reference.column - 1] == "<" and "." not in to:
        return Verdict.unknown("it is a word in angle brackets", "placeholder")
    message, evidence = f"the link {reference.text!r} leads nowhere", f"there is no {place}"
    if found := _from_root(to, scope):
        return _written_from_root(reference, found, to, scope)
    if same := files.spelled_like(place):
        fix = _fix(reference, same, to, scope)
        return Verdict("other spelling", f"git lists {same}", _RULE, message, f"it is {same}", fix)
    if to.startswith("/"):
        return Verdict.unknown("it may be meant from the root of a site", "another namespace")
    name = place.rpartition("/")[2]
    near = files.by_name.get(name, []) if "." in name else []
    ending = [each for each in scope.ending_in(to.lstrip("./")) if each in near] or near
    if len(ending) == 1:
        fix = _fix(reference, ending[0], to, scope)
        now, asked = f"it is {ending[0]}", Asked((place,))
        return Verdict("moved", evidence, _RULE, message, now, fix, asked)
    if not re.search(r"[./]", to):
        return Verdict.unknown("the destination is a placeholder", "placeholder")
    # A link has one meaning only: what it leads to is not there, whatever else is.
    return Verdict(
        "absent", evidence, _RULE, message, asked=Asked((place,), otherwise="contradicts")
    )


def _from_root(to: str, scope: Scope) -> str:
    """Return what a link that does not work from its file leads to from the root, or nothing."""
    clean = os.path.normpath(re.sub(r"^(?:\.\./)+|^/", "", to)).replace(os.sep, "/")
    is_plain = not to.startswith("..") and clean != "."
    folders = dict.fromkeys([scope.document.folder, ""]) if is_plain else ()
    for folder in folders:
        whole = f"{folder}/{clean}" if folder else clean
        if scope.files.has(whole) and "/" in whole:
            return whole
    return ""


def _written_from_root(reference: Reference, found: str, to: str, scope: Scope) -> Verdict:
    message = f"the link {reference.text!r} works from another folder only"
    evidence = f"{found} is there; a client follows links from the file they are in"
    fix = _fix(reference, found, to, scope)
    return Verdict(
        "written from the root", evidence, "link-from-root", message, f"it is {found}", fix,
        place=found,
    )  # fmt: skip


def _fix(reference: Reference, found: str, to: str, scope: Scope) -> Fix:
    own = scope.document.path.rpartition("/")[0] or "."
    after = os.path.relpath(found, own).replace(os.sep, "/") + ("/" if to.endswith("/") else "")
    tail = reference.text[len(reference.text.partition("#")[0]) :]
    return Fix(reference.line, reference.text, after + tail)


def _anchor(anchor: str, path: str, text: str, reference: Reference) -> Verdict:
    anchors = heading_anchors(text)
    is_line = re.fullmatch(r"L\d+(?:-L\d+)?", anchor)
    if anchor in anchors or unquoted(anchor) in anchors or is_line:
        return Verdict.holds(f"{path} has the heading", path)
    if anchor.lower() in anchors or anchor == "top" or anchor.startswith(":~:"):
        return Verdict.holds(f"{path} has the heading in another case", path)
    near = closest(f"#{anchor}", [f"#{each}" for each in sorted(anchors)], 0.8)
    message = f"the link {reference.text!r} leads to a heading that does not exist"
    evidence = f"{path} has {len(anchors)} headings"
    verdict = Verdict.wrong(evidence, "link-anchor", message, f"#{anchor}", near)
    return verdict._replace(place=path)


def resolve_symlink(reference: Reference, scope: Scope) -> Verdict:
    """Resolve what a link of the file system is said to lead to."""
    path, to = reference.data
    place = scope.locate(path)
    if place is None or is_placeholder(path) or is_placeholder(to):
        return Verdict.unknown("it is missing, which is already reported")
    if not scope.files.is_link(place):
        return Verdict.unknown(f"git keeps {place} as a file of its own")
    real = os.path.relpath(scope.files.real(place), scope.files.real("")).replace(os.sep, "/")
    if real.endswith(to.strip("./")) or scope.locate(to) == real:
        return Verdict.holds(f"{place} leads to {real}", place)
    message = f"{path!r} does not lead to {to!r}"
    return Verdict("contradicts", f"{place} leads to {real}", _RULE, message, f"it is {real}")


@lru_cache(maxsize=256)
def heading_anchors(text: str) -> frozenset[str]:
    """Return the anchors of a text's headings as GitHub makes them, and those set in HTML.

    Source:
        The behaviour of github.com: lower case, punctuation dropped, spaces to hyphens, a number
        behind the second of two equal ones.
    """
    found: set[str] = set(_HTML_ANCHOR.findall(text))
    found |= {first or second for first, second in _OWN_ID.findall(text)}
    counts: dict[str, int] = {}
    body_line = read_front_matter(text).body_line
    for block in parse_markdown(text.split("\n"), body_line).headings:
        slug = _slug(block.text)
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return frozenset(found)


def _slug(heading: str) -> str:
    plain = re.sub(r"\s*\{[#:.][^}]*\}\s*$", "", heading)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"<[^>]+>", "", plain)
    # What is between backticks is code, whose underscores are no emphasis.
    parts = plain.split("`")
    parts[::2] = [re.sub(r"(?<!\w)[*_]{1,3}|[*_]{1,3}(?!\w)", "", part) for part in parts[::2]]
    plain = "".join(parts)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")

"""Where the links and images of a translation have to lead."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from scaffold.translation.documents import Documents

# `https://x`, `mailto:x`, `//host/x`, `/x`: no path from the page.
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|/")
# `/en/` and `/zh-cn/` in a path, `zh.` at the beginning of a host.
_LANGUAGE_IN_URL = re.compile(r"(?<=[/.])(?:en|zh)(?:[-_](?:us|cn|hans))?(?=[/.]|$)", re.IGNORECASE)
_HOST = re.compile(r"\A\w+://[^/*]+(?!/\*)(?=/|\Z)")


class LinkTarget(NamedTuple):
    """The destination of a link: a path from the root, or an address; and an anchor."""

    path: str
    anchor: str


class Expected(NamedTuple):
    """The link of the translation that a link of the page becomes.

    Args:
        text: How it is written.
        leads: Every place that agrees.
    """

    text: str
    leads: frozenset[LinkTarget]


class Links:
    """The links of a page and of its translation."""

    def __init__(self, documents: Documents, page: str) -> None:
        self._documents = documents
        self._page = page
        self._other = documents.layout.pages[page]
        # A site that shows what a language lacks in its own one, as mkdocs-static-i18n does.
        site = documents.files.text("mkdocs.yml") or ""
        self._falls_back = re.search(r"^\s*docs_structure:\s*folder\b", site, re.M) is not None

    def found(self, href: str) -> LinkTarget:
        return _resolved(href, self._other)

    def expected(self, href: str) -> Expected:
        """Return what a link of the page becomes."""
        if _ELSEWHERE.match(href):
            leads = _resolved(href, self._page)
            # The default language of a site has no folder, and its translations have one.
            own = leads._replace(path=_HOST.sub(r"\g<0>/*", leads.path))
            return Expected(href, frozenset({leads, own}))
        leads = _resolved(href, self._page)
        if leads.path == self._other:  # the switch of languages
            text = posixpath.relpath(self._page, _folder(self._other))
            return Expected(text, frozenset({leads, leads._replace(path=self._page)}))
        target, extension = self._page_at(leads.path)
        # Without a translation of the target the reader is better served by the original.
        if target is None or not (target == self._page or self._has_translation(target)):
            return self._same(href, leads)
        other = self._documents.layout.pages[target]
        anchors = self._anchors(target, leads.anchor)
        path = other.removesuffix(extension)
        text = "" if target == self._page else posixpath.relpath(path, _folder(self._other))
        return Expected(
            _joined(text, anchors[0]), frozenset(LinkTarget(path, each) for each in anchors)
        )

    def expected_image(self, src: str) -> Expected:
        """Return what the image of a page becomes: the same one, or one made for the language."""
        if _ELSEWHERE.match(src):
            return Expected(src, frozenset({_resolved(src, self._page)}))
        return self._same(src, _resolved(src, self._page))

    def _same(self, href: str, leads: LinkTarget) -> Expected:
        """Return a link to the same place, or to its like among the translations."""
        layout, files = self._documents.layout, self._documents.files
        is_there = files.has(leads.path) or leads.path in files.folders
        agreeing = {leads}
        if layout.source and leads.path.startswith(f"{layout.source}/"):
            twin = f"{layout.translation}/{leads.path[len(layout.source) + 1 :]}"
            if files.has(twin) or self._falls_back or not is_there:
                agreeing.add(LinkTarget(twin, leads.anchor))
        if not is_there:
            # A label or the name of an object, which the site resolves; it is no path.
            return Expected(href, frozenset({*agreeing, _resolved(href, self._other)}))
        text = posixpath.relpath(leads.path or ".", _folder(self._other))
        text += "/" if href.partition("#")[0].endswith("/") else ""
        return Expected(_joined(text, leads.anchor), frozenset(agreeing))

    def _page_at(self, path: str) -> tuple[str | None, str]:
        """Return the page at a path, which sites let one write without its ending."""
        for extension in ("", ".md"):
            if path + extension in self._documents.layout.pages:
                return path + extension, extension
        return None, ""

    def _has_translation(self, page: str) -> bool:
        is_there = self._documents.has(self._documents.layout.pages[page])
        return is_there and self._documents.has(page) and not self._documents.why_excluded(page)

    def _anchors(self, page: str, anchor: str) -> tuple[str, ...]:
        """Return the anchors of the section that translates that of an anchor, the best first."""
        section = self._documents.page(page).at_anchor(anchor) if anchor else None
        # An anchor that is set by hand is the same in both languages.
        if section is None or anchor in [each.text for each in section.anchors]:
            return (anchor,)
        for pair in self._documents.pairs(page):
            if pair.source is not None and pair.source.key == section.key and pair.translation:
                found = (pair.translation.slug, pair.translation.mkdocs_slug)
                # GitHub and MkDocs make different anchors of a Chinese heading.
                found = found[::-1] if self._documents.has("mkdocs.yml") else found
                return (*(each.text for each in pair.translation.anchors), *found)
        return (f"<the anchor of your heading for {section.title!r}>",)


def _resolved(href: str, page: str) -> LinkTarget:
    path, _, anchor = href.partition("#")
    if _ELSEWHERE.match(href):
        # Sites have a folder or a host for each language.
        return LinkTarget(_LANGUAGE_IN_URL.sub("*", path), anchor)
    if not path:
        return LinkTarget(page, anchor)
    return LinkTarget(posixpath.normpath(posixpath.join(_folder(page), path)), anchor)


def _joined(path: str, anchor: str) -> str:
    return f"{path}#{anchor}" if anchor else path


def _folder(path: str) -> str:
    return posixpath.dirname(path) or "."

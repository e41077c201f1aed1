"""Links as a site's generator resolves them: mkdocs, Sphinx, Docusaurus, Mintlify, doc-builder.

On a site a page has an address without its suffix, and a link from the root begins at the site.
"""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.files.files import Files

SUFFIXES = (".md", ".mdx", ".rst", ".ipynb")
INDEXES = ("index", "README", "_index", "readme")
_DOCS_DIR = re.compile(r"^docs_dir:\s*['\"]?([^'\"#\n]+)", re.MULTILINE)
# `01-intro.md` is the page `intro` for Docusaurus.
_NUMBER = re.compile(r"(^|/)\d+[-_. ]+(?=[^/]*$)")


class Site(NamedTuple):
    """A folder of pages, and the folders in which a link from the root is looked up."""

    folder: str
    roots: tuple[str, ...]


def site_of(path: str, files: Files) -> Site | None:
    """Return the innermost site that a page belongs to."""
    found = [
        each for each in _sites(files) if path.startswith(f"{each.folder}/") or not each.folder
    ]
    return max(found, key=lambda each: len(each.folder), default=None)


def find_page(to: str, path: str, site: Site, files: Files) -> str:
    """Return the file that a link leads to on a site, or nothing.

    Args:
        to: The link, without query and anchor.
        path: The page that it is on.
        site: The site of that page.
        files: The repository's.
    """
    return next((each for each in _candidates(to, path, site) if files.has(each)), "") or (
        _numbered(to, path, site, files)
    )


def may_be_generated(to: str) -> bool:
    """Return whether a link is an address and no file: a generator may make it from anything.

    Sphinx takes the dotted name of an object for a link to its page.
    """
    if not re.search(r"\.\w+$", to) or to.endswith((".html", ".htm")):
        return True
    is_dotted = all(part.isidentifier() for part in to.split("."))
    return is_dotted and not to.endswith(SUFFIXES) and mimetypes.guess_type(to)[0] is None


def _candidates(to: str, path: str, site: Site) -> Iterator[str]:
    for place in _places(to, path, site):
        yield place
        for suffix in SUFFIXES:
            yield place + suffix
            for index in INDEXES:
                yield f"{place}/{index}{suffix}"


def _places(to: str, path: str, site: Site) -> Iterator[str]:
    bare = re.sub(r"\.html?$", "", to).rstrip("/")
    if bare.endswith("/index"):
        bare = bare.removesuffix("/index")
    if to.startswith("/"):
        for root in site.roots:
            yield _joined(root, bare.lstrip("/"))
        return
    own = path.rpartition("/")[0]
    yield _joined(own, bare)
    # The page `a/b.md` is the address `a/b/`, from which a relative link starts.
    yield _joined(re.sub(r"\.\w+$", "", path), bare)


def _joined(folder: str, to: str) -> str:
    return os.path.normpath(os.path.join(folder, to)).replace(os.sep, "/")


def _numbered(to: str, path: str, site: Site, files: Files) -> str:
    """Return a page whose file has a number in front that its address lacks."""
    for place in _places(to, path, site):
        folder, _, name = place.rpartition("/")
        for suffix in SUFFIXES:
            for each in _by_bare_name(files).get(name + suffix, ()):
                if each.rpartition("/")[0] == folder:
                    return each
    return ""


@lru_cache(maxsize=4)
def _by_bare_name(files: Files) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in files.paths:
        if path.endswith(SUFFIXES) and _NUMBER.search(path):
            found.setdefault(_NUMBER.sub(r"\1", path).rpartition("/")[2], []).append(path)
    return found


@lru_cache(maxsize=4)
def _sites(files: Files) -> tuple[Site, ...]:
    return tuple(_found(files))


def _found(files: Files) -> Iterator[Site]:
    for name in ("mkdocs.yml", "mkdocs.yaml"):
        for place in files.by_name.get(name, ()):
            named = _DOCS_DIR.search(files.text(place) or "")
            folder = _joined(_parent(place), named[1].strip() if named else "docs")
            yield Site(folder, (folder,))
    for place in files.by_name.get("conf.py", ()):
        text = files.text(place) or ""
        if _parent(place) and ("sphinx" in text or re.search(r"^extensions\s*=", text, re.M)):
            yield Site(_parent(place), (_parent(place),))
    for place in files.by_name.get("_toctree.yml", ()):
        yield Site(_parent(place), (_parent(place),))
    for name in ("docs.json", "mint.json"):
        for place in files.by_name.get(name, ()):
            if '"navigation"' in (files.text(place) or ""):
                yield Site(_parent(place), (_parent(place),))
    for suffix in ("js", "ts", "mjs", "cjs", "mts"):
        for place in files.by_name.get(f"docusaurus.config.{suffix}", ()):
            own = _parent(place)
            above = _parent(own)
            roots = (_joined(own, "static"), own, _joined(own, "docs"), _joined(own, "src/pages"))
            yield Site(own, roots)
            yield Site(_joined(above, "docs"), (*roots, above, _joined(above, "docs")))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]

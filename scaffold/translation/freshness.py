"""Which pages and sections have no translation, or one of an older state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scaffold.translation.documents import Documents
from scaffold.translation.page import Section
from scaffold.translation.pairing import Pair

WORDS = {
    "current": "is up to date",
    "reworded": "changed in the source in a few words only, if git's history is right",
    "stale": "changed in the source since it was translated",
    "missing": "has no translation",
    "unmarked": "has no marker, so its source version is unknown",
    "orphan": "has no section in the source any more",
    "excluded": "stays untranslated",
}
# States that ask for no work.
FINE = frozenset({"current", "reworded", "excluded"})

_GONE = "its page is gone; delete it"

_UNKNOWN = "there is no {}, nor does git know of one"


class PageState(NamedTuple):
    """The state of the translation of a page.

    Args:
        page: The page; empty where only a translation is left.
        state: As for sections.
        reason: Why it is excluded, or what is known of the page of an orphan.
    """

    page: str
    translation: str
    state: str
    reason: str = ""
    pairs: tuple[Pair, ...] = ()

    @property
    def is_fine(self) -> bool:
        """Whether nothing is to be done."""
        return self.state in FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "translation": self.translation,
            "state": self.state,
            "reason": self.reason,
            "sections": [_row(pair) for pair in self.pairs],
        }


def page_states(documents: Documents) -> list[PageState]:
    """Return the state of every page, and of translations whose page is gone."""
    layout = documents.layout
    found = [_page_state(documents, page, other) for page, other in layout.pages.items()]
    for path in layout.orphans:
        page = f"{layout.source}{path.removeprefix(layout.translation)}"
        # Some pages are written in the other language first.
        why = _GONE if documents.history.knows(page) else _UNKNOWN.format(page)
        found.append(PageState("", path, "orphan", why))
    return found


def _page_state(documents: Documents, page: str, other: str) -> PageState:
    reason = documents.why_excluded(page)
    if reason:
        return PageState(page, other, "excluded", reason)
    if not documents.has(page):
        return PageState(page, other, "orphan", _GONE)
    pairs = tuple(documents.pairs(page))
    if not documents.has(other):
        return PageState(page, other, "missing", "", pairs)
    is_fine = all(pair.state in FINE for pair in pairs)
    return PageState(page, other, "current" if is_fine else "stale", "", pairs)


def count_of(things: Sequence[object], name: str) -> str:
    """Return how many things there are, in words: "1 page", "2 pages"."""
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def shown(state: PageState) -> list[str]:
    """Return what people read of a page that is not fine."""
    if state.state == "orphan":
        return [f"{state.translation}  orphan: {state.reason}"]
    if state.state == "missing":
        return [f"{state.translation}  missing: {count_of(state.pairs, 'section')} of {state.page}"]
    rows = [f"{state.translation}  stale"]
    for pair in state.pairs:
        source, other = pair.source, pair.translation
        section = source or other
        if section is not None and pair.state not in FINE:
            line = f"{state.translation}:{other.line}" if other else f"{state.page}:{section.line}"
            name = f"{section.key} ({section.title})" if section.title else section.key
            rows.append(f"  {pair.state:<8} {line}  {name}")
    return rows


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "key": pair.key,
        "state": pair.state,
        "title": (pair.source or pair.translation or Section(0, 0)).title,
        "source_line": pair.source.line if pair.source else None,
        "translation_line": pair.translation.line if pair.translation else None,
        "marker": str(pair.source.wanted) if pair.source else None,
        "presumed_from": pair.origin.commit if pair.origin else None,
    }

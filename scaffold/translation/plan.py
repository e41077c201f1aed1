"""Which pages are missing or behind, and what whoever translates one needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scaffold.errors import RequestError, nearest
from scaffold.report import unified_diff
from scaffold.translation.documents import Documents
from scaffold.translation.glossary import Term
from scaffold.translation.links import Links
from scaffold.translation.page import Passage, Section
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


class Task(NamedTuple):
    """One section to translate.

    Args:
        old_source: The text that was translated, where git has it.
    """

    pair: Pair
    source: str
    old_source: str | None
    translation: str | None

    @property
    def marker(self) -> str:
        assert self.pair.source is not None, "what has no source is not a task"
        return str(self.pair.source.wanted)

    @property
    def diff(self) -> str:
        """What changed in the source since it was translated."""
        if self.old_source is None or self.pair.source is None:
            return ""
        before, after = f"{self.old_source}\n".encode(), f"{self.source}\n".encode()
        return unified_diff(self.pair.source.key, before, after)

    def to_json(self) -> dict[str, Any]:
        source, other = self.pair.source, self.pair.translation
        assert source is not None, "what has no source is not a task"
        told = {"key": source.key, "state": self.pair.state, "marker": self.marker}
        texts = {"source": self.source, "old_source": self.old_source, "diff": self.diff}
        line = other.line if other else None
        done = {"translation_line": line, "translation": self.translation}
        return {**told, "source_line": source.line, **texts, **done}


class Plan(NamedTuple):
    """The work to do on a page.

    Args:
        links: Where their links have to lead.
    """

    page: str
    other: str
    tasks: list[Task]
    orphans: list[Section]
    terms: list[Term]
    codes: list[str]
    links: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "translation": self.other,
            "sections": [task.to_json() for task in self.tasks],
            "orphans": [{"line": each.line, "title": each.title} for each in self.orphans],
            "glossary": {term.name: list(term.translations) or "keep" for term in self.terms},
            "keep": {"code": self.codes, "links": self.links},
        }


def plan_page(documents: Documents, page: str, keys: Sequence[str], *, everything: bool) -> Plan:
    """Return what is to be done on a page.

    Args:
        keys: Only these sections; () means those that are missing or behind.
        everything: Whether to include sections that are up to date.

    Raises:
        RequestError: The page has no section of a key.
    """
    pairs = documents.pairs(page)
    known = [pair.key for pair in pairs if pair.source]
    for key in keys:
        if key not in known:
            raise RequestError(
                f"{page} has no section {key!r}{nearest(key, known)}",
                code="usage",
                hint=f"`scaffold docs status --json` lists the sections of {page}",
            )
    # A section that is named is shown in any state.
    wanted = ["missing", "stale", "unmarked", *(["current"] if everything or keys else [])]
    chosen = [
        pair
        for pair in pairs
        if pair.source and pair.state in wanted and (not keys or pair.key in keys)
    ]
    sources = [pair.source for pair in chosen if pair.source]
    prose = "\n".join(each.prose for each in sources)
    codes = [code.text for each in sources for p in each.passages for code in p.codes]
    return Plan(
        page,
        documents.layout.pages[page],
        _tasks(documents, page, chosen),
        [pair.translation for pair in pairs if pair.translation and not pair.source],
        documents.glossary.used_in(prose),
        sorted(set(codes)),
        _links(documents, page, [passage for each in sources for passage in each.passages]),
    )


def _tasks(documents: Documents, page: str, pairs: list[Pair]) -> list[Task]:
    # Only a stale section has an older source to look for in git.
    hashes = frozenset(p.old_hash for p in pairs if p.old_hash and p.state == "stale")
    old = documents.history.old_sections(page, hashes)
    other = documents.layout.pages[page]
    tasks: list[Task] = []
    for pair in pairs:
        assert pair.source is not None, "what has no source is not a task"
        done = documents.page(other).text(pair.translation) if pair.translation else None
        before = old.get(pair.old_hash) if pair.old_hash else None
        tasks.append(Task(pair, documents.page(page).text(pair.source), before, done))
    return tasks


def _links(documents: Documents, page: str, passages: list[Passage]) -> dict[str, str]:
    """Return what each link becomes in the translation, by what it is in the page."""
    links = Links(documents, page)
    found: dict[str, str] = {}
    for passage in passages:
        found |= {piece.text: links.expected(piece.text).text for piece in passage.links}
        found |= {piece.text: links.expected_image(piece.text).text for piece in passage.images}
    return dict(sorted(found.items()))


def shown_plan(plan: Plan) -> str:
    """Return a plan as people and agents read it."""
    rows = [f"{plan.page} -> {plan.other}: {count_of(plan.tasks, 'section')} to translate", ""]
    for task in plan.tasks:
        rows += _shown_task(plan, task)
    for section in plan.orphans:
        rows += [f"=== delete {plan.other}:{section.line}, {section.title!r}", ""]
    if plan.terms:
        words = {each.name: " or ".join(each.translations) or "stays" for each in plan.terms}
        rows += ["=== terms", *(f"{name}: {text}" for name, text in words.items()), ""]
    if plan.codes:
        rows += ["=== code that stays", *(f"`{code}`" for code in plan.codes), ""]
    if plan.links:
        rows += ["=== links", *(f"{old} -> {new}" for old, new in plan.links.items()), ""]
    return "\n".join(rows).rstrip("\n") + "\n"


def _shown_task(plan: Plan, task: Task) -> list[str]:
    source = task.pair.source
    assert source is not None, "what has no source is not a task"
    rows = [
        f"=== {source.key}: {WORDS[task.pair.state]}",
        f"--- write below the heading: {task.marker}",
        f"--- source, {plan.page}:{source.line}",
        task.source,
    ]
    if task.diff:
        rows += ["--- changed in the source since", task.diff.rstrip("\n")]
    # That state was never committed, or is more than MAX_REVISIONS back.
    elif task.pair.state == "stale":
        rows += ["--- the source that was translated is not in git; compare all of it"]
    if task.translation is not None and task.pair.translation is not None:
        rows += [f"--- translation so far, {plan.other}:{task.pair.translation.line}"]
        rows += [task.translation]
    return [*rows, ""]

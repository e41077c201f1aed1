"""Which section of a translation belongs to which one of its source."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal, NamedTuple

from scaffold.translation.page import Marker, Section

State = Literal["current", "reworded", "stale", "missing", "unmarked", "orphan", "excluded"]


class Origin(NamedTuple):
    """What a translation is presumed to be of: its source when the translation last changed.

    Args:
        hash: The digest of the source's section in it.
    """

    commit: str
    hash: str
    text: str


class Pair(NamedTuple):
    """A section of the source with the one that translates it; one of them may be missing.

    Args:
        state: What can be said of the translation.
        marker: The marker by which they were paired, or None.
        origin: Of a translation without a marker, the state of the source that git's history
            shows it to be of, or None.
    """

    source: Section | None
    translation: Section | None
    state: State
    marker: Marker | None = None
    origin: Origin | None = None

    @property
    def old_hash(self) -> str | None:
        """The hash of the source that was translated, where it is known."""
        known = self.marker or self.origin
        return known.hash if known is not None else None

    @property
    def key(self) -> str:
        section = self.source or self.translation
        assert section is not None, "one of the two is there"
        return section.key


def pair_sections(
    sources: Sequence[Section], translations: Sequence[Section], excluded: frozenset[str]
) -> list[Pair]:
    """Pair sections by their markers, and where those fail by order and level.

    Args:
        excluded: The keys of sections that nobody needs to translate.

    Returns:
        The pairs in the order of the source, then sections of the translation without a source.
    """
    matching = _Matching(sources, translations)
    # From exact to loose: the hash alone follows a renamed section, the key alone an edited one.
    matching.by(lambda section: (section.key, section.hash), lambda mark: (mark.key, mark.hash))
    matching.by(lambda section: section.hash, lambda mark: mark.hash)
    matching.by(lambda section: section.key, lambda mark: mark.key)
    matching.by_order()
    pairs = [matching.pair(at, is_excluded=each.key in excluded) for at, each in enumerate(sources)]
    return [*pairs, *matching.orphans()]


class _Matching:
    def __init__(self, sources: Sequence[Section], translations: Sequence[Section]) -> None:
        self._sources = sources
        self._translations = translations
        self._found: dict[int, int] = {}
        self._markers: dict[int, Marker] = {}
        self._taken: set[int] = set()

    def by(
        self, of_source: Callable[[Section], Hashable], of_marker: Callable[[Marker], Hashable]
    ) -> None:
        """Pair the rest where a marker names the same value as a source section."""
        wanted: dict[Hashable, list[int]] = {}
        for at, section in enumerate(self._sources):
            if at not in self._found:
                wanted.setdefault(of_source(section), []).append(at)
        for at, section in self._open():
            for marker in section.markers:
                # Sections of the same text have the same hash; they are paired in their order.
                places = wanted.get(of_marker(marker))
                if places:
                    self._take(places.pop(0), at, marker)
                    break

    def by_order(self) -> None:
        """Pair what is left between two pairs, by the levels of the headings."""
        # Pairs that markers have made are fixed points; guesses are made between two of them only.
        anchors = self._chain()
        for (low, left), (high, right) in pairwise(anchors):
            sources = [at for at in range(low + 1, high) if at not in self._found]
            others = [at for at in range(left + 1, right) if at not in self._taken]
            before = [self._sources[at].level for at in sources]
            after = [self._translations[at].level for at in others]
            # autojunk treats frequent elements as noise, and the levels repeat all the time.
            matcher = SequenceMatcher(None, before, after, autojunk=False)
            for _, i1, i2, j1, j2 in matcher.get_opcodes():
                if i2 - i1 == j2 - j1:  # else nothing shows which of them is missing
                    for source, other in zip(sources[i1:i2], others[j1:j2], strict=True):
                        self._take(source, other, None)

    def pair(self, at: int, *, is_excluded: bool) -> Pair:
        source = self._sources[at]
        other = self._found.get(at)
        translation = None if other is None else self._translations[other]
        marker = None if other is None else self._markers.get(other)
        if is_excluded:
            return Pair(source, translation, "excluded", marker)
        if translation is None:
            return Pair(source, None, "missing")
        if marker is None:
            # Paired by order alone. A marker that names no section here is one of an older state.
            return Pair(source, translation, "stale" if translation.markers else "unmarked")
        return Pair(
            source, translation, "current" if marker.hash == source.hash else "stale", marker
        )

    def orphans(self) -> Iterable[Pair]:
        """Yield the sections of the translation that have no source."""
        # Front matter alone is a setting of the translation's site.
        return [Pair(None, section, "orphan") for _, section in self._open() if section.has_content]

    def _open(self) -> Iterator[tuple[int, Section]]:
        for at, section in enumerate(self._translations):
            if at not in self._taken:
                yield at, section

    def _take(self, source: int, translation: int, marker: Marker | None) -> None:
        self._found[source] = translation
        self._taken.add(translation)
        if marker is not None:
            self._markers[translation] = marker

    def _chain(self) -> list[tuple[int, int]]:
        """Return the longest run of pairs in one order, with both ends around it."""
        rows = sorted(self._found.items())
        # best[n] is the longest rising run that ends in the n-th pair.
        best: list[list[tuple[int, int]]] = []
        for at, row in enumerate(rows):
            # Quadratic, which is fine for the sections of one page.
            before = [best[each] for each in range(at) if rows[each][1] < row[1]]
            best.append([*max([[], *before], key=len), row])
        longest = max([[], *best], key=len)
        return [(-1, -1), *longest, (len(self._sources), len(self._translations))]

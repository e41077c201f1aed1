"""The units of a folder that are of one kind, and which files belong to each.

Pure: paths and bytes in, findings out. A file belongs to the kind if most units have its
counterpart; nothing is known of how files are called.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import PurePosixPath

from scaffold.errors import RequestError
from scaffold.target.target import key_names
from scaffold.templating.names import fold
from scaffold.units.init.spellings import (
    Evidence,
    Name,
    Seen,
    is_most,
    masked,
    same_name,
    words_of,
)

MAX_SIBLINGS = 9
"""How many units are compared with the one that is meant."""

MIN_LONGER = 3
"""How many units of those, if there are any, have names of several words."""

MAX_CANDIDATES = 120
"""How many things of a folder are looked at to find those."""

MIN_PAIRED = 3
"""How many names two words have to share for the words to be the kind's."""

LEAST_ALIKE = 0.25
"""How much, of what the most similar one shares, a sibling has to share."""

# Files that name everything and register nothing: records, changelogs, lock files.
NOT_LOOKED_AT = re.compile(r"(?i)(^|/)(\.scaffold/|changelog|changes|history|news\b|[^/]*\.lock$)")
_OUTLINE = re.compile(
    r"(?m)^(?: {4})?(?:class|def|async def|from|import|@)\s*[^\n(:#]*(?:\([^\n]*)?"
)
_CLASS = re.compile(r"(?m)^class\s+(\w+)")
_IMPORTED = re.compile(r"(?m)^[ \t]*(?:from|import)\b[^\n(]*(?:\([^)]*\))?")
_CAPITAL = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class Unit:
    """A unit that exists.

    Args:
        name: What it is called.
        home: Its module, or the folder that is all its own.
        paths: Its files by what their paths have in common with those of the other units.
    """

    name: Name
    home: str
    paths: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """The canonical name."""
        return self.name.key


@dataclass(frozen=True)
class Family:
    """The units that a kind is learned from.

    Args:
        kind: The word for the kind.
        suffixes: Words for the kind that people may type behind a name.
        unit: The one that is meant.
        siblings: Those that it is compared with, the most similar first.
    """

    kind: str
    suffixes: tuple[str, ...]
    unit: Unit
    siblings: tuple[Unit, ...]

    @cached_property
    def names(self) -> dict[str, Name]:
        """The names of all units, by key."""
        return {each.key: each.name for each in (self.unit, *self.siblings)}

    @property
    def parent(self) -> PurePosixPath:
        """The folder that the units are in."""
        return PurePosixPath(self.unit.home).parent

    def roles(self) -> dict[str, Unit]:
        """Return the common paths that most units have a file at, with the unit to learn it from.

        That is the one that is meant where it has such a file, else the most similar sibling.
        """
        units = (self.unit, *self.siblings)
        counts = Counter(common for each in units for common in each.paths)
        return {
            common: next(each for each in units if common in each.paths)
            for common in sorted(counts)
            if is_most(counts[common] - 1, len(self.siblings))
        }

    def others(self, unit: Unit) -> tuple[Unit, ...]:
        """Return every unit but one."""
        return tuple(each for each in (self.unit, *self.siblings) if each.key != unit.key)

    def without(self, key: str) -> Family:
        """Return the family without one of the siblings."""
        return replace(self, siblings=tuple(each for each in self.siblings if each.key != key))

    def path_evidence(self, common: str, unit: Unit) -> Evidence:
        """Return what the other units have in the places of the name in a path."""
        path = unit.paths[common]
        starts = [start for start, _ in name_spans(path, unit.name, self.parent)]
        found: Evidence = {start: [] for start in starts}
        for other in self.others(unit):
            theirs = other.paths.get(common)
            if theirs is not None:
                spans = name_spans(theirs, other.name, self.parent)
                for start, span in zip(starts, spans, strict=True):
                    found[start].append(Seen(other.key, theirs[slice(*span)]))
        return found


def find_home(paths: Iterable[str], like: str) -> str:
    """Return the module or the folder of the unit that a person means.

    Args:
        paths: Every file of the repository, relative to its root.
        like: A path among them, a folder, or a name.

    Raises:
        RequestError: Nothing, or more than one thing, is called so.
    """
    paths = list(paths)
    path = PurePosixPath(like).as_posix()
    if path in paths and path.endswith(".py"):
        is_part = path.endswith("/__init__.py") or _is_called_like_its_folder(path, paths)
        return str(PurePosixPath(path).parent) if is_part else path
    sources = [each for each in paths if each.endswith(".py") and not is_test(each)]
    folders = {str(above) for each in sources for above in PurePosixPath(each).parents} - {"."}
    if path in folders:
        return path
    places = [each for each in sources if not each.endswith("/__init__.py")]
    found = _called(places, like) or _called(sorted(folders), like)
    if len(found) == 1:
        return found[0]
    if found:
        raise RequestError(
            f"{like!r} is the name of several files: {', '.join(sorted(found))}",
            code="unit_ambiguous",
            hint=f"scaffold init --like {sorted(found)[0]}",
        )
    names = sorted({PurePosixPath(each).stem for each in (*places, *folders)})
    near = difflib.get_close_matches(like, names, n=3)
    guess = f"; did you mean {' or '.join(near)}?" if near else ""
    raise RequestError(
        f"there is no Python file called {like!r}{guess}; an example is a Python file, or a folder "
        "with some",
        code="unit_unknown",
        hint="give the path of the source of an existing unit: --like src/pkg/things/one.py",
    )


def _is_called_like_its_folder(path: str, paths: Sequence[str]) -> bool:
    """Return whether a folder is the unit: ``cpo/cpo_trainer.py`` beside ``orpo/orpo_trainer.py``.

    Its siblings are then the other folders, and not what else is in its own.
    """
    place = PurePosixPath(path)
    named = Name(place.parent.name).spans(place.name) if place.parent.name else []
    if not named:
        return False
    (start, end), *_ = named
    known = set(paths)
    above = place.parent.parent
    depth = len(above.parts)
    beside = {
        PurePosixPath(each).parts[depth]
        for each in paths
        if PurePosixPath(each).is_relative_to(above)
    }
    like = [
        each
        for each in beside - {place.parent.name}
        if str(above / each / f"{place.name[:start]}{each}{place.name[end:]}") in known
    ]
    return len(like) > 1


def _called(places: Sequence[str], like: str) -> list[str]:
    found = [each for each in places if same_name(PurePosixPath(each).stem, like)]
    if found:
        return found
    # `gsm8k` also means `gsm8k_reward.py` in a folder where files are called so.
    beside: dict[PurePosixPath, list[str]] = defaultdict(list)
    for each in places:
        beside[PurePosixPath(each).parent].append(PurePosixPath(each).stem)
    return [
        each
        for each in places
        if fold("".join(_affixes(PurePosixPath(each), beside[PurePosixPath(each).parent])[1]))
        == fold(like)
    ]


def is_test(path: str) -> bool:
    """Return whether a file is a test by its name."""
    place = PurePosixPath(path)
    return place.suffix == ".py" and (
        place.stem.startswith("test_") or place.stem.endswith("_test")
    )


def find_family(files: Mapping[str, bytes], home: str, kind: str = "") -> Family:
    """Find the units that one has its like in.

    Args:
        files: The repository's text files, by path.
        home: The unit's module or folder.
        kind: What the kind is to be called, or "" to find a name.
    """
    place = PurePosixPath(home)
    stems = _beside(files, place)
    before, key_words, after = _affixes(place, stems)
    keys: dict[str, str] = {}
    for stem in [place.stem, *sorted(set(stems) - {place.stem})]:
        words = words_of(stem)
        middle = words[len(before) : len(words) - len(after)]
        if middle and words == [*before, *middle, *after]:
            keys.setdefault("_".join(middle), stem)
    key = "_".join(key_words)
    keys = _without_companions(keys, key)
    units = {each: _unit(files, place, each, stem, keys) for each, stem in keys.items()}
    unit = units.pop(key)
    units = _without_lists(files, unit, units)
    siblings = _most_similar(files, unit, list(units.values()))
    affix = [*before, *after] or _class_words(files, [unit, *siblings])
    folder = _singular(place.parent.name)
    noun = folder if not affix or affix[-1] in words_of(folder) or folder in affix else affix[-1]
    kind = kind or re.sub(r"[^a-z0-9]+", "-", noun.lower()).strip("-") or "unit"
    suffixes = dict.fromkeys(["_".join(after), kind.replace("-", "_")])
    unit, *others = _ask_for_class(files, [unit, *siblings])
    return Family(kind, tuple(each for each in suffixes if each), unit, tuple(others))


def name_spans(path: str, name: Name, parent: PurePosixPath) -> list[tuple[int, int]]:
    """Return where a path holds a unit's name, below the folder of the units where it is in it."""
    start = len(str(parent)) if PurePosixPath(path).is_relative_to(parent) else 0
    return [(a + start, b + start) for a, b in name.spans(path[start:])]


def read_text(files: Mapping[str, bytes], path: str) -> str:
    """Return a file's text."""
    return files[path].decode("utf-8-sig", "replace")


# ---- names ---------------------------------------------------------------------------------------


def _beside(files: Iterable[str], place: PurePosixPath) -> list[str]:
    """Return the names of the modules beside a module, or of the folders beside a folder."""
    parent = place.parent
    depth = len(parent.parts)
    found: set[str] = set()
    for each in files:
        if each.endswith(".py") and each.startswith("" if not depth else f"{parent}/"):
            parts = PurePosixPath(each).parts
            is_module = len(parts) == depth + 1
            if is_module == (place.suffix == ".py"):
                found.add(PurePosixPath(parts[depth]).stem if is_module else parts[depth])
    return sorted(found - {"__init__", "__main__", "__pycache__"})


def _affixes(place: PurePosixPath, stems: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the words before a unit's name that are its kind's, those of the name, and after it.

    They are shared by half of all names beside it, are the folder's own and shared by some, or go
    with the same names as another word: ``export_x`` and ``import_x`` are both of the unit ``x``.
    """
    words = words_of(PurePosixPath(place).stem)
    rows = [row for row in map(words_of, stems) if row != words]
    folder = {place.parent.name.lower(), _singular(place.parent.name)}

    def is_shared(part: list[str], *, at_end: bool) -> bool:
        hits = sum(
            len(row) > len(part) and (row[-len(part) :] if at_end else row[: len(part)]) == part
            for row in rows
        )
        word = part[0] if at_end else part[-1]
        is_kind = word in folder or _singular(word) in folder
        return hits > 0 and (
            2 * hits >= len(rows) or is_kind or _is_paired(part, [words, *rows], at_end=at_end)
        )

    first, last = 0, len(words)
    while last - first > 1 and is_shared(words[: first + 1], at_end=False):
        first += 1
    while last - first > 1 and is_shared(words[last - 1 :], at_end=True):
        last -= 1
    return words[:first], words[first:last], words[last:]


def _is_paired(part: list[str], rows: Sequence[list[str]], *, at_end: bool) -> bool:
    """Return whether most names that have some words have another unit's file in the same place.

    Where there are as many such words as there are names, either may be the name.
    """
    rests: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows:
        if len(row) > len(part):
            cut = len(row) - len(part) if at_end else len(part)
            ends = tuple(row[:cut]), tuple(row[cut:])
            rest, word = ends if at_end else ends[::-1]
            rests[word].add(rest)
    own = rests.pop(tuple(part), set())
    shared = [own & each for each in rests.values() if 2 * len(own & each) > len(own)]
    return any(len(each) >= max(MIN_PAIRED, len(shared) + 2) for each in shared)


def _without_companions(keys: dict[str, str], own: str) -> dict[str, str]:
    """Return the names without those of further files: ``ansi_keywords`` beside ``ansi``."""
    endings = Counter(
        each[len(shorter) :] for each in keys for shorter in keys if each.startswith(shorter + "_")
    )
    return {
        each: stem
        for each, stem in keys.items()
        if each == own
        or not any(
            each.startswith(shorter + "_") and endings[each[len(shorter) :]] > 1 for shorter in keys
        )
    }


def _without_lists(
    files: Mapping[str, bytes], unit: Unit, units: Mapping[str, Unit]
) -> dict[str, Unit]:
    """Return the units without modules that import most of them: those are where units are listed.

    A command line's module is beside its commands, as a package's ``base`` does.
    """

    def lists(each: Unit) -> bool:
        rows = "\n".join(_IMPORTED.findall(read_text(files, each.home)))
        names = [other.name for key, other in units.items() if key != each.key]
        names.append(unit.name)
        return 2 * sum(name.occurs_in(rows) for name in names) > len(names)

    if len(units) > MAX_CANDIDATES or len(units) < MIN_PAIRED:
        return dict(units)
    return {key: each for key, each in units.items() if each.home not in files or not lists(each)}


def _singular(word: str) -> str:
    word = word.lower()
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch")):
        if word.endswith(ending):
            return word.removesuffix(ending) + instead
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


# ---- files and likeness --------------------------------------------------------------------------


def _unit(
    files: Mapping[str, bytes], like: PurePosixPath, key: str, stem: str, keys: Iterable[str]
) -> Unit:
    longer = tuple(each for each in keys if each != key and fold(key) in fold(each))
    home = like.parent / (f"{stem}.py" if like.suffix == ".py" else stem)
    name = Name(key, longer)
    found: dict[str, str] = {}
    for path in _named_paths(files, name):
        if NOT_LOOKED_AT.search(path) and not path.startswith(f"{home}/"):
            continue
        if spans := name_spans(path, name, like.parent):
            found.setdefault(masked(path, spans), path)
    prefixes = Counter(
        raw
        for path in found.values()
        if path.endswith(".py") and (path == str(home) or path.startswith(f"{home}/"))
        for defined in _CLASS.findall(read_text(files, path))
        for start, end in name.spans(defined)
        if _CAPITAL.fullmatch(raw := defined[start:end])
    )
    prefix = max(prefixes, key=lambda raw: prefixes[raw]) if prefixes else ""
    return Unit(replace(name, class_prefix=prefix), str(home), found)


def _ask_for_class(files: Mapping[str, bytes], units: Sequence[Unit]) -> list[Unit]:
    """Return the units with the names of their classes, if most of these are no spelling."""
    named = sum(bool(each.name.class_prefix) for each in units)
    if 3 * named >= 2 * len(units):
        return _ask_for_prefix(units)
    rows = [
        replace(each, name=replace(each.name, class_prefix="", class_name=_own_class(files, each)))
        for each in units
    ]
    counts = Counter(each.name.class_name for each in rows)
    # A class that several have is a word of the kind's, and all of the repository may know it.
    rows = [
        each
        if counts[each.name.class_name] == 1
        else replace(each, name=replace(each.name, class_name=""))
        for each in rows
    ]
    # Where there is no class in most of them, their names are all that there is.
    if not is_most(sum(bool(each.name.class_name) for each in rows) - 1, len(rows) - 1):
        return _ask_for_prefix(units)
    return rows


def _class_words(files: Mapping[str, bytes], units: Sequence[Unit]) -> list[str]:
    """Return the words behind the names in most units' classes: ``scraper`` of HeiseScraper."""
    counts = Counter(
        ending
        for unit in units
        if unit.home in files
        for ending in {
            defined[end:]
            for defined in _CLASS.findall(read_text(files, unit.home))
            for start, end in unit.name.spans(defined)
            if not start and end < len(defined)
        }
    )
    ending, count = max(counts.items(), key=lambda row: (row[1], row[0]), default=("", 0))
    return words_of(ending) if is_most(count - 1, len(units) - 1) else []


def _own_class(files: Mapping[str, bytes], unit: Unit) -> str:
    """Return the first public class of a unit's module."""
    if unit.home not in files:
        return ""
    found = _CLASS.findall(read_text(files, unit.home))
    return next((each for each in found if not each.startswith("_")), "")


def _ask_for_prefix(units: Sequence[Unit]) -> list[Unit]:
    """Return the units with their class prefixes, if no variable gives all of these."""
    rows = [each.name for each in units if each.name.class_prefix]
    spelled = [key_names(each.key) for each in rows]
    is_ruled = any(
        all(row[variable] == each.class_prefix for each, row in zip(rows, spelled, strict=True))
        for variable in ("pascal", "flat_upper")
    )
    if not is_ruled:
        return list(units)
    return [replace(each, name=replace(each.name, class_prefix="")) for each in units]


def prefix_variable(names: Iterable[Name]) -> str:
    """Return the variable that gives most class prefixes."""
    rows = [each for each in names if each.class_prefix]
    counts = {
        variable: sum(key_names(each.key)[variable] == each.class_prefix for each in rows)
        for variable in ("pascal", "flat_upper")
    }
    return max(counts, key=lambda each: counts[each])


def _named_paths(files: Iterable[str], name: Name) -> list[str]:
    paths = list(files)
    ends = list(accumulate(len(path) + 1 for path in paths))
    # One search in all paths is many times as fast as one in each.
    return sorted({paths[bisect_right(ends, start)] for start, _ in name.spans("\n".join(paths))})


def _most_similar(
    files: Mapping[str, bytes], unit: Unit, candidates: Sequence[Unit]
) -> tuple[Unit, ...]:
    own = _features(files, unit)
    scores: dict[str, float] = {}
    for each in candidates[:MAX_CANDIDATES]:
        theirs = _features(files, each)
        scores[each.key] = len(own & theirs) / (len(own | theirs) or 1)
    least = LEAST_ALIKE * max(scores.values(), default=0)
    ranked = sorted(candidates[:MAX_CANDIDATES], key=lambda each: -scores[each.key])
    ranked = [each for each in ranked if scores[each.key] > least or scores[each.key] == 1]
    chosen = ranked[:MAX_SIBLINGS]
    # Only names of several words show which spelling is meant: some have to be among them.
    longer = [each for each in ranked if "_" in each.key][:MIN_LONGER]
    rest = [each for each in chosen if each not in longer][: MAX_SIBLINGS - len(longer)]
    return tuple(each for each in ranked if each in longer or each in rest)


def _features(files: Mapping[str, bytes], unit: Unit) -> set[str]:
    """Return what a unit may have in common with another: its paths, and what its code defines."""
    found = set(unit.paths)
    for common, path in unit.paths.items():
        if not path.endswith(".py") or is_test(path):
            continue
        if not path.startswith(unit.home):
            continue
        text = read_text(files, path)
        for match in _OUTLINE.finditer(text):
            row = masked(match[0], unit.name.spans(match[0]))
            found.add(f"{PurePosixPath(common).name}: {row}")
    return found

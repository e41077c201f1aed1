"""What the history, the neighbours and the whole page make of what the files alone leave absent."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scaffold.analysis.files.history import History, Removal, is_code, is_test
from scaffold.analysis.files.line_moves import Move, Spot
from scaffold.analysis.files.words import files_with
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.read.documents import CLIENT_FOLDERS, Document
from scaffold.skills.check.reference import HELD, REFUTED, Judged, Verdict

_PLACES = frozenset({"path", "line", "node", "tree", "import", "call", "name", "command", "task"})
"""The kinds whose references are of one repository; links inside of a skill are of any."""

_NAMES = frozenset({"call", "name", "word"})
"""The kinds that may be a bare name."""

_OF_PROJECTS = frozenset(
    {"count", "default", "definition", "extra", "marker", "option", "task", "value", "version"}
)
"""The kinds whose names any project has: they count where something else is of this one."""

_HALF = 0.5
_MOST = 0.8
_SEVERAL = 5
_CLASS = lazy_re(r"_*[A-Z]+[a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+")
_FAMILY = 3
_NEAR = 2  # lines that moved by no more are nearly where they are said to be
_LONG = 5
_HOLDS = "holds the word"
_GENERAL = frozenset({"path-case", "path-missing", "symbol-missing"})
"""Rules that give way to a more specific one on the same line."""


class Share(NamedTuple):
    """How many of a page's references are of this repository, and how many there are."""

    here: int
    total: int

    @property
    def is_elsewhere(self) -> bool:
        """Whether the page is about another place."""
        return self.total > 1 and self.here < _HALF * self.total


class Settled(NamedTuple):
    """One document after the history was asked.

    Args:
        judged: Its references; the verdicts of a page that was not compared are open.
        why_not: Why it was not compared, or empty.
    """

    judged: list[Judged]
    why_not: str = ""


def settle(
    rows: Mapping[str, Sequence[Judged]],
    documents: Mapping[str, Document],
    repository: Repository,
    history: History,
) -> dict[str, Settled]:
    """Return the documents with every absent reference settled.

    Args:
        rows: The references of each document, as the files alone answer them.
        documents: The documents by their paths.
        repository: The repository.
        history: What it had before.
    """
    asked = [each.verdict.asked for every in rows.values() for each in every if _is_open(each)]
    names = {each.name for each in asked if each and each.name}
    bare = {each.name for each in asked if each and each.name and each.is_bare}
    # The name of a file that programs make is in their code.
    made = {each.file for each in asked if each and each.file and not is_code(each.file)}
    held = files_with(bare | made, repository.files, documents.keys())
    projects = [each.name for each in repository.programs.projects.all] if bare else []
    own = frozenset(each.lower().replace("-", "").replace("_", "") for each in projects if each)
    paths = {path for each in asked if each for path in each.paths}
    ignored = repository.files.ignored(sorted(paths))

    def kept(found: Mapping[str, Removal]) -> dict[str, Removal]:
        # What became a submodule was not removed: it is there, and not listed here.
        return {key: row for key, row in found.items() if not repository.files.outer(row.was)}

    # The scripts of a client's folder may be as old as the page.
    strong = {each for each, home in held.items() if not home.startswith(CLIENT_FOLDERS)}
    removed = kept(history.removed_names(names - strong))
    scripts = {each: held[each] for each in removed if each in held}
    held = {each: home for each, home in held.items() if each not in removed}
    files = {each.file for each in asked if each} | bare - held.keys() - {""}
    lost = bare - strong - {""}
    near = {each: repository.near_names.of(each) for each in lost}
    for each in lost & removed.keys():
        # Another place may have a name that only looks like one that is gone.
        if near[each] not in (repository.files.text(removed[each].was) or ""):
            near[each] = ""
    spots = {
        spot: documents[spot.page].lines[spot.page_line - 1]
        for path, every in rows.items()
        for each in every
        if (spot := _spot(each, path))
    }
    gone = _Gone(
        kept(history.removed_paths(paths - ignored)),
        removed,
        kept(history.removed_files(files)),
        near,
        held,
        scripts,
        own,
        ignored,
        history.moved_lines(spots),
    )
    return {
        path: _document(_without_later(every, path, removed, history), documents[path], gone)
        for path, every in rows.items()
    }


def _without_later(
    rows: Sequence[Judged], page: str, removed: Mapping[str, Removal], history: History
) -> list[Judged]:
    """Return the references without the words of code that were written when it was gone.

    An example may define or import anything; what it shows of the repository was there that day.
    """
    gone = {
        each: removed[name].date
        for each in rows
        if each.reference.kind == "word" and (name := _asked_name(each)) in removed
    }
    lines = {each.reference.line for each in gone}
    days = history.days_of(page, lines) if lines else {}
    later = Verdict("another namespace", "its line was written when it was not here")
    return [
        each._replace(verdict=later)
        if each in gone and not days.get(each.reference.line, "9") < gone[each]
        else each
        for each in rows
    ]


class _Gone(NamedTuple):
    """What is known of what the files lack.

    Args:
        paths: The removals of paths, by the path.
        names: Those of definitions, by the name.
        files: Those of files that are named without their folders.
        near: The one name that each bare name is most likely meant as.
        held: A file that holds each bare name.
        scripts: The same for names that were removed elsewhere: scripts of clients hold them.
        own: The names of the repository's projects, in small letters.
        ignored: The paths that git ignores.
        moves: Where lines are now.
    """

    paths: Mapping[str, Removal]
    names: Mapping[str, Removal]
    files: Mapping[str, Removal]
    near: Mapping[str, str]
    held: Mapping[str, str]
    scripts: Mapping[str, str]
    own: frozenset[str]
    ignored: set[str]
    moves: Mapping[Spot, Move]


def _is_open(judged: Judged) -> bool:
    return judged.verdict.asked is not None


def _document(rows: Sequence[Judged], document: Document, gone: _Gone) -> Settled:
    inside = f"{document.folder}/" if document.kind in ("skill", "reference") else "\0"
    settled = [
        each._replace(verdict=_of_lines(each, spot, gone) if spot else _verdict(each, gone, inside))
        if (spot := _spot(each, document.path)) or _is_open(each)
        else each
        for each in rows
    ]
    share = _share(settled, inside)
    why = ""
    if document.is_foreign:
        why = "it was written for another repository"
    elif share.is_elsewhere:
        why = f"{share.here} of {share.total} references are of this repository"
    if document.is_installed:
        # Its blocks follow from the repository that it comes from.
        made = Verdict("another namespace", "it follows from another repository")
        settled = [
            each._replace(verdict=made) if each.reference.kind == "generated" else each
            for each in settled
        ]
    if document.is_fixture:
        other = Verdict("another namespace", "tests are run on it")
        settled = [each._replace(verdict=other) for each in settled]
    if why:
        return Settled([_uncompared(each, inside) for each in settled], why)
    if not share.here:
        # Any project may have such a name, unless one of this project is nearly the same.
        settled = [
            _uncompared(each, inside)
            if each.reference.kind in _OF_PROJECTS and not _is_near(each)
            else each
            for each in settled
        ]
    return Settled(list(_told_once(_with_neighbours(settled, share, gone.own))))


def _is_near(judged: Judged) -> bool:
    return judged.reference.kind != "version" and judged.verdict.fix is not None


def _verdict(judged: Judged, gone: _Gone, inside: str) -> Verdict:
    verdict = judged.verdict
    asked = verdict.asked
    assert asked is not None, "only what is asked comes here"
    if not gone.ignored.isdisjoint(asked.paths):
        return Verdict.unknown("git ignores it: it is made, not kept", "ignored by git")
    removal = next((gone.paths[each] for each in asked.paths if each in gone.paths), None)
    removal = removal or gone.names.get(asked.name) or gone.files.get(asked.file or asked.name)
    if removal is not None and asked.home and not removal.was.startswith(f"{asked.home}/"):
        removal = None
    home = gone.held.get(asked.name, "") if asked.is_bare else ""
    script = home or gone.scripts.get(asked.name, "")
    if asked.is_bare and script.startswith(inside):
        # A skill's own scripts are what it is about.
        return verdict._replace(reason="open", evidence=f"{script} {_HOLDS}")
    near = gone.near.get(asked.name, "") if asked.is_bare else ""
    is_same = near.strip("_").lower() == asked.name.strip("_").lower()
    if near and is_same and verdict.reason == "absent":
        fix = Fix(judged.reference.line, asked.name, near)
        return verdict._replace(reason="other spelling", now=f"there is {near}", fix=fix)
    if home:
        return verdict._replace(reason="open", evidence=f"{home} {_HOLDS}")
    if near and removal is None and verdict.reason == "absent":
        return verdict._replace(reason="never here", now=f"there is {near}")
    if asked.file in gone.held:
        return verdict._replace(reason="open", evidence=f"{gone.held[asked.file]} {_HOLDS}")
    if removal is None:
        settled = asked.otherwise if verdict.reason == "absent" else verdict.reason
        return verdict._replace(reason=settled)
    if asked.is_bare and is_test(removal.was):
        return verdict._replace(reason="open", evidence=f"{removal.evidence}, which is a test")
    if removal.was.startswith(CLIENT_FOLDERS):
        return verdict._replace(reason="open", evidence="clients come and go with their folders")
    evidence = f"{verdict.evidence}; {removal.evidence}" if verdict.evidence else removal.evidence
    if verdict.reason == "moved":
        return verdict._replace(evidence=evidence)
    if removal.successor:
        fix = verdict.fix or _fix(judged, removal)
        now = f"it is {removal.successor}"
        return verdict._replace(reason="moved", evidence=evidence, now=now, fix=fix)
    return verdict._replace(reason="removed", evidence=evidence)


def _spot(judged: Judged, page: str) -> Spot | None:
    asked, line = judged.verdict.asked, judged.reference.line
    if asked is None or not asked.lines_of:
        return None
    return Spot(page, line, asked.lines_of, asked.line, asked.end)


def _of_lines(judged: Judged, spot: Spot, gone: _Gone) -> Verdict:
    """Return the verdict of lines once it is known where those of the page's day are now."""
    verdict, move = judged.verdict, gone.moves.get(spot)
    pairs = {spot.line: move.line, spot.end: move.end} if move is not None else {}
    moved = {was: now for was, now in pairs.items() if now and abs(now - was) > _NEAR}
    if move is None or not moved:
        return verdict._replace(asked=None)
    said = " and ".join(f"line {was} is line {now} now" for was, now in moved.items())
    evidence = f"{spot.path} changed since commit {move.commit[:10]} of {move.date}: {said}"
    after = text = judged.reference.text
    for was, now in pairs.items():
        after = re.sub(rf"(?<!\d){was}(?!\d)", str(now), after)
    is_whole = all(pairs.values()) and after != text
    fix = Fix(judged.reference.line, text, after, is_safe=False) if is_whole else None
    return verdict._replace(reason="wrong line", evidence=evidence, now=said, fix=fix, asked=None)


def _fix(judged: Judged, removal: Removal) -> Fix | None:
    """Return the fix that writes a successor as the text writes the path that it follows."""
    text = judged.reference.text
    parts = removal.was.split("/")
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    clean = next((each for each in tails if each in text), "")
    base = removal.was.removesuffix(clean).rstrip("/")
    if not clean:
        return None
    after = os.path.relpath(removal.successor, base or ".").replace(os.sep, "/")
    return Fix(judged.reference.line, clean, after) if not after.startswith("..") else None


def _share(rows: Iterable[Judged], inside: str) -> Share:
    counted = [
        each
        for each in rows
        if each.reference.kind in _PLACES and not each.verdict.place.startswith(inside)
    ]
    decided = HELD | REFUTED - {"never here"}
    here = {_key(each) for each in counted if each.verdict.reason in decided and _is_of_one(each)}
    other = {
        _key(each)
        for each in counted
        if each.verdict.reason in ("never here", "another namespace")
        and _is_of_files(each)
        and not each.verdict.place.endswith(".py")
    }
    return Share(len(here), len(here | other))


def _is_of_one(judged: Judged) -> bool:
    # A builtin, or a name that the text itself binds, holds anywhere.
    if judged.reference.kind == "definition":
        return False
    if judged.verdict.reason in HELD:
        return bool(judged.verdict.place)
    return judged.verdict.reason != "contradicts" or judged.reference.kind not in _OF_PROJECTS


def _is_of_files(judged: Judged) -> bool:
    """Return whether a reference can be nothing but a file: `owner/model` is a name of many."""
    text = judged.reference.text
    return "/" in text and ("." in text.rpartition("/")[2] or text.endswith("/"))


def _key(judged: Judged) -> str:
    return judged.reference.text


def _uncompared(judged: Judged, inside: str) -> Judged:
    verdict = judged.verdict
    if verdict.reason not in REFUTED or judged.reference.kind not in _PLACES | _OF_PROJECTS:
        return judged
    own = verdict.asked.paths if verdict.asked is not None else ()
    if any(each.startswith(inside) for each in own):
        return judged  # a skill's own files are its own, whatever it speaks of
    evidence = "the page is about another place"
    return judged._replace(verdict=Verdict("another namespace", evidence))


def _with_neighbours(
    rows: Sequence[Judged], share: Share, names_here: Collection[str]
) -> Iterator[Judged]:
    """Yield the references; what was never here counts only among neighbours that are here.

    A bare name needs neighbours even where it was removed: a word of another place may have been
    one of this, too.
    """
    near = {
        each.group
        for each in rows
        if each.verdict.reason in HELD and each.verdict.place and each.reference.kind in _PLACES
    }
    names = _names_by_group(rows)
    families = _families(rows)
    is_here = share.here >= _SEVERAL and share.here >= _MOST * share.total
    real = {
        (each.reference.kind, each.reference.line, each.group)
        for each in rows
        if each.verdict.reason in HELD and each.verdict.place
    }
    for each in rows:
        reason = each.verdict.reason
        key = each.reference.kind, each.reference.line, each.group
        if each.near == "template" and reason == "contradicts" and key in real:
            # "Some (like `x` and `y`)": where the one is real, the other is meant to be.
            each = each._replace(near="asserts", wide="asserts")
        if _is_bare(each) and reason == "removed":
            held, total = names[each.group]
            # A class is known by its name; a function or a variable may be one of any place.
            is_class = _CLASS.fullmatch(_asked_name(each)) is not None
            is_near = total == 1 or (held > 0)
            is_kept = is_class or (is_near and (is_here or _asked_name(each).isupper()))
            is_kept = is_here if each.reference.kind == "word" else is_kept
        elif each.reference.kind == "word":
            is_kept = False
        elif _is_bare(each) and reason in ("never here", "other spelling"):
            is_family = families[_family(each)] >= _FAMILY and _is_own(_family(each), names_here)
            is_kept = is_family or _bears_name(_asked_name(each), names_here)
            text = each.reference.text.partition("(")[0].removeprefix("self.")
            is_plain = "." not in text.rpartition("= ")[2]
            is_kept = is_kept or (is_here and is_plain and bool(each.verdict.now))
        else:
            is_kept = reason != "never here" or is_here or each.group in near
        if is_kept:
            yield each
            continue
        evidence = "nothing is here by this name, and its neighbours are not here either"
        yield each._replace(verdict=Verdict("another namespace", evidence))


def _asked_name(judged: Judged) -> str:
    """Return the name that the history was asked for, or nothing."""
    return judged.verdict.asked.name if judged.verdict.asked is not None else ""


def _is_bare(judged: Judged) -> bool:
    asked, place = judged.verdict.asked, judged.verdict.place
    is_name = judged.reference.kind in _NAMES
    return asked is not None and is_name and asked.is_bare and not place


def _families(rows: Iterable[Judged]) -> Counter[str]:
    """Return how many names of a page that are here begin with the same word in capitals."""
    held = {each.reference.text: _family(each) for each in rows if _is_known(each)}
    return Counter(family for family in held.values() if family)


def _is_own(family: str, own: Iterable[str]) -> bool:
    """Return whether words in capitals are of this project: `DD_...` of ddtrace."""
    return any(each.startswith(family.lower()) for each in own)


def _bears_name(name: str, own: Iterable[str]) -> bool:
    """Return whether a class bears the name of this project: `XtunerLayer` of xtuner."""
    plain = name.lower()
    return any(len(each) >= _LONG and plain.startswith(each) and plain != each for each in own)


def _family(judged: Judged) -> str:
    head, sign, _ = judged.reference.text.partition("_")
    return head if sign and judged.reference.text.isupper() else ""


def _is_known(judged: Judged) -> bool:
    return judged.verdict.reason in HELD or judged.verdict.evidence.endswith(_HOLDS)


def _names_by_group(rows: Iterable[Judged]) -> dict[int, tuple[int, int]]:
    """Return for each group how many of its names are here, and how many there are."""
    found: dict[int, tuple[int, int]] = {}
    for each in rows:
        if each.reference.kind in _NAMES:
            held, total = found.get(each.group, (0, 0))
            is_here = _is_known(each) and bool(each.verdict.place or each.verdict.asked)
            found[each.group] = held + is_here, total + (each.verdict.reason not in HELD or is_here)
    return found


def _told_once(rows: Iterable[Judged]) -> Iterator[Judged]:
    """Yield the references; of two on a line about one thing, the more specific one is refuted."""
    every = list(rows)
    special: dict[tuple[int, str], str] = {}
    for each in every:
        if each.verdict.reason in REFUTED and each.verdict.rule not in _GENERAL:
            for key in _things(each):
                special.setdefault(key, each.verdict.rule)
    seen: set[tuple[int, str, str]] = set()
    for each in every:
        verdict = each.verdict
        if verdict.reason in REFUTED:
            keys = _things(each)
            again = any((*key, verdict.rule) in seen for key in keys)
            covered = verdict.rule in _GENERAL and any(key in special for key in keys)
            if again or covered:
                yield each._replace(verdict=Verdict("open", "it is told already"))
                continue
            seen.update((*key, verdict.rule) for key in keys)
        yield each


def _things(judged: Judged) -> list[tuple[int, str]]:
    line, asked = judged.reference.line, judged.verdict.asked
    if asked is None:
        return [(line, judged.reference.text)]
    stem = asked.file.rpartition("/")[2].partition(".")[0]
    return [(line, each) for each in (*asked.paths, *filter(None, (asked.name, stem)))]

"""What a name that is gone most likely became."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cached_property

from scaffold.analysis.python.literal_tables import read_literal_tables
from scaffold.deps.deprecation_texts import Function, deprecation_of, folded, names_in
from scaffold.deps.judgement import Change
from scaffold.deps.release import Ask, Meaning, Release

# `RENAMED_ATTRIBUTES`, `removed_in_v2`.
_TABLE = re.compile(
    r"(?:RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE)|(?:renamed|removed|replaced|moved)_", re.ASCII
)
_WORDS = rb"RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE|renamed_|removed_|replaced_|moved_"


class Renames:
    """The literal tables of the new release that list renames and removals."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def of(self, name: str, owner: str) -> Change | None:
        """Return what is listed of a name, bare or with its module or class in front of it."""
        # The fuller spelling first: a bare name may be listed for another owner.
        spellings = [f"{owner}:{name}", f"{owner}.{name}", name]
        return next((self._rows[each] for each in spellings if each in self._rows), None)

    @cached_property
    def _rows(self) -> dict[str, Change]:
        found: dict[str, Change] = {}
        for path in self._release.files.python:
            data = self._release.files.data(path) or b""
            source = self._release.source(path) if re.search(_WORDS, data) else None
            tables = read_literal_tables(source.tree) if source is not None else {}
            for name, table in tables.items():
                for key, value in table.entries if _TABLE.search(name) else ():
                    text = value.value if isinstance(value, ast.Constant) else None
                    # A value with blanks is advice to the reader and no name.
                    new = text if isinstance(text, str) and text.isprintable() else ""
                    place = f"{name} in {path}:{getattr(value, 'lineno', '')}".rstrip(":")
                    found[key] = _listed("" if " " in new else new, self._release.version, place)
        return found


def _listed(new: str, version: str, place: str) -> Change:
    how = "renamed" if new else "removed"
    return Change(how, "breaks", f"{version} lists it as {how}", new, evidence=place)


_NEAR = 0.8  # the ratio of difflib


def likely_name(before: Meaning, after: Meaning, renames: Renames) -> Change:
    """Return what became of a name: by the texts of the release, else by where one like it is."""
    word = after.lacking
    owner = _owner(after)
    # The package's own words outweigh its tables, and both outweigh any likeness.
    for text, place in _told(before, after):
        for name in names_in(text):
            if name != word and _stands(after, owner, name):
                place_of, _, last = name.rpartition(".")
                # `pkg.new` for `pkg.old` is a new name and no other place.
                name = last if owner is not None and place_of == owner.ask.name else name
                return _likely("renamed", name, f"{place}: {text[:120]}")
    listed = renames.of(word, owner.ask.name if owner else "")
    if listed is not None:
        return listed
    if after.given is not None:
        guess = next(iter(names_in(after.given.text)), "")
        return _likely("moved" if guess else "removed", guess, after.given.text)
    moved = _moved(before, after)
    if moved:
        return _likely("moved", moved, f"{after.release.index.find(moved).path} has it")
    return _alike(before, after) or _likely("removed")


def _likely(verdict: str, name: str = "", evidence: str = "") -> Change:
    """Return a guess, with what speaks for it; why the name is gone is for the caller to say."""
    return Change(verdict, "breaks", "", name, evidence=evidence)


def _owner(after: Meaning) -> Meaning | None:
    """Return the thing of the new release that lacks the name."""
    parts = after.ask.name.split(".")
    if after.lacking not in parts[1:]:
        return None
    ask = Ask(after.ask.path, ".".join(parts[: parts.index(after.lacking, 1)]))
    return after.release.follow_ask(ask)


def _told(before: Meaning, after: Meaning) -> Iterator[tuple[str, str]]:
    node = before.definition
    if node is not None:
        # What a method warns of, such as one of its arguments, says nothing of its class.
        yield deprecation_of(node), f"{before.found.path}:{before.found.line}"
    if after.given is not None:
        yield after.given.text, f"{after.given.path}:{after.given.line}"


def _stands(after: Meaning, owner: Meaning | None, name: str) -> bool:
    if "." in name:
        return after.release.index.find(name).exists
    return owner is not None and after.release.follow_ask(owner.ask.member(name)).found.exists


def _moved(before: Meaning, after: Meaning) -> str:
    """Return where else a module's name is defined; a class's member does not move so."""
    # Other kinds have names too common for an equal one elsewhere to mean a move.
    if before.found.kind not in ("class", "function", "constant") or before.ask.path:
        return ""
    index, word = after.release.index, before.ask.name.rpartition(".")[2]
    is_module = after.lacking != word
    if is_module:
        parts = before.ask.name.split(".")
        for count in range(len(parts) - 2, 0, -1):
            # The module that held it is gone, and a shorter path offers it.
            shorter = ".".join([*parts[:count], word])
            if index.find(shorter).exists and not _stood_otherwise(before, shorter):
                return shorter
    found: list[str] = []
    for path, line in index.defined(word)[:20]:
        place = index.find_in(path, word)
        names = index.dotted_names(path)
        is_alike = is_module or place.kind == before.found.kind
        if place.exists and place.line == line and is_alike and names:
            dotted = f"{names[0]}.{word}"
            found += [dotted] if not _stood_otherwise(before, dotted) else []
    shared = set(before.ask.name.split(".")[:-1])
    found.sort(key=lambda each: (_is_private(each), -len(shared & set(each.split("."))), len(each)))
    return found[0] if found and not _is_private(found[0]) else ""


def _stood_otherwise(before: Meaning, dotted: str) -> bool:
    """Return whether a place had another thing of the name in the old release."""
    there, own = before.release.index.find(dotted), before.found
    return there.exists and (there.path, there.line) != (own.path, own.line)


def _is_private(dotted: str) -> bool:
    return any(part.startswith("_") for part in dotted.split("."))


def _alike(before: Meaning, after: Meaning) -> Change | None:
    """Return a new sibling of nearly the same name: its successor where it takes the same."""
    owner, word = _owner(after), after.lacking
    dotted = "" if owner is None else owner.dotted
    index = after.release.index
    known = sorted((index.members(dotted) or index.module_names(dotted)) if dotted else ())
    # A change of case or underscores alone needs no further proof.
    mates = [each for each in known if folded(each) == folded(word)]
    near = sorted(mates, key=_is_private) or get_close_matches(word, known, 3, _NEAR)
    # The name as a whole word of a longer one: `generate` in `generate_text`.
    near += [each for each in known if f"_{word}_" in f"_{each}_"]
    for name in near:
        ask = Ask("", f"{dotted}.{name}")
        there, was = after.release.follow_ask(ask), before.release.follow_ask(ask)
        # A neighbour that stood beside it before, as what it is, has not taken its place.
        if there.found.kind == before.found.kind != was.found.kind:
            verdict = "renamed" if _can_stand(before, there, is_mate=bool(mates)) else "removed"
            return _likely(verdict, name, f"{there.found.path}:{there.found.line} has {name}")
    return None


def _can_stand(before: Meaning, there: Meaning, *, is_mate: bool) -> bool:
    """Return whether one can stand for the other as it is; else the name is but a hint."""
    one, other = before.definition, there.definition
    if isinstance(one, Function) and isinstance(other, Function):
        return type(one) is type(other) and _arguments(one) == _arguments(other)
    if isinstance(one, ast.ClassDef):
        had, has = before.signature, there.signature
        return is_mate or bool(had and has and had.names == has.names)
    return _value(before) == _value(there) if before.found.kind == "constant" else is_mate


def _value(meaning: Meaning) -> str | None:
    node = meaning.release.assigned(meaning.found)
    return ast.unparse(node.value) if node is not None and node.value is not None else meaning.place


def _arguments(node: Function) -> list[str]:
    return [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]

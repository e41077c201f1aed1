"""What a name that is gone most likely became, and attributes that are lost without a word."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, cached_property

from scaffold.analysis.python.follower import CALLED
from scaffold.analysis.python.literal_tables import read_literal_tables
from scaffold.deps.deprecation_texts import Function, deprecation_of, folded, names_in
from scaffold.deps.release import Ask, Meaning, Release
from scaffold.deps.use import Change, Judgement, Use

# `RENAMED_ATTRIBUTES`, `removed_in_v2`.
_TABLE = re.compile(
    r"(?:RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE)|(?:renamed|removed|replaced|moved)_", re.ASCII
)
_WORDS = rb"RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE|renamed_|removed_|replaced_|moved_"

_NEAR = 0.8  # the ratio of difflib

_SHOWN = 3
# What begins at the left edge: a class, by its name, or anything else.
_TOP = re.compile(rb"^(?:class (\w+)|[A-Za-z@])", re.MULTILINE)

_OF_ANY_OBJECT = {*dir(type), *dir(lambda: None)}
"""Attributes of every class or function, such as ``__name__``."""


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
                    new = "" if " " in new else new
                    how = "renamed" if new else "removed"
                    why = f"{self._release.version} lists it as {how}"
                    found[key] = Change(how, "breaks", why, new, evidence=place)
        return found


def likely_name(before: Meaning, after: Meaning, renames: Renames) -> Change:
    """Return what became of a name: by the texts of the release, else by where one like it is."""
    word = after.lacking
    owner = _owner(after)
    told: list[tuple[str, str]] = []
    if before.definition is not None:
        # What a method warns of, such as one of its arguments, does not concern its class.
        place = f"{before.found.path}:{before.found.line}"
        told.append((deprecation_of(before.definition), place))
    if after.given is not None:
        told.append((after.given.text, f"{after.given.path}:{after.given.line}"))

    def is_kept(name: str) -> bool:
        if "." in name:
            return after.release.index.find(name).exists
        return owner is not None and after.release.follow_ask(owner.ask.member(name)).found.exists

    # The package's own words outweigh its tables, and both outweigh any likeness.
    for text, place in told:
        for name in names_in(text):
            if name != word and is_kept(name):
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
    parts = after.ask.name.split(".")
    if after.lacking not in parts[1:]:
        return None
    ask = Ask(after.ask.path, ".".join(parts[: parts.index(after.lacking, 1)]))
    return after.release.follow_ask(ask)


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


class HiddenLosses:
    """The attributes that classes of the old release set, and those of the new one do not."""

    def __init__(self, old: Release, new: Release) -> None:
        self._old, self._new = old, new
        self._loss = cache(self._find_loss)

    def anywhere(self, use: Use) -> Iterator[Judgement]:
        """Yield the finding on ``getattr(x, "name", default)`` where what ``x`` is does not show.

        Each class of the old release that sets the attribute is asked for in the new one.
        """
        if loss := self._loss(use.parts[-1]):
            yield Judgement("absence-hidden", "check", loss, use=use)

    def _find_loss(self, name: str) -> str:
        """Return which classes have lost an attribute, in words; "" where none has."""
        # `__name__` and its like are there in any function or class, whatever a class sets.
        had = [] if name in _OF_ANY_OBJECT else sorted({*self._setters(name)})
        lost = [each for each in had if _sets(self._new, each, name) is False]
        # A name that most classes keep is no evidence of the object that is asked.
        if not lost or 2 * len(lost) < len(had):
            return ""
        shown = ", ".join(lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
        which = f"{len(lost)} of {len(had)} classes ({shown})" if len(had) > 1 else shown
        return f"{which} had {name!r}, and the fallback takes its place in {self._new.version}"

    def _setters(self, name: str) -> Iterator[str]:
        """Yield the top-level classes of the old release whose own text sets an attribute.

        They are read by pattern, as to parse thousands of sources would take minutes.
        """
        word = name.encode()
        # `name: int = 1` or `def name(self)` of a class, `self.name = 1`.
        own, by_self = rb"^ {4}(?:def )?%s *(?:[:=](?!=)|\(self\))", rb"\bself\.%s *[:=](?!=)"
        sets = re.compile(b"|".join((own, by_self)) % (word, word), re.MULTILINE)
        for path in self._old.files.python:
            data = self._old.files.data(path) or b""
            for each in sets.finditer(data) if word in data else ():
                around: list[bytes] = _TOP.findall(data, 0, each.start())
                if around and around[-1]:
                    yield around[-1].decode()

    @cached_property
    def _gone(self) -> set[str]:
        """The public names that the old release defines, and no builtin type or new source has."""
        builtin = {name for kind in vars(builtins).values() for name in dir(kind)}
        gone = {*self._old.index.names()} - {*self._new.index.names()} - builtin
        return {each for each in gone if not each.startswith("_")}

    def of_unknown(self, use: Use) -> Judgement | None:
        """Return the finding on ``x.name`` where what ``x`` is does not show.

        A method of the old release whose name is in no source of the new one is lost, be it of
        whichever class; what the tree itself defines, the caller leaves out.
        """
        name = use.parts[-1]
        if name not in self._gone or self._new.defines(name):
            return None
        for path, line in self._old.index.defined(name):
            source = self._old.source(path)
            node = source.definitions.get(line) if source is not None else None
            if source is not None and node is not None and node not in source.tree.body:
                place = f"{path}:{line}"
                why = f"no source of {self._new.version} has {name!r}, which stood in {place}"
                return Judgement("removed", "check", why, use=use, old=place)
        return None

    def of_class(self, found: Judgement) -> Judgement:
        """Return an undecided finding decided, where its class has plainly lost the attribute."""
        parts = found.use.parts
        owner, name = parts[-3] if CALLED in parts[-2:-1] else "", parts[-1]
        if not found.is_unsure or not _sets(self._old, owner, name):
            return found
        if _sets(self._new, owner, name) is not False:
            return found
        verdict = "absence-hidden" if isinstance(found.use.node, ast.Call) else "removed"
        why = f"no text of {self._new.version} sets {name!r} of {owner} any more"
        return replace(found, verdict=verdict, level="check", why=why)


def _sets(release: Release, owner: str, name: str) -> bool | None:
    """Return whether a class, or one that it derives from, sets an attribute; None without it.

    Classes of one name in several modules count as one.
    """
    index = release.index
    modules = [index.dotted_names(path)[:1] for path, _ in index.defined(owner)]
    classes = [index.members(f"{module}.{owner}") for each in modules for module in each]
    known = [each for each in classes if each is not None]
    return any(name in each for each in known) if known else None

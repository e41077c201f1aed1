"""What a name that is gone most likely became."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

from scaffold.deps.deprecation_texts import deprecation_of, has_warning, names_in
from scaffold.deps.release import Ask, Meaning, Release, dotted_ask
from scaffold.deps.renames import Renames

# Ratios of difflib: of two names, and of the parameters of two functions.
_NEAR = 0.8
_SAME_PARAMETERS = 0.5


@dataclass(frozen=True)
class Likely:
    """A guess at what a name became.

    Args:
        verdict: "moved", "renamed" or "removed".
        name: The name to take, dotted where it is elsewhere; "" where there is no guess.
        evidence: What speaks for it.
    """

    verdict: str
    name: str = ""
    evidence: str = ""


def likely_name(
    old: Release, new: Release, before: Meaning, after: Meaning, renames: Renames
) -> Likely:
    """Return what became of a name: by the texts of the release, else by where one like it is."""
    word = after.lacking
    owner = _owner(after)
    # The package's own words outweigh its tables, and both outweigh any likeness.
    told = list(_told(old, before, after))
    for text, place in told:
        for name in names_in(text):
            if name != word and _stands(new, owner, name):
                return Likely("renamed", name, f"{place}: {text[:120]}")
    listed = renames.of(word, owner.name if owner else "")
    if listed is not None:
        return Likely("renamed" if listed.new else "removed", listed.new, listed.evidence)
    if after.given is not None:
        guess = next(iter(names_in(after.given.text)), "")
        return Likely("moved" if guess else "removed", guess, after.given.text)
    moved = _moved(new, before, after)
    if moved:
        return Likely("moved", moved, f"{new.index.find(moved).path} has it")
    return _alike(old, new, before, after) or Likely("removed")


def _owner(after: Meaning) -> Ask | None:
    parts = after.ask.name.split(".")
    if after.lacking not in parts[1:]:
        return None
    return Ask(after.ask.path, ".".join(parts[: parts.index(after.lacking, 1)]))


def _told(old: Release, before: Meaning, after: Meaning) -> Iterator[tuple[str, str]]:
    node = old.definition(before.found)
    if node is not None:
        text = deprecation_of(node)
        if isinstance(node, ast.ClassDef):
            text = text or has_warning(node.body)
        yield text, f"{before.found.path}:{before.found.line}"
    if after.given is not None:
        yield after.given.text, f"{after.given.path}:{after.given.line}"


def _stands(new: Release, owner: Ask | None, name: str) -> bool:
    if owner is not None and "." not in name and new.follow_ask(owner.member(name)).found.exists:
        return True
    return "." in name and new.index.find(name).exists


def _moved(new: Release, before: Meaning, after: Meaning) -> str:
    """Return where else a module's name is defined; a class's member does not move so."""
    # Other kinds have names too common for an equal one elsewhere to mean a move.
    if before.found.kind not in ("class", "function", "constant") or before.ask.path:
        return ""
    thing = before.ask.name.rpartition(".")[0]
    if after.ask.name.rpartition(".")[2] != after.lacking:
        return _moved_module(new, before)
    found: list[str] = []
    for path, line in new.index.defined(after.lacking)[:20]:
        place = new.index.find_in(path, after.lacking)
        names = new.index.dotted_names(path)
        if place.exists and place.line == line and place.kind == before.found.kind and names:
            found.append(f"{names[0]}.{after.lacking}")
    shared = set(thing.split("."))
    found.sort(key=lambda each: (_is_private(each), -len(shared & set(each.split("."))), len(each)))
    return found[0] if found and not _is_private(found[0]) else ""


def _moved_module(new: Release, before: Meaning) -> str:
    """Return the name where the module that held it is gone, and a shorter path offers it."""
    parts = before.ask.name.split(".")
    for count in range(len(parts) - 2, 0, -1):
        shorter = ".".join([*parts[:count], parts[-1]])
        if new.index.find(shorter).exists:
            return shorter
    for path, line in new.index.defined(parts[-1])[:20]:
        found = new.index.find_in(path, parts[-1])
        names = new.index.dotted_names(path)
        if found.exists and found.line == line and names and not _is_private(names[0]):
            return f"{names[0]}.{parts[-1]}"
    return ""


def _is_private(dotted: str) -> bool:
    return any(part.startswith("_") for part in dotted.split("."))


def _alike(old: Release, new: Release, before: Meaning, after: Meaning) -> Likely | None:
    """Return a sibling with nearly the same name that takes nearly the same."""
    owner = _owner(after)
    dotted = "" if owner is None else dotted_ask(new, owner)
    if not dotted:
        return None
    word = after.lacking
    known = set(new.index.members(dotted) or new.index.module_names(dotted))
    # A change of case or underscores alone needs no further proof.
    mates = [each for each in known if _folded(each) == _folded(word)]
    mate = min(mates, key=_is_private, default=None)
    near = [mate] if mate else get_close_matches(word, sorted(known), 3, _NEAR)
    # The name as a whole word of a longer one: `generate` in `generate_text`.
    near += [each for each in sorted(known) if f"_{word}_" in f"_{each}_"]
    for name in near:
        there = new.follow_ask(Ask("", f"{dotted}.{name}"))
        if name == word or not there.found.exists:
            continue
        if old.follow_ask(Ask("", f"{dotted}.{name}")).found.exists and not mate:
            continue  # a neighbour that stood beside it before has not taken its place
        if mate or _same_parameters(old, new, before, there):
            path, line = there.found.path, there.found.line
            return Likely("renamed", name, f"{path}:{line} has {name}")
    return None


def _same_parameters(old: Release, new: Release, before: Meaning, there: Meaning) -> bool:
    one, other = old.definition(before.found), new.definition(there.found)
    if isinstance(one, ast.ClassDef) != isinstance(other, ast.ClassDef):
        return False
    # Classes have no parameters to compare, so the likeness of the names decides.
    if isinstance(one, ast.ClassDef) or one is None or other is None:
        return one is not None or before.found.kind == there.found.kind
    assert not isinstance(other, ast.ClassDef)
    had, has = ([each.arg for each in node.args.args] for node in (one, other))
    return SequenceMatcher(None, had, has).ratio() >= _SAME_PARAMETERS


def _folded(name: str) -> str:
    return name.replace("_", "").lower()

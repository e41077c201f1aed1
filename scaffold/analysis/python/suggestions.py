"""What a missing name may have become: set from elsewhere, moved, or misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaffold.analysis.near_names import closest
from scaffold.analysis.python.definitions import Definitions
from scaffold.analysis.python.entry import ClassEntry
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.modules import Module, Modules
from scaffold.analysis.python.resolver import Resolver

_MOST_PATHS = 20
"""A name that more files define has not moved: it is an everyday one."""


class Nearness:
    """A search of the whole repository for a missing name.

    Args:
        resolver: Follows names.
        modules: Where the modules lie.
        definitions: Every definition by its bare name.
    """

    def __init__(self, resolver: Resolver, modules: Modules, definitions: Definitions) -> None:
        self._resolver = resolver
        self._modules = modules
        self._definitions = definitions

    def why_set_elsewhere(self, found: Found) -> str | None:
        """Return why a missing name may be set from outside, or None.

        ``thing.name = value`` counts for any class, since the thing may be of it, and for a module
        only where the thing has the module's name; ``setattr(thing, ...)`` needs the name too.
        """
        name, owner = found.lacking, _owner(found)
        if not name or owner is None:
            return None
        if self._definitions.is_set_by_name(owner):
            return f"code sets attributes of {owner} by name"
        setters = self._definitions.set_on(name)
        # Modules have too many everyday names for an unrelated setter to count.
        if isinstance(found.thing, Module):
            setters &= {owner}
        if setters:
            return f"code sets {name} on {min(setters)}"
        return None

    def nearest(self, found: Found) -> str | None:
        """Return the dotted name that a missing one most likely became, or None."""
        parts = found.name.split(".")
        moved = sorted(set(self._moved(parts)), key=lambda each: _distance(each, parts))
        if moved:
            return moved[0]
        close = closest(found.lacking, self._neighbours(found), 0.75)
        if not close:
            return None
        index = parts.index(found.lacking)
        return ".".join([*parts[:index], close, *parts[index + 1 :]])

    def _moved(self, parts: list[str]) -> Iterator[str]:
        """Yield where else a top-level name of the repository is defined or offered."""
        paths = self._definitions.paths(parts[-1])
        if len(paths) > _MOST_PATHS:
            return
        for path in paths:
            if not self._resolver.find_in(path, parts[-1]).exists:
                continue
            for module in self._modules.dotted_names(path)[:1]:
                yield f"{module}.{parts[-1]}"

    def _neighbours(self, found: Found) -> Iterable[str]:
        thing = found.thing
        if isinstance(thing, ClassEntry):
            return self._resolver.classes.members(thing)
        if isinstance(thing, Module):
            return {*self._resolver.names(thing), *self._modules.children(thing)}
        return ()


def _owner(found: Found) -> str | None:
    thing = found.thing
    if isinstance(thing, ClassEntry):
        return thing.binding.name
    if isinstance(thing, Module):
        stem = thing.place.removesuffix("/__init__.py").removesuffix("/__init__.pyi")
        return stem.rpartition("/")[2].partition(".")[0]
    return None


def _distance(dotted: str, parts: list[str]) -> tuple[int, int, str]:
    """Order candidates: the more parts shared and the shorter, the nearer."""
    other = dotted.split(".")
    return -len(set(other) & set(parts)), len(other), dotted

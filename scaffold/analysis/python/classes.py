"""Classes: their bases, their members, and whether that is all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.analysis.python.bindings import Binding, ClassBinding, FunctionBinding, ValueBinding
from scaffold.analysis.python.builtins_table import StandardName, has_member, standard_name
from scaffold.analysis.python.decorators import PROPERTIES, has_decorator, last_part
from scaffold.analysis.python.entry import (
    ClassEntry,
    FunctionEntry,
    Resolve,
    keeps_signature,
)
from scaffold.analysis.python.lookup_result import Found, Kind

MemberKind = Literal["method", "property", "attribute", "class"]


class Member(NamedTuple):
    """A member of a class.

    Args:
        name: Its name.
        kind: What it is.
        owner: The name of the class that defines it.
        path: The file it is in.
        line: The line, from 1.
    """

    name: str
    kind: MemberKind
    owner: str
    path: str
    line: int


class Lineage(NamedTuple):
    """A class with its bases, the nearest first.

    Args:
        entries: The classes of this repository.
        standard: The bases that Python itself brings.
        unknown: Why not all members are known, or None.
        known: How many entries come before the first base that is not known.
    """

    entries: tuple[ClassEntry, ...]
    standard: tuple[StandardName, ...]
    unknown: str | None
    known: int


class Classes:
    """The classes of a repository with their bases and members.

    Args:
        resolve: Finds what a dotted name means inside a module.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._lineages: dict[int, Lineage] = {}

    def lineage(self, entry: ClassEntry) -> Lineage:
        """Return a class with all its bases."""
        key = id(entry.binding)  # the tables keep every binding alive
        if key not in self._lineages:
            self._lineages[key] = self._find_lineage(entry)
        return self._lineages[key]

    def members(self, entry: ClassEntry) -> dict[str, Member]:
        """Return the members of a class and of its bases in this repository."""
        found: dict[str, Member] = {}
        # Nearest first, so that an override hides what it overrides.
        for each in self.lineage(entry).entries:
            for member in _own_members(each):
                found.setdefault(member.name, member)
        return found

    def beyond_text(self, entry: ClassEntry, name: str) -> Found:
        """Answer for a member that the text of no class in the lineage gives."""
        path, line = entry.place, entry.binding.line
        if self.has_standard_member(entry, name):
            return Found("attribute", "", path, line, f"{entry.binding.name} inherits {name}")
        reason = self.why_open(entry, name)
        if reason is not None:
            return Found("undecided", "", path, line, reason)
        evidence = f"class {entry.binding.name} in {path}:{line} has no member {name!r}"
        return Found("missing", "", path, line, evidence, thing=entry)

    def why_open(self, entry: ClassEntry, name: str) -> str | None:
        """Return why a class may have a member that no text names, or None."""
        # Special names depend on the version, the metaclass and the way the class was made.
        if name in _PROTOCOL_NAMES or (name.startswith("__") and name.endswith("__")):
            return f"Python itself may give {name}"
        lineage = self.lineage(entry)
        for each in lineage.entries:
            reason = f"only a stub has {each.binding.name}" if each.module.path is None else None
            reason = reason or self._why_open(each)
            if reason is not None:
                return reason
        return lineage.unknown

    def has_standard_member(self, entry: ClassEntry, name: str) -> bool:
        """Return whether one of Python's own bases, or ``object``, has a member."""
        bases = [each.base for each in self.lineage(entry).standard]
        return any(base is not None and has_member(base, name) for base in [*bases, object])

    def _why_open(self, entry: ClassEntry) -> str | None:
        binding = entry.binding
        if binding.dynamic is not None:
            return f"{entry.place}: {binding.dynamic}"
        for name in ("__getattr__", "__getattribute__"):
            if name in binding.names.names:
                return f"{binding.name} has {name}"
        if not keeps_signature(binding.decorators, entry.module, self._resolve):
            return f"{binding.name} has a decorator that may add members"
        return why_uncertain(entry) if self._metaclass_adds(entry) else None

    def _metaclass_adds(self, entry: ClassEntry) -> bool:
        """Return whether a metaclass may give members; one with no more than a call does not."""
        found = self._resolve(entry.module, entry.binding.keywords.get("metaclass", "?"))
        if not isinstance(found.thing, ClassEntry) or "**" in entry.binding.keywords:
            return True
        lineage = self.lineage(found.thing)
        # Only a metaclass that defines nothing but `__call__` and the like leaves its classes
        # alone.
        names = {name for each in lineage.entries for name in each.binding.names.names}
        names |= {name for each in lineage.entries for name in each.binding.instance_names}
        return lineage.unknown is not None or not names <= _CALLING

    def _find_lineage(self, entry: ClassEntry) -> Lineage:
        line = self._linear(entry, ())
        reasons = [each for each in line if isinstance(each, str)]
        standard = tuple(each for each in line if isinstance(each, StandardName))
        kept: list[ClassEntry | str] = []
        for index, each in enumerate(line):  # a base of two classes comes after both
            if isinstance(each, ClassEntry):
                later = (other for other in line[index + 1 :] if isinstance(other, ClassEntry))
                # The last mention counts, which is Python's linearisation for the usual diamonds.
                if all(other.binding is not each.binding for other in later):
                    kept.append(each)
            elif isinstance(each, str):
                kept.append(each)
        entries = tuple(each for each in kept if isinstance(each, ClassEntry))
        known = next((index for index, each in enumerate(kept) if isinstance(each, str)), len(kept))
        return Lineage(entries, standard, reasons[0] if reasons else None, known)

    def _linear(
        self, entry: ClassEntry, below: tuple[ClassEntry, ...]
    ) -> list[ClassEntry | StandardName | str]:
        """List a class, its bases and theirs, and the reasons why some are not known."""
        found: list[ClassEntry | StandardName | str] = [entry]
        # metaclass=ABCMeta gives what a base ABC would; other metaclasses are uncertain.
        if "metaclass" in entry.binding.keywords and why_uncertain(entry) is None:
            found.append(standard_name("abc.ABC"))
        # A name that is rebound, as in `class A(A)`, can resolve to the class itself.
        if len(below) > _DEEPEST or any(each.binding is entry.binding for each in below):
            return [f"the bases of {entry.binding.name} go in a circle"]
        for base in entry.binding.bases:
            base_found = self._resolve(entry.module, base)
            thing = base_found.thing
            if isinstance(thing, ClassEntry):
                if not base_found.is_certain:
                    found.append(f"there are several definitions of {base}")
                found += self._linear(thing, (*below, entry))
            elif isinstance(thing, StandardName) and thing.base is not None:
                found.append(thing)
                if not thing.is_stable:
                    found.append(f"the members of {base} differ between versions of Python")
            else:
                found.append(f"the base {base} of {entry.binding.name} is not known here")
        return found


# No class has as many bases one above the other; what goes deeper is a circle.
_DEEPEST = 60
_CALLING = frozenset(
    {"__call__", "__instancecheck__", "__subclasscheck__", "_instances", "__doc__"}
)
"""Names in a metaclass that leave the members of its classes as they are."""

# What `typing` and `abc` put into the classes that they make.
_PROTOCOL_NAMES = frozenset({"_is_protocol", "_is_runtime_protocol", "_abc_impl"})


def own_member(entry: ClassEntry, name: str) -> Found | None:
    """Return what a class's own text gives under a name, or None."""
    name = _unmangled(entry, name)
    bindings = entry.binding.names.names.get(name)
    path, owner = entry.place, entry.binding.name
    if not bindings:
        line = entry.binding.instance_names.get(name)
        if line is None:
            return None
        return Found("attribute", "", path, line, f"{owner}.{name} in {path}:{line}")
    binding = preferred(bindings)
    # `if` and `else` may define a member in two ways, of which either may be the one that runs.
    certain = not are_alternatives(bindings)
    evidence = f"{owner}.{name} in {path}:{binding.line}"
    if isinstance(binding, ValueBinding) and binding.alias in entry.binding.names.names:
        # `b = a` in a class body makes b the same method as a.
        binding = preferred(entry.binding.names.names[binding.alias])
    kind: Kind = "attribute"
    thing: object = None
    if isinstance(binding, FunctionBinding):
        kind = "attribute" if has_decorator(binding.decorators, *PROPERTIES) else "function"
        thing = FunctionEntry(binding, entry.module, entry)
    elif isinstance(binding, ClassBinding):
        kind, thing = "class", ClassEntry(binding, entry.module)
    return Found(kind, "", path, binding.line, evidence, is_certain=certain, thing=thing)


def preferred(bindings: list[Binding]) -> Binding:
    """Take the implementation among overloads, and the property among its accessors."""
    return (_real(bindings) or bindings)[-1]


def are_alternatives(bindings: list[Binding]) -> bool:
    """Return whether a name has several definitions that do not take the same."""
    real = _real(bindings)
    if len(real) < 2:
        return False
    taken = {
        each.signature.parameters if isinstance(each, FunctionBinding) else None for each in real
    }
    return None in taken or len(taken) > 1


def why_uncertain(entry: ClassEntry) -> str | None:
    """Return why the class statement may do more than make a plain class, or None."""
    words = entry.binding.keywords
    if "**" in words:
        return f"{entry.binding.name} is made with unknown arguments"
    metaclass = last_part(words.get("metaclass", "type"))
    if metaclass not in ("type", "ABCMeta", "EnumMeta", "EnumType"):
        return f"{entry.binding.name} has the metaclass {metaclass}"
    return None


def _real(bindings: list[Binding]) -> list[Binding]:
    return [
        # An accessor repeats the property's name and is no second definition of it.
        each
        for each in bindings
        if not isinstance(each, FunctionBinding)
        or not has_decorator(each.decorators, "overload", "setter", "deleter", "getter")
    ]


def _own_members(entry: ClassEntry) -> Iterator[Member]:
    owner, path = entry.binding.name, entry.place
    for name, bindings in entry.binding.names.names.items():
        binding = preferred(bindings)
        kind: MemberKind = "attribute"
        if isinstance(binding, FunctionBinding):
            kind = "property" if has_decorator(binding.decorators, *PROPERTIES) else "method"
        elif isinstance(binding, ClassBinding):
            kind = "class"
        yield Member(name, kind, owner, path, binding.line)
    for name, line in entry.binding.instance_names.items():
        yield Member(name, "attribute", owner, path, line)


def _unmangled(entry: ClassEntry, name: str) -> str:
    """Return ``__x`` for the ``_Class__x`` that Python makes of it."""
    # Python drops the leading underscores of the class name when it mangles.
    prefix = f"_{entry.binding.name.lstrip('_')}__"
    return f"__{name.removeprefix(prefix)}" if name.startswith(prefix) else name

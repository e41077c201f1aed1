"""Classes: their bases, members, fields, and what makes an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from scaffold.skills.repository.decorators import (
    PROPERTIES,
    has_decorator,
    keeps_signature,
    last_part,
)
from scaffold.skills.repository.found import Found
from scaffold.skills.repository.modules import Module
from scaffold.skills.repository.scopes import (
    Binding,
    ClassBinding,
    FieldBinding,
    FunctionBinding,
    ValueBinding,
)
from scaffold.skills.repository.signatures import Parameter, Signature

MemberKind = Literal["method", "property", "attribute", "class"]


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """Is a class where it stands: its binding and its module."""

    binding: ClassBinding
    module: Module


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """Is a function or method where it stands.

    Args:
        binding: The ``def``.
        module: Its module.
        owner: The class whose member it is, or None.
    """

    binding: FunctionBinding
    module: Module
    owner: ClassEntry | None = None


@dataclass(frozen=True, slots=True)
class ValueEntry:
    """Is an assigned name where it stands."""

    binding: ValueBinding
    module: Module


@dataclass(frozen=True, slots=True)
class Member:
    """Is a member of a class.

    Args:
        name: Its name.
        kind: What it is.
        owner: The name of the class that defines it.
        path: The file in which it stands.
        line: The line, from 1.
    """

    name: str
    kind: MemberKind
    owner: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Field:
    """Is a field of a dataclass, a named tuple or a class of annotated names.

    Args:
        name: The name.
        annotation: Its type as written.
        default: Its default as written, or None.
        has_default: Whether a call may leave it out.
        init: Whether the constructor takes it.
        kw_only: Whether it is taken by keyword only.
        owner: The name of the class that declares it.
        path: The file in which it stands.
        line: The line, from 1.
    """

    name: str
    annotation: str
    default: str | None
    has_default: bool
    init: bool
    kw_only: bool
    owner: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """Is a class with its bases, the nearest first.

    Args:
        entries: The classes of this repository.
        standard: The bases that Python itself brings.
        unknown: Why not all bases are known, or None.
        known: How many entries come before the first unknown base.
    """

    entries: tuple[ClassEntry, ...]
    standard: tuple[type, ...]
    unknown: str | None
    known: int


class Classes:
    """Answers questions about classes.

    Args:
        resolve: Finds what a dotted name means inside a module.
    """

    def __init__(self, resolve: Callable[[Module, str], Found]) -> None:
        self._resolve = resolve
        self._lineages: dict[int, tuple[ClassEntry, Lineage]] = {}

    def lineage(self, entry: ClassEntry) -> Lineage:
        """Returns a class with all its bases."""
        key = id(entry.binding)
        if key not in self._lineages:
            self._lineages[key] = (entry, self._find_lineage(entry))
        return self._lineages[key][1]

    def own_member(self, entry: ClassEntry, name: str) -> Binding | int | None:
        """Returns what a class's own text gives under a name: a binding, or the line of one."""
        bindings = entry.binding.names.names.get(name)
        if bindings:
            return _preferred(bindings)
        return entry.binding.instance_names.get(name)

    def members(self, entry: ClassEntry) -> dict[str, Member]:
        """Returns the members of a class and of its bases in this repository."""
        found: dict[str, Member] = {}
        for each in self.lineage(entry).entries:
            for member in _own_members(each):
                found.setdefault(member.name, member)
        return found

    def why_open(self, entry: ClassEntry) -> str | None:
        """Says why a class may have members that its text does not name, or returns None."""
        lineage = self.lineage(entry)
        for each in lineage.entries:
            reason = _why_open(each)
            if reason is not None:
                return reason
        return lineage.unknown

    def has_standard_member(self, entry: ClassEntry, name: str) -> bool:
        """Tells whether one of Python's own bases, or ``object``, has a member."""
        bases = (*self.lineage(entry).standard, object, type)
        return any(hasattr(each, name) for each in bases) or name in _CLASS_NAMES

    def fields(self, entry: ClassEntry) -> tuple[Field, ...] | None:
        """Returns the fields of a dataclass or named tuple; None where a class is neither."""
        lineage = self.lineage(entry)
        holders = [each for each in lineage.entries if _has_fields(each)]
        if not holders:
            return None
        found: dict[str, Field] = {}
        for each in reversed(holders):
            for field in _own_fields(each):
                found[field.name] = field
        return tuple(found.values())

    def constructor(self, entry: ClassEntry) -> Signature | None:
        """Returns what making an instance takes; None where that is not certain."""
        lineage = self.lineage(entry)
        if any(not keeps_signature(each.binding.decorators) for each in lineage.entries):
            return None
        for index, each in enumerate(lineage.entries):
            if index >= lineage.known:
                return None
            if _why_uncertain(each):
                return None
            made = self._own_constructor(each, entry)
            if made is not None:
                return made
        if lineage.unknown is not None or lineage.standard:
            return None
        binding = entry.binding
        return Signature(binding.name, (), entry.module.place, binding.line)

    def _own_constructor(self, each: ClassEntry, entry: ClassEntry) -> Signature | None:
        """Returns the constructor that one class of a lineage itself brings."""
        name = entry.binding.name
        method = each.binding.names.names.get("__init__") or each.binding.names.names.get("__new__")
        if method:
            last = _preferred(method)
            if isinstance(last, FunctionBinding) and keeps_signature(last.decorators):
                bound = last.signature.bound()
                return replace(bound, name=name, path=each.module.place)
            return None
        if _is_dataclass(each) and each.binding.options.get("dataclass", {}).get("init") != "False":
            fields = self.fields(each)
            if fields is not None and self.lineage(each).unknown is None:
                parameters = tuple(_field_parameters(fields))
                return Signature(name, parameters, each.module.place, each.binding.line)
        return None

    def _find_lineage(self, entry: ClassEntry) -> Lineage:
        entries: list[ClassEntry] = [entry]
        standard: list[type] = []
        unknown: str | None = None
        known = 0
        pending = [entry]
        while pending:
            current = pending.pop(0)
            for base in current.binding.bases:
                found = self._resolve(current.module, base)
                if isinstance(found.thing, ClassEntry):
                    if all(found.thing.binding is not each.binding for each in entries):
                        entries.append(found.thing)
                        pending.append(found.thing)
                    continue
                real = found.thing if isinstance(found.thing, type) else None
                if real is not None or base.rpartition(".")[2] in ("Generic", "Protocol"):
                    standard += [real] if real not in (None, object) else []
                elif unknown is None:
                    unknown = f"the base {base} of {current.binding.name} is not in this repository"
                    known = len(entries)
        return Lineage(tuple(entries), tuple(standard), unknown, known or len(entries))


_CLASS_NAMES = frozenset({"__dict__", "__module__", "__qualname__", "__annotations__", "__slots__"})


def _preferred(bindings: list[Binding]) -> Binding:
    """Takes the implementation among overloads, and the property among its accessors."""
    real = [
        each
        for each in bindings
        if not isinstance(each, FunctionBinding)
        or not has_decorator(each.decorators, "overload", "setter", "deleter", "getter")
    ]
    return (real or bindings)[-1]


def _own_members(entry: ClassEntry) -> Iterator[Member]:
    owner, path = entry.binding.name, entry.module.place
    for name, bindings in entry.binding.names.names.items():
        binding = _preferred(bindings)
        kind: MemberKind = "attribute"
        if isinstance(binding, FunctionBinding):
            kind = "property" if has_decorator(binding.decorators, *PROPERTIES) else "method"
        elif isinstance(binding, ClassBinding):
            kind = "class"
        yield Member(name, kind, owner, path, binding.line)
    for name, line in entry.binding.instance_names.items():
        yield Member(name, "attribute", owner, path, line)


def _why_open(entry: ClassEntry) -> str | None:
    binding = entry.binding
    if binding.dynamic is not None:
        return binding.dynamic
    for name in ("__getattr__", "__getattribute__"):
        if name in binding.names.names:
            return f"{binding.name} has {name}"
    if not keeps_signature(binding.decorators):
        return f"{binding.name} is decorated"
    return _why_uncertain(entry)


def _why_uncertain(entry: ClassEntry) -> str | None:
    words = entry.binding.keywords
    if "**" in words:
        return f"{entry.binding.name} is made with unknown arguments"
    metaclass = last_part(words.get("metaclass", "type"))
    if metaclass not in ("type", "ABCMeta", "EnumMeta", "EnumType"):
        return f"{entry.binding.name} has the metaclass {metaclass}"
    return None


def _is_dataclass(entry: ClassEntry) -> bool:
    return has_decorator(entry.binding.decorators, "dataclass")


def _has_fields(entry: ClassEntry) -> bool:
    return _is_dataclass(entry) or any(
        last_part(base) == "NamedTuple" for base in entry.binding.bases
    )


def _own_fields(entry: ClassEntry) -> Iterator[Field]:
    options = {
        key: value
        for name, words in entry.binding.options.items()
        if last_part(name) == "dataclass"
        for key, value in words.items()
    }
    kw_only = options.get("kw_only") == "True"
    for each in entry.binding.fields:
        head = last_part(each.annotation.partition("[")[0].strip("'\""))
        if head == "KW_ONLY":
            kw_only = True
        elif head != "ClassVar":
            yield _field(each, entry, kw_only)


def _field(each: FieldBinding, entry: ClassEntry, kw_only: bool) -> Field:
    is_field = each.call is not None and last_part(each.call) == "field"
    options = each.options if is_field else {}
    given = {"default", "default_factory"} & set(options)
    return Field(
        each.name,
        each.annotation,
        each.default,
        bool(given) if is_field else each.default is not None,
        options.get("init") != "False",
        options.get("kw_only", str(kw_only)) == "True",
        entry.binding.name,
        entry.module.place,
        each.line,
    )


def _field_parameters(fields: tuple[Field, ...]) -> Iterator[Parameter]:
    taken = [each for each in fields if each.init]
    for each in sorted(taken, key=lambda field: field.kw_only):
        kind = "keyword_only" if each.kw_only else "positional_or_keyword"
        yield Parameter(each.name, kind, each.has_default, each.annotation, each.default)

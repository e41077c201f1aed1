"""The fields of dataclasses, named tuples and other classes of annotated names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.python.bindings import FieldBinding
from scaffold.analysis.python.classes import Classes
from scaffold.analysis.python.decorators import has_decorator, last_part
from scaffold.analysis.python.entry import ClassEntry
from scaffold.analysis.python.signatures import Parameter

_BASES = frozenset({"NamedTuple", "TypedDict", "BaseModel", "BaseSettings", "SQLModel", "Struct"})
# Those of attrs (`@attr.s`, `@attrs.define`) and chz; `dataclass` is asked for by itself.
_DECORATORS = ("define", "mutable", "frozen", "attrs", "s", "attributes", "chz")
_FACTORIES = frozenset({"field", "Field", "ib", "attrib", "Factory"})


class Field(NamedTuple):
    """A field of a dataclass, a named tuple or a class of annotated names.

    Args:
        name: The name.
        annotation: Its type as written.
        default: Its default as written, or None.
        has_default: Whether a call may leave it out.
        init: Whether the constructor takes it.
        kw_only: Whether it is taken by keyword only.
        owner: The name of the class that declares it.
        path: The file it is in.
        line: The line, from 1.
        is_stored: Whether instances have it; an ``InitVar`` is only handed on.
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
    is_stored: bool = True


def find_fields(classes: Classes, entry: ClassEntry) -> tuple[Field, ...] | None:
    """Return the fields of a class, the inherited ones first; None where it is no data class."""
    holders = [each for each in classes.lineage(entry).entries if has_fields(each, classes)]
    if not holders:
        return None
    found: dict[str, Field] = {}
    # Farthest base first: dataclasses collect fields in reverse order of the MRO.
    for each in reversed(holders):
        for field in _own_fields(each):
            found[field.name] = field  # an overriding field keeps the first one's place
    return tuple(found.values())


def is_dataclass(entry: ClassEntry) -> bool:
    """Return whether a class itself is decorated as a dataclass."""
    return has_decorator(entry.binding.decorators, "dataclass")


def is_named_tuple(entry: ClassEntry) -> bool:
    """Return whether a class is written as a ``NamedTuple``."""
    return any(last_part(base) == "NamedTuple" for base in entry.binding.bases)


def has_fields(entry: ClassEntry, classes: Classes) -> bool:
    """Return whether the annotated names of a class are fields."""
    if is_dataclass(entry) or has_decorator(entry.binding.decorators, *_DECORATORS):
        return True
    lineage = classes.lineage(entry)
    return any(last_part(base) in _BASES for each in lineage.entries for base in each.binding.bases)


def dataclass_options(entry: ClassEntry) -> dict[str, str]:
    """Return the arguments of a class's ``@dataclass(...)`` as written."""
    options = entry.binding.options.items()
    found = [words for name, words in options if last_part(name) == "dataclass"]
    return found[0] if found else {}


def field_parameters(fields: tuple[Field, ...]) -> tuple[Parameter, ...]:
    """Return the parameters of the ``__init__`` that a dataclass gets for its fields."""
    # The sort is stable: dataclasses only move keyword-only fields to the end.
    taken = sorted((each for each in fields if each.init), key=lambda field: field.kw_only)
    return tuple(
        Parameter(
            each.name,
            "keyword_only" if each.kw_only else "positional_or_keyword",
            each.has_default,
            each.annotation,
            each.default,
        )
        for each in taken
    )


def _makes_field(call: str) -> bool:
    """Return whether a default is a ``field(...)``; ``Thing.field(...)`` is a method of theirs."""
    owner, _, name = call.rpartition(".")
    return name in _FACTORIES and not last_part(owner)[:1].isupper()


def _own_fields(entry: ClassEntry) -> Iterator[Field]:
    kw_only = dataclass_options(entry).get("kw_only") == "True"
    for each in entry.binding.fields:
        # An annotation may be written in quotes, as a forward reference.
        head = last_part(each.annotation.strip("'\"").partition("[")[0])
        # `_: KW_ONLY` is no field but makes all that follow keyword-only.
        if head == "KW_ONLY":
            kw_only = True
        elif head != "ClassVar":
            yield _field(each, entry, kw_only, head != "InitVar")


def _field(each: FieldBinding, entry: ClassEntry, kw_only: bool, is_stored: bool) -> Field:
    is_made = _makes_field(each.call or "")
    options = each.options if is_made else {}
    # `factory` is the word of attrs for default_factory.
    given = {"default", "default_factory", "factory"} & set(options)
    return Field(
        each.name,
        each.annotation,
        options.get("default", each.default),
        bool(given) if is_made else each.default is not None,
        options.get("init") != "False",
        options.get("kw_only", str(kw_only)) == "True",
        entry.binding.name,
        entry.place,
        each.line,
        is_stored,
    )

"""What calling something takes: functions, methods, classes."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from scaffold.analysis.python.bindings import Binding, FunctionBinding
from scaffold.analysis.python.builtins_table import StandardName
from scaffold.analysis.python.classes import (
    Classes,
    are_alternatives,
    preferred,
    why_uncertain,
)
from scaffold.analysis.python.data_fields import (
    dataclass_options,
    field_parameters,
    find_fields,
    is_dataclass,
    is_named_tuple,
)
from scaffold.analysis.python.decorators import PROPERTIES, has_decorator, last_part
from scaffold.analysis.python.entry import (
    ClassEntry,
    FunctionEntry,
    Resolve,
    keeps_signature,
)
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.modules import Module
from scaffold.analysis.python.signatures import Signature

# Class methods that need no decorator.
_CLASS_METHODS = ("__init_subclass__", "__class_getitem__")


class Callables:
    """The signatures of what an index finds.

    Args:
        classes: The classes of the repository.
        resolve: Finds what a dotted name means inside a module.
        trusted: What the last part of a decorator's name matches, in lower case, if the decorator
            leaves parameters as they are; None trusts those alone that are known to.
    """

    def __init__(
        self, classes: Classes, resolve: Resolve, trusted: re.Pattern[str] | None = None
    ) -> None:
        self._classes = classes
        self._resolve = resolve
        self._trusted = trusted

    def signature(self, found: Found) -> Signature | None:
        """Return what a call takes; None where that is not certain."""
        if not found.exists or not found.is_certain:
            return None
        thing = found.thing
        module = getattr(thing, "module", None)
        if isinstance(module, Module) and module.path is None:
            return None  # a stub may say more or less than what is compiled
        if isinstance(thing, ClassEntry):
            return self._constructor(thing)
        if isinstance(thing, FunctionEntry):
            return self._function(thing)
        return None

    def _function(self, entry: FunctionEntry) -> Signature | None:
        decorators, name = entry.binding.decorators, entry.binding.signature.name
        if has_decorator(decorators, *PROPERTIES):
            return None
        if not self._keeps(decorators, entry.module):
            return None
        signature = entry.binding.signature._replace(path=entry.module.place)
        # __new__ is a static method without a decorator, and callers give it the class.
        if entry.owner is None or has_decorator(decorators, "staticmethod") or name == "__new__":
            return signature
        if has_decorator(decorators, "classmethod") or name in _CLASS_METHODS:
            # Without a receiver `bind` does not try Class.method(instance, ...), which no
            # classmethod takes.
            return signature.bound()._replace(receiver=None)
        return signature.bound()

    def _constructor(self, entry: ClassEntry) -> Signature | None:
        lineage = self._classes.lineage(entry)
        # A decorator, a metaclass or an enum base may replace what a call of the class does.
        if any(self._is_odd(each) for each in lineage.entries):
            return None
        if any(_is_called_otherwise(each) for each in lineage.standard):
            return None
        made_later = any(
            "__init_subclass__" in each.binding.names.names for each in lineage.entries
        )
        for each in lineage.entries[: lineage.known]:
            if made_later and each.binding is not entry.binding:
                return None  # a base may give its subclasses an __init__ of its own making
            # A nameless one exists and cannot be read: the bases behind it do not count.
            made = self._own_constructor(each, entry)
            if made is not None:
                return made if made.name else None
        plain = all(each.dotted in _PLAIN_BASES for each in lineage.standard)
        if lineage.unknown is not None or made_later or not plain:
            return None
        return Signature(entry.binding.name, (), entry.place, entry.binding.line)

    def _is_odd(self, entry: ClassEntry) -> bool:
        """Return whether calling a class may take other arguments than its ``__init__``."""
        is_kept = self._keeps(entry.binding.decorators, entry.module)
        return not is_kept or why_uncertain(entry) is not None

    def _keeps(self, decorators: tuple[str, ...], module: Module) -> bool:
        trusted = self._trusted
        rest = [
            each
            for each in decorators
            if trusted is None or not trusted.search(last_part(each).lower())
        ]
        return keeps_signature(tuple(rest), module, self._resolve)

    def _own_constructor(self, each: ClassEntry, entry: ClassEntry) -> Signature | None:
        """Return the constructor that one class of a lineage brings; nameless if unsure."""
        names, unsure = each.binding.names.names, Signature("", ())
        methods = [names[name] for name in ("__init__", "__new__") if name in names]
        # A written __init__ wins over the one that @dataclass would make.
        if methods:
            signature = self._constructor_method(methods, each)
            return unsure if signature is None else signature._replace(name=entry.binding.name)
        line = each.binding.line
        if is_named_tuple(each):
            fields = find_fields(self._classes, each) or ()
            parameters = field_parameters(fields)
            return Signature(entry.binding.name, parameters, each.place, line)
        if not is_dataclass(each):
            return None
        options = dataclass_options(each)
        fields = find_fields(self._classes, each)
        # Other libraries' dataclass decorators make constructors of their own.
        if not self._is_standard_dataclass(each) or "**" in options:
            return unsure
        # The search goes on: such a class inherits the constructor of its bases.
        if options.get("init") == "False":
            return None
        if fields is None or self._classes.lineage(each).unknown is not None:
            return unsure
        return Signature(entry.binding.name, field_parameters(fields), each.place, line)

    def _constructor_method(
        self, methods: Sequence[list[Binding]], each: ClassEntry
    ) -> Signature | None:
        """Return the bound ``__init__``, or ``__new__`` where that is all there is."""
        # With both, type.__call__ hands the same arguments to __new__ and to __init__.
        if len(methods) > 1 or are_alternatives(methods[0]):
            return None
        method = preferred(methods[0])
        if not isinstance(method, FunctionBinding):
            return None
        if not self._keeps(method.decorators, each.module):
            return None
        return method.signature.bound()._replace(path=each.place, receiver=None)

    def _is_standard_dataclass(self, entry: ClassEntry) -> bool:
        """Return whether the decorator is Python's own and not a library's of that name."""
        for each in entry.binding.decorators:
            if last_part(each) == "dataclass":
                found = self._resolve(entry.module, each.removesuffix("()"))
                return isinstance(found.thing, StandardName)
        return False


_PLAIN_BASES = frozenset({"abc.ABC", "typing.Generic", "builtins.object"})
"""Python's own bases under which a class without ``__init__`` takes no arguments."""


def _is_called_otherwise(base: StandardName) -> bool:
    """Return whether calling such a class is not making an instance: a metaclass, an enum."""
    return base.base is not None and issubclass(base.base, (type, enum.Enum))

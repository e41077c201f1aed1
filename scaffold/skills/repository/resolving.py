"""What a dotted name means, followed through imports, re-exports and classes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scaffold.skills.repository.classes import (
    Classes,
    are_alternatives,
    preferred,
)
from scaffold.skills.repository.decorators import PROPERTIES, has_decorator
from scaffold.skills.repository.definitions import read_source
from scaffold.skills.repository.entries import ClassEntry, FunctionEntry, ValueEntry
from scaffold.skills.repository.files import Files
from scaffold.skills.repository.found import Found, Kind
from scaffold.skills.repository.modules import Module, Modules
from scaffold.skills.repository.scopes import (
    Binding,
    ClassBinding,
    FunctionBinding,
    ImportBinding,
    ValueBinding,
)
from scaffold.skills.repository.standard import StandardName, is_standard, standard_name
from scaffold.skills.repository.symbols import MODULE_NAMES, ModuleTable, read_module

_CIRCLE = "its imports go in a circle"
_MOST_STEPS = 5_000


@dataclass(slots=True)
class Query:
    """Is one question on its way: what it has asked, so that circles of imports end.

    Args:
        answers: The answer for each module and name asked; None while it is being found.
    """

    answers: dict[tuple[str, tuple[str, ...]], Found | None] = field(
        default_factory=dict[tuple[str, tuple[str, ...]], "Found | None"]
    )


class Resolver:
    """Follows names through a repository.

    Args:
        files: The repository's files.
        modules: Where its modules lie.
    """

    def __init__(self, files: Files, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._tables: dict[str, ModuleTable] = {}
        self.classes = Classes(self.resolve)

    def find(self, dotted: str) -> Found:
        """Says what an absolute dotted name means."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", dotted, evidence=f"{dotted!r} is no dotted name")
        return replace(self._absolute(parts, Query()), name=dotted)

    def find_in(self, path: str, name: str) -> Found:
        """Says what a name means inside one file, seen from outside it."""
        module = self._modules.at_path(path)
        parts = name.split(".")
        if module is None or not all(part.isidentifier() for part in parts):
            reason = f"{path} is no Python source" if module is None else f"{name!r} is no name"
            return Found("undecided", name, path, evidence=reason)
        return replace(self._attribute(module, parts, Query()), name=name)

    def resolve(self, module: Module, dotted: str) -> Found:
        """Says what a name means as code in a module writes it: its own names, then Python's."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", dotted, evidence=f"{dotted!r} is no dotted name")
        return self._in_scope(module, parts, Query())

    def table(self, path: str) -> ModuleTable:
        """Returns the table of one source, parsed at the first question."""
        if path not in self._tables:
            self._tables[path] = read_module(read_source(self._files, path))
        return self._tables[path]

    def tables(self, module: Module) -> list[tuple[str, ModuleTable]]:
        """Returns the tables of a module: its source's and its stub's."""
        sources = [each for each in (module.path, module.stub) if each is not None]
        return [(each, self.table(each)) for each in sources if each.endswith((".py", ".pyi"))]

    def names(self, module: Module) -> frozenset[str]:
        """Returns the names that a module binds, takes by ``*``, or gives on first use."""
        return frozenset(self._names(module, set()))

    def _names(self, module: Module, seen: set[str]) -> set[str]:
        if module.place in seen:
            return set()
        seen.add(module.place)
        found: set[str] = set()
        for _, table in self.tables(module):
            found |= {*table.scope.names, *table.lazy.targets, *(table.exports or ())}
            for level, target, _ in table.scope.stars:
                source = self._imported(module, level, target, Query()).thing
                if isinstance(source, Module):
                    found |= self._names(source, seen)
        return found

    def _absolute(self, parts: Sequence[str], query: Query) -> Found:
        dotted = ".".join(parts)
        tops = self._modules.top(parts[0])
        if tops:
            best = _best([self._descend_module(top, parts[1:], query) for top in tops])
            if best.kind != "missing":
                return best
            if is_standard(parts[0]):
                return _standard(dotted)
            reason = self._modules.why_unsure(parts[0], tops, best.thing)
            if reason is None:
                return best
            return Found("undecided", dotted, best.path, evidence=f"{best.evidence}, but {reason}")
        if is_standard(parts[0]):
            return _standard(dotted)
        return Found("third_party", dotted, evidence=f"{parts[0]} is not in this repository")

    def _descend_module(self, module: Module, rest: Sequence[str], query: Query) -> Found:
        if rest:
            return self._attribute(module, rest, query)
        evidence = f"the module {module.place}"
        return Found("module", "", module.place, 1, evidence, thing=module)

    def _descend(self, found: Found, rest: Sequence[str], query: Query) -> Found:
        """Goes on from something that was found to what its further parts name."""
        if not rest or not found.exists:
            return found
        thing = found.thing
        if isinstance(thing, Module):
            return self._attribute(thing, rest, query)
        if isinstance(thing, ClassEntry):
            return self._class_attribute(thing, rest, query)
        if isinstance(thing, StandardName):
            return _standard(".".join([thing.dotted, *rest]))
        if isinstance(thing, FunctionEntry) and rest[0] in thing.binding.names.names:
            inner = thing.binding.names.names[rest[0]][-1]
            return self._descend(self._bound(inner, thing.module, query), rest[1:], query)
        if isinstance(thing, ValueEntry) and thing.binding.call not in (None, "?"):
            made = self._in_scope(thing.module, (thing.binding.call or "").split("."), query)
            if isinstance(made.thing, ClassEntry):
                member = self._class_attribute(made.thing, rest, query)
                if member.exists:
                    return member
        reason = f"{found.evidence}: what {rest[0]!r} is on it shows only while it runs"
        return Found("undecided", "", found.path, found.line, reason)

    def _attribute(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        """Finds a name in a module: bound, imported, lazy, or a submodule."""
        key = (module.place, tuple(parts))
        if key in query.answers or len(query.answers) > _MOST_STEPS:
            answer = query.answers.get(key)
            return answer or Found("undecided", "", module.place, evidence=_CIRCLE)
        query.answers[key] = None
        query.answers[key] = answer = self._find_attribute(module, parts, query)
        return answer

    def _find_attribute(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        outcomes: list[Found] = []
        for path, table in self.tables(module):
            outcome = self._in_table(module, path, table, parts, query)
            if outcome.exists:
                return outcome
            outcomes.append(outcome)
        child = self._modules.child(module, parts[0])
        if child is not None:
            outcomes.insert(0, self._descend_module(child, parts[1:], query))
        else:
            extends = any(table.extends_path for _, table in self.tables(module))
            reason = self._modules.why_open(module, parts[0])
            reason = f"{module.place} changes __path__" if extends else reason
            if reason is not None:
                outcomes.append(Found("undecided", "", module.place, evidence=reason))
        if not outcomes:
            reason = f"{module.place} has no module {parts[0]!r}"
            return Found("missing", "", module.place, evidence=reason, thing=module)
        return _best(outcomes)

    def _in_table(
        self, module: Module, path: str, table: ModuleTable, parts: Sequence[str], query: Query
    ) -> Found:
        name, rest = parts[0], parts[1:]
        if table.problem is not None:
            return Found("undecided", "", path, evidence=f"{path}: {table.problem}")
        if name in table.scope.deleted:
            return Found("undecided", "", path, evidence=f"{path} deletes {name}")
        outcomes = self._bound_outcomes(module, path, table, parts, query)
        for level, target, _ in table.scope.stars:
            outcomes.append(self._star(module, level, target, parts, query))
        if name in MODULE_NAMES and not rest:
            outcomes.append(Found("constant", "", path, 1, f"every module has {name}"))
        decided = [each for each in outcomes if each.kind != "missing"]
        if decided:
            return _best(decided)
        reason = _why_open(table, name)
        if reason is not None:
            return Found("undecided", "", path, evidence=f"{path}: {reason}")
        if outcomes:
            return outcomes[0]
        evidence = f"{path} does not define {name!r}"
        return Found("missing", "", path, evidence=evidence, thing=module)

    def _bound_outcomes(
        self, module: Module, path: str, table: ModuleTable, parts: Sequence[str], query: Query
    ) -> list[Found]:
        """Returns what each binding and each lazy entry of a name means."""
        name, rest = parts[0], parts[1:]
        bindings = [
            each
            for each in table.scope.names.get(name, ())
            if not isinstance(each, ValueBinding) or each.is_bound or path.endswith(".pyi")
        ]
        for_types = [each for each in bindings if _is_for_types(each)]
        real = [each for each in bindings if not _is_for_types(each)]
        if rest and len(real) > 1:
            real = [each for each in real if not isinstance(each, ValueBinding) or not each.is_none]
        certain = not are_alternatives(real)
        real = [preferred(real), *real[::-1]] if real else []
        outcomes: list[Found] = []
        for binding in real:
            found = self._bound(binding, module, query)
            found = found if certain else replace(found, is_certain=False)
            outcomes.append(self._descend(found, rest, query))
        outcomes += self._lazy_outcomes(module, path, table, parts, query)
        if not any(each.exists or each.kind == "missing" for each in outcomes):
            outcomes += [self._for_types(each, module, table, rest, query) for each in for_types]
        return outcomes

    def _for_types(
        self,
        binding: Binding,
        module: Module,
        table: ModuleTable,
        rest: Sequence[str],
        query: Query,
    ) -> Found:
        """Returns what an import under ``TYPE_CHECKING`` means: a lazy module gives it too."""
        if table.lazy.is_there or table.dynamic is not None:
            return self._descend(self._bound(binding, module, query), rest, query)
        reason = f"{module.place}:{binding.line} imports it for type checkers only"
        return Found("undecided", "", module.place, binding.line, reason)

    def _star(
        self, module: Module, level: int, target: str, parts: Sequence[str], query: Query
    ) -> Found:
        source = self._imported(module, level, target, query)
        if not isinstance(source.thing, Module):
            reason = f"{module.place} takes all names of {target or '.'}, which is not known here"
            return Found("undecided", "", module.place, evidence=reason)
        listed = [table for _, table in self.tables(source.thing) if table.exports is not None]
        exported = any(parts[0] in (table.exports or ()) for table in listed)
        complete = all(table.exports_are_complete for table in listed)
        hidden = complete if listed else parts[0].startswith("_")
        if hidden and not exported:
            return Found("missing", "", module.place, evidence=_not_defined(module, parts[0]))
        found = self._attribute(source.thing, parts, query)
        # A circle of star imports gives no name that none of its modules binds.
        return replace(found, kind="missing") if found.evidence == _CIRCLE else found

    def _lazy_outcomes(
        self, module: Module, path: str, table: ModuleTable, parts: Sequence[str], query: Query
    ) -> list[Found]:
        """Returns what the import maps of a module say of a name."""
        targets = table.lazy.targets.get(parts[0])
        if targets is None:
            return []
        found = [
            self._imported(module, len(each) - len(each.lstrip(".")), each.lstrip("."), query)
            for each in targets
        ]
        there = [each for each in found if each.exists]
        there = there or [each for each in found if each.kind == "third_party"]
        if not there:
            return [Found("undecided", "", path, evidence=f"{path} gives it on first use")]
        return [self._descend(there[0], parts[1:], query)]

    def _imported(self, module: Module, level: int, target: str, query: Query) -> Found:
        parts = target.split(".") if target else []
        if level == 0:
            return self._absolute(parts, query)
        folder = module.package_folder
        for _ in range(level - 1):
            folder = folder.rpartition("/")[0]
        return self._descend_module(self._modules.package_at(folder), parts, query)

    def _bound(self, binding: Binding, module: Module, query: Query) -> Found:
        """Returns what one binding of a module means."""
        place = (module.place, binding.line)
        if isinstance(binding, ClassBinding):
            evidence = f"class {binding.name} in {place[0]}:{place[1]}"
            return Found("class", "", *place, evidence, thing=ClassEntry(binding, module))
        if isinstance(binding, FunctionBinding):
            evidence = f"def {binding.signature.name} in {place[0]}:{place[1]}"
            return Found("function", "", *place, evidence, thing=FunctionEntry(binding, module))
        if isinstance(binding, ValueBinding):
            return self._value(binding, module, query)
        dotted = ".".join(part for part in (binding.module, binding.name) if part)
        found = self._imported(module, binding.level, dotted, query)
        if found.kind == "missing":
            reason = f"{place[0]}:{place[1]} imports it from where it is not: {found.evidence}"
            return Found("undecided", "", *place, reason)
        return found

    def _value(self, binding: ValueBinding, module: Module, query: Query) -> Found:
        if binding.alias is not None:
            found = self._in_scope(module, binding.alias.split("."), query)
            if found.exists:
                return found
        place = (module.place, binding.line)
        evidence = f"assigned in {place[0]}:{place[1]}"
        return Found("constant", "", *place, evidence, thing=ValueEntry(binding, module))

    def _class_attribute(self, entry: ClassEntry, rest: Sequence[str], query: Query) -> Found:
        name = rest[0]
        for each in self.classes.lineage(entry).entries:
            member = self._own_member(each, _unmangled(each, name), query)
            if member is not None:
                return self._descend(member, rest[1:], query)
        path, line = entry.place, entry.binding.line
        if self.classes.has_standard_member(entry, name):
            found = Found("attribute", "", path, line, f"{entry.binding.name} inherits {name}")
            return self._descend(found, rest[1:], query)
        reason = self.classes.why_open(entry, name)
        if reason is not None:
            return Found("undecided", "", path, line, reason)
        evidence = f"class {entry.binding.name} in {path}:{line} has no member {name!r}"
        return Found("missing", "", path, line, evidence, thing=entry)

    def _own_member(self, entry: ClassEntry, name: str, query: Query) -> Found | None:
        """Returns what a class's own text gives under a name."""
        bindings = entry.binding.names.names.get(name)
        path, owner = entry.place, entry.binding.name
        if not bindings:
            line = entry.binding.instance_names.get(name)
            if line is None:
                return None
            return Found("attribute", "", path, line, f"{owner}.{name} in {path}:{line}")
        binding = preferred(bindings)
        certain = not are_alternatives(bindings)
        evidence = f"{owner}.{name} in {path}:{binding.line}"
        if isinstance(binding, ValueBinding) and binding.alias in entry.binding.names.names:
            binding = preferred(entry.binding.names.names[binding.alias])
        if isinstance(binding, FunctionBinding):
            is_property = has_decorator(binding.decorators, *PROPERTIES)
            kind: Kind = "attribute" if is_property else "function"
            thing = FunctionEntry(binding, entry.module, entry)
            return Found(kind, "", path, binding.line, evidence, is_certain=certain, thing=thing)
        if isinstance(binding, ClassBinding):
            return replace(self._bound(binding, entry.module, query), is_certain=certain)
        return Found("attribute", "", path, binding.line, evidence)

    def _in_scope(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        found = self._attribute(module, parts, query)
        if found.kind == "missing" and hasattr(builtins, parts[0]):
            return _standard(".".join(["builtins", *parts]))
        return found


def _best(outcomes: Sequence[Found]) -> Found:
    """Takes the surest of several answers: there, then unsure, then elsewhere, then missing."""
    order = {"third_party": 1, "undecided": 2, "missing": 3}
    return min(outcomes, key=lambda each: order.get(each.kind, 0))


def _standard(dotted: str) -> Found:
    """Answers for Python's own names: there or undecided, for versions differ."""
    top, _, rest = dotted.partition(".")
    name = standard_name(dotted)
    if not rest:
        return Found("module", dotted, evidence=f"{top} is a module of Python", thing=name)
    if name.real is None:
        return Found("undecided", dotted, evidence=f"{top} is a module of Python", thing=name)
    kind: Kind = "class" if isinstance(name.real, type) else "constant"
    if callable(name.real) and kind == "constant":
        kind = "function"
    return Found(kind, dotted, evidence=f"{dotted} is Python's own", thing=name)


def _why_open(table: ModuleTable, name: str) -> str | None:
    """Says why a module may have a name that nothing in its text binds, or returns None."""
    if table.exports is not None and name in table.exports and name not in table.scope.names:
        return "__all__ lists it and nothing binds it"
    if name in table.lazy.targets:
        return "its __getattr__ knows it"
    if table.dynamic is not None:
        return table.dynamic
    if table.lazy.is_there and not table.lazy.is_complete:
        return "its __getattr__ may give more names"
    return None


def _unmangled(entry: ClassEntry, name: str) -> str:
    """Returns ``__x`` for the ``_Class__x`` that Python makes of it."""
    prefix = f"_{entry.binding.name.lstrip('_')}__"
    return f"__{name.removeprefix(prefix)}" if name.startswith(prefix) else name


def _is_for_types(binding: Binding) -> bool:
    return isinstance(binding, ImportBinding) and binding.for_types


def _not_defined(module: Module, name: str) -> str:
    return f"{module.place} does not define {name!r}"

"""What a dotted name means, followed through imports, re-exports and classes."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scaffold.skills.repository.classes import (
    ClassEntry,
    Classes,
    Field,
    FunctionEntry,
    Member,
    ValueEntry,
)
from scaffold.skills.repository.decorators import (
    PROPERTIES,
    has_decorator,
    keeps_signature,
)
from scaffold.skills.repository.definitions import Definitions, read_source
from scaffold.skills.repository.files import Files
from scaffold.skills.repository.found import Found, Kind
from scaffold.skills.repository.modules import Module, Modules
from scaffold.skills.repository.scopes import (
    Binding,
    ClassBinding,
    FunctionBinding,
    ValueBinding,
)
from scaffold.skills.repository.signatures import Signature
from scaffold.skills.repository.standard import is_standard, standard_object
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
        self.classes = Classes(self._resolve_text)
        self.definitions = Definitions(files)

    def find(self, dotted: str) -> Found:
        """Says what an absolute dotted name means."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", dotted, evidence=f"{dotted!r} is no dotted name")
        found = self._absolute(parts, Query())
        return replace(found, name=dotted)

    def find_in(self, path: str, name: str) -> Found:
        """Says what a name means inside one file."""
        module = self._modules.at_path(path)
        if module is None:
            return Found("undecided", name, path, evidence=f"{path} is no Python source")
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", name, path, evidence=f"{name!r} is no dotted name")
        return replace(self._attribute(module, parts, Query()), name=name)

    def table(self, path: str) -> ModuleTable:
        """Returns the table of one source, parsed at the first question."""
        if path not in self._tables:
            source = read_source(self._files, path)
            self._tables[path] = read_module(source)
        return self._tables[path]

    def signature(self, found: Found) -> Signature | None:
        """Returns what a call of a found thing takes; None where that is not certain."""
        thing = found.thing
        if isinstance(thing, ClassEntry):
            return self.classes.constructor(thing)
        if not isinstance(thing, FunctionEntry):
            return None
        decorators = thing.binding.decorators
        if not keeps_signature(decorators) or has_decorator(decorators, *PROPERTIES):
            return None
        signature = replace(thing.binding.signature, path=thing.module.place)
        if thing.owner is None or has_decorator(decorators, "staticmethod"):
            return signature
        return signature.bound()

    def members(self, found: Found) -> dict[str, Member] | None:
        """Returns the members of a found class."""
        thing = found.thing
        return self.classes.members(thing) if isinstance(thing, ClassEntry) else None

    def fields(self, found: Found) -> tuple[Field, ...] | None:
        """Returns the fields of a found dataclass."""
        thing = found.thing
        return self.classes.fields(thing) if isinstance(thing, ClassEntry) else None

    def module_names(self, found: Found) -> frozenset[str]:
        """Returns the names that a found module offers."""
        module = found.thing
        if not isinstance(module, Module):
            return frozenset()
        names: set[str] = set()
        for path in (module.path, module.stub):
            if path is not None and path.endswith((".py", ".pyi")):
                table = self.table(path)
                names |= {*table.scope.names, *table.lazy.targets, *(table.exports or ())}
        return frozenset(names)

    def _absolute(self, parts: Sequence[str], query: Query) -> Found:
        dotted = ".".join(parts)
        tops = self._modules.top(parts[0])
        if tops:
            outcomes = [self._descend_module(top, parts[1:], query) for top in tops]
            best = _best(outcomes)
            if best.kind != "missing" or all(top.is_firm for top in tops):
                return best
            reason = f"{best.evidence}, but {parts[0]} may be an installed package"
            return Found("undecided", dotted, best.path, evidence=reason)
        if is_standard(parts[0]):
            return _standard(dotted)
        return Found("third_party", dotted, evidence=f"{parts[0]} is not in this repository")

    def _descend_module(self, module: Module, rest: Sequence[str], query: Query) -> Found:
        if rest:
            return self._attribute(module, rest, query)
        path = module.path or module.stub
        evidence = f"the module {module.place}"
        return Found("module", "", path or module.folder, 1, evidence, thing=module)

    def _descend(self, found: Found, rest: Sequence[str], query: Query) -> Found:
        """Goes on from something that was found to what its further parts name."""
        if not rest or not found.exists:
            return found
        thing = found.thing
        if isinstance(thing, Module):
            return self._attribute(thing, rest, query)
        if isinstance(thing, ClassEntry):
            return self._class_attribute(thing, rest, query)
        if isinstance(thing, FunctionEntry):
            inner = thing.binding.names.names.get(rest[0])
            if inner:
                return self._descend(self._bound(inner[-1], thing.module, query), rest[1:], query)
        reason = f"what {rest[0]!r} is on {found.evidence} shows only while it runs"
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
        for path in (module.path, module.stub):
            if path is None or not path.endswith((".py", ".pyi")):
                continue
            outcome = self._in_table(module, path, parts, query)
            if outcome.exists:
                return outcome
            outcomes.append(outcome)
        child = self._modules.child(module, parts[0])
        if child is not None:
            outcomes.insert(0, self._descend_module(child, parts[1:], query))
        if module.is_compiled or (module.path is None and module.stub is not None):
            reason = f"{module.place} is compiled: no text tells all its names"
            outcomes.append(Found("undecided", "", module.place, evidence=reason))
        if not outcomes:
            reason = f"{module.place} has no module {parts[0]!r}"
            return Found("missing", "", module.place, evidence=reason)
        return _best(outcomes)

    def _in_table(self, module: Module, path: str, parts: Sequence[str], query: Query) -> Found:
        table = self.table(path)
        name, rest = parts[0], parts[1:]
        if table.problem is not None:
            return Found("undecided", "", path, evidence=f"{path}: {table.problem}")
        outcomes: list[Found] = []
        for binding in reversed(table.scope.names.get(name, ())):
            if isinstance(binding, ValueBinding) and not binding.is_bound:
                continue
            outcomes.append(self._descend(self._bound(binding, module, query), rest, query))
        for level, target, _ in table.scope.stars:
            outcomes.append(self._star(module, level, target, parts, query))
        targets = table.lazy.targets.get(name, ())
        outcomes += [self._lazy(module, path, each, rest, query) for each in targets]
        if name in MODULE_NAMES:
            outcomes.append(Found("constant", "", path, 1, f"every module has {name}"))
        decided = [each for each in outcomes if each.kind != "missing"]
        if decided:
            return _best(decided)
        reason = _why_open(table, name)
        if reason is not None:
            return Found("undecided", "", path, evidence=f"{path}: {reason}")
        if outcomes:
            return _best(outcomes)
        return Found("missing", "", path, evidence=f"{path} does not define {name!r}")

    def _star(
        self, module: Module, level: int, target: str, parts: Sequence[str], query: Query
    ) -> Found:
        source = self._imported(module, level, target, query)
        if not isinstance(source.thing, Module):
            reason = f"it takes all names of {target or '.'}"
            return Found("undecided", "", module.place, evidence=reason)
        if parts[0].startswith("_"):
            return Found("missing", "", source.path)
        found = self._attribute(source.thing, parts, query)
        # A circle of star imports gives no name that none of its modules binds.
        return Found("missing", "", source.path) if found.evidence == _CIRCLE else found

    def _lazy(
        self, module: Module, path: str, dotted: str, rest: Sequence[str], query: Query
    ) -> Found:
        level = len(dotted) - len(dotted.lstrip("."))
        found = self._imported(module, level, dotted.lstrip("."), query)
        if found.exists:
            return self._descend(found, rest, query)
        reason = f"{path} gives it on first use"
        return Found("undecided", "", path, evidence=reason)

    def _imported(self, module: Module, level: int, target: str, query: Query) -> Found:
        parts = target.split(".") if target else []
        if level == 0:
            return self._absolute(parts, query)
        folder = module.package_folder
        for _ in range(level - 1):
            folder = folder.rpartition("/")[0]
        package = self._modules.package_at(folder)
        if package is None:
            return Found("undecided", "", evidence=f"{folder} is no package")
        return self._descend_module(package, parts, query)

    def _bound(self, binding: Binding, module: Module, query: Query) -> Found:
        """Returns what one binding of a module means."""
        place = (module.path or module.stub or module.place, binding.line)
        if isinstance(binding, ClassBinding):
            evidence = f"class {binding.name} in {place[0]}:{place[1]}"
            return Found("class", "", *place, evidence, thing=ClassEntry(binding, module))
        if isinstance(binding, FunctionBinding):
            evidence = f"def {binding.signature.name} in {place[0]}:{place[1]}"
            return Found("function", "", *place, evidence, thing=FunctionEntry(binding, module))
        if isinstance(binding, ValueBinding):
            return self._value(binding, module, query)
        dotted = join_dotted(binding.module, binding.name)
        found = self._imported(module, binding.level, dotted, query)
        if found.kind == "missing":
            reason = f"{place[0]}:{place[1]} imports it from where it is not: {found.evidence}"
            return Found("undecided", "", *place, reason)
        if binding.for_types and found.kind != "undecided":
            reason = f"{place[0]}:{place[1]} imports it for type checkers only"
            return Found("undecided", "", *place, reason, thing=found.thing)
        return found

    def _value(self, binding: ValueBinding, module: Module, query: Query) -> Found:
        place = (module.path or module.stub or module.place, binding.line)
        if binding.alias is not None:
            found = self._in_scope(module, binding.alias.split("."), query)
            if found.exists:
                return found
        evidence = f"assigned in {place[0]}:{place[1]}"
        return Found("constant", "", *place, evidence, thing=ValueEntry(binding, module))

    def _class_attribute(self, entry: ClassEntry, rest: Sequence[str], query: Query) -> Found:
        name = rest[0]
        for each in self.classes.lineage(entry).entries:
            member = self.classes.own_member(each, name)
            if member is not None:
                return self._descend(self._member(each, name, member, query), rest[1:], query)
        path, line = entry.module.place, entry.binding.line
        if self.classes.has_standard_member(entry, name):
            return Found("attribute", "", path, line, f"{entry.binding.name} inherits {name}")
        reason = self.classes.why_open(entry)
        if reason is not None:
            return Found("undecided", "", path, line, reason)
        evidence = f"class {entry.binding.name} in {path}:{line} has no member {name!r}"
        return Found("missing", "", path, line, evidence, thing=entry)

    def _member(self, entry: ClassEntry, name: str, member: Binding | int, query: Query) -> Found:
        path, owner = entry.module.place, entry.binding.name
        line = member if isinstance(member, int) else member.line
        evidence = f"{owner}.{name} in {path}:{line}"
        if isinstance(member, FunctionBinding):
            is_property = has_decorator(member.decorators, *PROPERTIES)
            kind: Kind = "attribute" if is_property else "function"
            thing = FunctionEntry(member, entry.module, entry)
            return Found(kind, "", path, line, evidence, thing=thing)
        if isinstance(member, ClassBinding):
            return self._bound(member, entry.module, query)
        return Found("attribute", "", path, line, evidence)

    def _in_scope(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        """Finds a name as code in a module sees it: its own names, then Python's."""
        found = self._attribute(module, parts, query)
        if found.kind == "missing" and hasattr(builtins, parts[0]):
            return _standard(".".join(["builtins", *parts]))
        return found

    def _resolve_text(self, module: Module, dotted: str) -> Found:
        if not all(part.isidentifier() for part in dotted.split(".")):
            return Found("undecided", dotted, evidence=f"{dotted!r} is no dotted name")
        return self._in_scope(module, dotted.split("."), Query())


def join_dotted(module: str, name: str | None) -> str:
    """Joins a module's name, which may be empty, and a name taken from it."""
    return ".".join(part for part in (module, name) if part)


def _best(outcomes: Iterable[Found]) -> Found:
    """Takes the surest of several answers: there, then unsure, then elsewhere, then missing."""
    order = {"undecided": 1, "third_party": 2, "missing": 3}
    return min(outcomes, key=lambda each: order.get(each.kind, 0))


def _standard(dotted: str) -> Found:
    """Answers for Python's own names: there or undecided, for versions differ."""
    top, _, rest = dotted.partition(".")
    if not rest:
        return Found("module", dotted, evidence=f"{top} is a module of Python")
    real = standard_object(dotted)
    if real is None:
        return Found("undecided", dotted, evidence=f"{top} is a module of Python")
    kind: Kind = "class" if isinstance(real, type) else "constant"
    if callable(real) and kind == "constant":
        kind = "function"
    return Found(kind, dotted, evidence=f"{dotted} is Python's own", thing=real)


def _why_open(table: ModuleTable, name: str) -> str | None:
    """Says why a module may have a name that nothing in its text binds, or returns None."""
    if name in table.scope.names:
        return None
    if table.exports is not None and name in table.exports:
        return "__all__ lists it and nothing binds it"
    if table.dynamic is not None:
        return table.dynamic
    if table.lazy.is_there and not table.lazy.is_complete:
        return "its __getattr__ may give more names"
    if table.extends_path:
        return "it changes __path__"
    return None

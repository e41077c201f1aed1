"""What a dotted name means, followed through imports, re-exports and classes."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.bindings import (
    Binding,
    ClassBinding,
    FunctionBinding,
    ImportBinding,
    ValueBinding,
)
from scaffold.analysis.python.builtins_table import StandardName, is_standard, standard_name
from scaffold.analysis.python.classes import (
    Classes,
    are_alternatives,
    own_member,
    preferred,
)
from scaffold.analysis.python.entry import ClassEntry, FunctionEntry, ValueEntry
from scaffold.analysis.python.lookup_result import Found, Kind
from scaffold.analysis.python.modules import Module, Modules
from scaffold.analysis.python.star_imports import StarImports
from scaffold.analysis.python.symbols import MODULE_NAMES, ModuleTable, read_module

# The evidence of a name whose search came back to itself; `_exported` recognises it by this text.
_CIRCLE = "its imports go in a circle"
# What has no further names of its own.
_LEAVES = ("function", "constant")
# Limits of one question, far above what a repository needs: names looked up, depth of the search,
# modules that star imports lead through.
_MOST_STEPS = 5_000
_DEEPEST = 40
_MOST_STARS = 30


@dataclass(slots=True)
class Query:
    """One question with all that it has led to, so that circles of imports end.

    Args:
        answers: The answer for each module and name asked; None while it is being found.
        depth: How many names deep it is.
    """

    answers: dict[tuple[str, ...], Found | None] = field(
        default_factory=dict[tuple[str, ...], "Found | None"]
    )
    depth: int = 0

    def once(self, place: str, key: Sequence[str], find: Callable[[], Found]) -> Found:
        """Return what is found for a key; undecided in a circle, and too far from the start."""
        full = (place, *key)
        if full in self.answers:
            return self.answers[full] or Found("undecided", "", place, evidence=_CIRCLE)
        if self.depth > _DEEPEST or len(self.answers) > _MOST_STEPS:
            return Found("undecided", "", place, evidence="its imports go too far")
        self.answers[full] = None
        self.depth += 1
        self.answers[full] = answer = find()
        self.depth -= 1
        return answer


class Resolver:
    """The index's way from a name to its definition.

    Args:
        files: The repository's files.
        modules: Where its modules lie.
    """

    def __init__(self, files: Files, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._tables: dict[str, ModuleTable] = {}
        # Kept by the place of a module: a question asks for the same ones hundreds of times.
        self._name_sets: dict[str, frozenset[str]] = {}
        self._stars = StarImports(files, modules, self._tables)
        self.classes = Classes(self.resolve)

    def find(self, dotted: str) -> Found:
        """Return what an absolute dotted name means."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", dotted, evidence=f"{dotted!r} is not a dotted name")
        return self._absolute(parts, Query())._replace(name=dotted)

    def find_in(self, path: str, name: str) -> Found:
        """Return what a name means inside one file, seen from outside it."""
        module = self._modules.at_path(path)
        parts = name.split(".")
        if module is None or not all(part.isidentifier() for part in parts):
            reason = f"{path} is not Python source" if module is None else f"{name!r} is not a name"
            return Found("undecided", name, path, evidence=reason)
        return self._attribute(module, parts, Query())._replace(name=name)

    def resolve(self, module: Module, dotted: str) -> Found:
        """Return what a name means as code in a module writes it: its own names, then Python's."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("undecided", dotted, evidence=f"{dotted!r} is not a dotted name")
        return self._in_scope(module, parts, Query())

    def table(self, path: str) -> ModuleTable:
        """Return the table of one source, parsed at the first question."""
        if path not in self._tables:
            source = self._files.data(path)
            unread = ModuleTable(problem="it is too long or cannot be read")
            self._tables[path] = unread if source is None else read_module(source)
        return self._tables[path]

    def tables(self, module: Module) -> list[tuple[str, ModuleTable]]:
        """Return the tables of a module: its source's and its stub's."""
        sources = [each for each in (module.path, module.stub) if each is not None]
        return [(each, self.table(each)) for each in sources if each.endswith((".py", ".pyi"))]

    def names(self, module: Module) -> frozenset[str]:
        """Return the names that a module binds, takes by ``*``, or gives on first use."""
        if module.place not in self._name_sets:
            self._name_sets[module.place] = frozenset(self._names(module, set()))
        return self._name_sets[module.place]

    def _names(self, module: Module, seen: set[str]) -> set[str]:
        if module.place in seen or len(seen) > _MOST_STARS:
            return set()
        seen.add(module.place)
        found: set[str] = set()
        for _, table in self.tables(module):
            found |= {*table.scope.names, *table.lazy.targets, *(table.exports or ())}
            for _, _, sources in self._stars.of(module, table):
                for source in sources:
                    found |= self._names(source, seen)
        return found

    def _absolute(self, parts: Sequence[str], query: Query, folder: str | None = None) -> Found:
        """Return what an absolute name means.

        Args:
            parts: The name.
            query: The question it belongs to.
            folder: The folder of the module that imports it; None for a name from outside.
        """
        dotted = ".".join(parts)
        tops = self._modules.top(parts[0])
        # The standard library wins over a copy in a test or example folder of the same name.
        if is_standard(parts[0]) and not any(top.is_firm for top in tops):
            return _standard(dotted)
        if parts[0] == "typing_extensions" and not tops:
            return _standard(".".join(["typing", *parts[1:]]))  # the same, for older Pythons
        tops = tops or self._modules.neighbours(parts[0], folder)
        if not tops:
            return Found("third_party", dotted, evidence=f"{parts[0]} is not in this repository")
        # Copies in side folders only count where nothing firm has the name.
        firm = tuple(top for top in tops if top.is_firm)
        best = _best([self._descend_module(top, parts[1:], query) for top in firm or tops])
        if best.kind != "missing":
            return best
        if is_standard(parts[0]):
            return _standard(dotted)
        copies = [self._descend_module(top, parts[1:], query) for top in tops if firm]
        reason = next((f"{each.path} has it" for each in copies if each.exists), None)
        reason = reason or self._modules.why_unsure(parts[0], firm or tops, best.thing)
        if reason is None:
            return best
        return Found("undecided", dotted, best.path, evidence=f"{best.evidence}, but {reason}")

    def _descend_module(self, module: Module, rest: Sequence[str], query: Query) -> Found:
        if rest:
            return self._attribute(module, rest, query)
        evidence = f"the module {module.place}"
        return Found("module", "", module.place, 1, evidence, thing=module)

    def _descend(self, found: Found, rest: Sequence[str], query: Query) -> Found:
        """Go on from something that was found to what its further parts name."""
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
            # `x = Thing()` at the top of a module: what Thing has, x has.
            made = self._in_scope(thing.module, (thing.binding.call or "").split("."), query)
            if isinstance(made.thing, ClassEntry):
                member = self._class_attribute(made.thing, rest, query)
                if member.exists:
                    return member
        reason = f"{found.evidence}: what {rest[0]!r} is on it shows only while it runs"
        return Found("undecided", "", found.path, found.line, reason)

    def _attribute(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        """Find a name in a module: bound, imported, lazy, or a submodule."""
        return query.once(module.place, parts, lambda: self._find_attribute(module, parts, query))

    def _find_attribute(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        name, rest = parts[0], parts[1:]
        outcomes: list[Found] = []
        # `import a.b.c` finds the submodule b even where a binds b to something else.
        child = self._modules.child(module, name)
        if child is not None and rest:
            outcomes.append(self._descend_module(child, rest, query))
            if outcomes[0].exists:
                return outcomes[0]
        for path, table in self.tables(module):
            bare = self._bare(module, path, table, name, query)
            if child is not None:  # what hides a submodule hides it from nobody who names more
                bare = [each for each in bare if each.kind != "undecided"]
                bare = [each for each in bare if not rest or each.kind not in _LEAVES]
            outcomes += [self._descend(each, rest, query) for each in bare]
        if child is not None and not rest:
            outcomes.append(self._descend_module(child, rest, query))
        # Missing in one candidate proves nothing as long as another one is open.
        if outcomes:
            return _best([each for each in outcomes if each.kind != "missing"] or outcomes)
        reason = self._why_open(module, name)
        if reason is not None:
            return Found("undecided", "", module.place, evidence=reason)
        if module.path is None:
            evidence = f"{module.place} has no module {name!r}"
        else:
            evidence = f"{module.path} does not define {name!r}"
        return Found("missing", "", module.place, evidence=evidence, thing=module)

    def _bare(
        self, module: Module, path: str, table: ModuleTable, name: str, query: Query
    ) -> list[Found]:
        """Return all that a name alone may mean in a module; nothing where it is not there."""
        if name in MODULE_NAMES:
            return [Found("constant", "", path, 1, f"every module has {name}")]
        # Whether the `del` runs last depends on the flow, which is not followed.
        if name in table.scope.deleted:
            return [Found("undecided", "", path, evidence=f"{path} deletes {name}")]
        found, for_types = self._bound_to(module, path, table, name, query)
        found += self._lazy(module, path, table, name, query)
        # Under TYPE_CHECKING only what nothing at run time binds is of interest.
        if not any(each.kind != "undecided" for each in found):
            found += [self._for_types(each, module, table, query) for each in for_types]
        return found or self._starred(module, table, name, query)

    def _bound_to(
        self, module: Module, path: str, table: ModuleTable, name: str, query: Query
    ) -> tuple[list[Found], list[Binding]]:
        """Return what the bindings of a name mean, and those that only type checkers see."""
        bindings = [
            each
            for each in table.scope.names.get(name, ())
            # In a stub `x: int` declares a name that exists.
            if not isinstance(each, ValueBinding) or each.is_bound or path.endswith(".pyi")
        ]
        for_types = [each for each in bindings if _is_for_types(each)]
        real = [each for each in bindings if not _is_for_types(each)]
        # `Name = None` is the fallback of a failed import; the real binding answers.
        named = [each for each in real if not isinstance(each, ValueBinding) or not each.is_none]
        real = named or real
        if not real:
            return [], for_types
        certain = not are_alternatives(real)
        if path.endswith(".pyi"):
            module = module._replace(path=None, stub=path)  # what is there is the stub's
        # The preferred one first and then the latest: `_best` keeps the first of equals.
        found = [self._bound(each, module, query) for each in [preferred(real), *real[::-1]]]
        return [each if certain else each._replace(is_certain=False) for each in found], for_types

    def _why_open(self, module: Module, name: str) -> str | None:
        """Return why a module may have a name that nothing in its text binds, or None."""
        for path, table in self.tables(module):
            reason = table.problem or _why_open(table, name)
            if reason is not None:
                return f"{path}: {reason}"
            if table.extends_path:
                return f"{path} changes __path__"
        return self._modules.why_open(module, name)

    def _for_types(
        self, binding: Binding, module: Module, table: ModuleTable, query: Query
    ) -> Found:
        """Return what an import under ``TYPE_CHECKING`` means: a lazy module gives it too."""
        if table.lazy.is_there or table.dynamic is not None:
            return self._bound(binding, module, query)
        reason = f"{module.place}:{binding.line} imports it for type checkers only"
        return Found("undecided", "", module.place, binding.line, reason)

    def _starred(self, module: Module, table: ModuleTable, name: str, query: Query) -> list[Found]:
        """Return what the ``import *`` of a module give under a name; the last one wins."""
        found: list[Found] = []
        at_runtime = table.lazy.is_there or table.dynamic is not None
        for target, for_types, sources in self._stars.of(module, table):
            if not sources:
                reason = f"{module.place} takes all names of {target}, which is not known here"
                found.append(Found("undecided", "", module.place, evidence=reason))
            for source in sources:
                star = self._exported(source, name, query)
                if star.exists and for_types and not at_runtime:
                    reason = f"{module.place} imports it for type checkers only"
                    star = star._replace(kind="undecided", evidence=reason)
                # The stars come last first, as a later import overwrites an earlier one.
                if star.exists:
                    return [star]
                if star.kind != "missing":
                    found.append(star)
        return found

    def _exported(self, source: Module, name: str, query: Query) -> Found:
        """Find a name in a module as ``from module import *`` takes it."""
        if not self._stars.may_give(source, name):
            return Found("missing", "", source.place)
        # Without __all__ a star takes all names but those with an underscore.
        listed = [table for _, table in self.tables(source) if table.exports is not None]
        exported = any(name in (table.exports or ()) for table in listed)
        complete = all(table.exports_are_complete for table in listed)
        hidden = complete if listed else name.startswith("_")
        if hidden and not exported:
            return Found("missing", "", source.place)
        found = self._attribute(source, [name], query)
        # A circle of star imports gives no name that none of its modules binds.
        return found._replace(kind="missing") if found.evidence == _CIRCLE else found

    def _lazy(
        self, module: Module, path: str, table: ModuleTable, name: str, query: Query
    ) -> list[Found]:
        """Return what the import maps of a module say of a name."""
        targets = table.lazy.targets.get(name)
        if targets is None:
            return []
        found: list[Found] = []
        for each in targets:
            target, _, last = each.lstrip(".").rpartition(".")
            # The dots were put there by `lazy_names` for targets relative to the package.
            level = len(each) - len(each.lstrip("."))
            found.append(self._imported(module, level, target, last, query))
        there = [each for each in found if each.exists]
        there = there or [each for each in found if each.kind == "third_party"]
        unsure = Found("undecided", "", path, evidence=f"{path} gives it on first use")
        return there[:1] or [unsure]

    def _imported(
        self, module: Module, level: int, target: str, name: str | None, query: Query
    ) -> Found:
        """Return what ``from target import name`` or ``import target`` means in a module."""
        rest = [] if name is None else [name]
        sources = self._modules.imported(module, level, target)
        outcomes = [self._descend_module(each, rest, query) for each in sources]
        # By files alone first; the absolute look-up also covers standard and third-party names.
        best = _best(outcomes) if outcomes else None
        if best is not None and best.kind != "missing":
            return best
        parts = [*(target.split(".") if target else ()), *rest]
        if level == 0:
            return self._absolute(parts, query, module.package_folder)
        return best or self._descend_module(self._modules.above(module, level), parts, query)

    def _bound(self, binding: Binding, module: Module, query: Query) -> Found:
        """Return what one binding of a module means."""
        place = (module.place, binding.line)
        if isinstance(binding, ClassBinding):
            evidence = f"class {binding.name} in {place[0]}:{place[1]}"
            return Found("class", "", *place, evidence, thing=ClassEntry(binding, module))
        if isinstance(binding, FunctionBinding):
            evidence = f"def {binding.signature.name} in {place[0]}:{place[1]}"
            return Found("function", "", *place, evidence, thing=FunctionEntry(binding, module))
        if isinstance(binding, ValueBinding):
            return self._value(binding, module, query)
        found = self._imported(module, binding.level, binding.module, binding.name, query)
        if found.kind == "third_party":
            return found._replace(path=place[0], line=place[1])
        # An import that fails raises before the name is asked for: it may be guarded by a try.
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
        for each in self.classes.lineage(entry).entries:
            member = own_member(each, rest[0])
            if member is not None:
                return self._descend(member, rest[1:], query)
        return self._descend(self.classes.beyond_text(entry, rest[0]), rest[1:], query)

    def _in_scope(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        """Find a name as a module's own code sees it: no ``__getattr__``, but Python's names."""
        # The blank keeps this key apart from that of `_attribute`.
        return query.once(
            module.place, (" ", *parts), lambda: self._find_in_scope(module, parts, query)
        )

    def _find_in_scope(self, module: Module, parts: Sequence[str], query: Query) -> Found:
        name, rest = parts[0], parts[1:]
        found: list[Found] = []
        for path, table in self.tables(module):
            bound, for_types = self._bound_to(module, path, table, name, query)
            found += bound or [self._bound(each, module, query) for each in for_types]
            found += self._starred(module, table, name, query) if not found else []
        if found:
            outcomes = [self._descend(each, rest, query) for each in found]
            return _best([each for each in outcomes if each.kind != "missing"] or outcomes)
        if hasattr(builtins, name):
            return _standard(".".join(["builtins", *parts]))
        return Found(
            "undecided", "", module.place, evidence=f"{module.place} does not define {name!r}"
        )


def _best(outcomes: Sequence[Found]) -> Found:
    """Take the surest of several answers: there, then unsure, then elsewhere, then missing."""
    order = {"third_party": 1, "undecided": 2, "missing": 3}
    # min() keeps the first of equals, so the order of the outcomes decides among sure ones.
    return min(outcomes, key=lambda each: order.get(each.kind, 0))


def _standard(dotted: str) -> Found:
    """Answer for Python's own names: there or undecided, for versions differ."""
    top, _, rest = dotted.partition(".")
    name = standard_name(dotted)
    if not rest:
        return Found("module", dotted, evidence=f"{top} is a module of Python", thing=name)
    # A name that this interpreter lacks may exist in another version.
    if name.real is None:
        return Found("undecided", dotted, evidence=f"{top} is a module of Python", thing=name)
    kind: Kind = "class" if isinstance(name.real, type) else "constant"
    if callable(name.real) and kind == "constant":
        kind = "function"
    return Found(kind, dotted, evidence=f"{dotted} is Python's own", thing=name)


def _why_open(table: ModuleTable, name: str) -> str | None:
    """Return why a module may have a name that nothing in its text binds, or None."""
    if table.exports is not None and name in table.exports and name not in table.scope.names:
        return "__all__ lists it and nothing binds it"
    if name in table.lazy.targets:
        return "its __getattr__ gives it"
    if table.dynamic is not None:
        return table.dynamic
    if table.lazy.is_there and not table.lazy.is_complete:
        return "its __getattr__ may give more names"
    return None


def _is_for_types(binding: Binding) -> bool:
    return isinstance(binding, ImportBinding) and binding.for_types

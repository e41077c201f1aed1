"""The proof that a new unit can be imported, as far as those that it was learned from can."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scaffold.edit import shapes
from scaffold.errors import ScaffoldError
from scaffold.target.target import Target
from scaffold.units.init.draft import Draft, import_roots, module_of
from scaffold.units.init.family import is_test
from scaffold.units.init.proof import PROBE, tried
from scaffold.units.init.spellings import same_name

Importer = Callable[[Sequence[str], Mapping[str, bytes]], dict[str, str]]

_MISSING = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True)
class Imported:
    """What came of importing a new unit.

    Args:
        works: The modules that can be imported.
        failed: Module to the error of its import.
        missing: The packages that are not installed here.
        unknown: The modules of which nothing is known, since those of existing units fail too.
        namesake: A unit that exists, where units import packages called like themselves.
    """

    works: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    namesake: str = ""

    def describe(self) -> tuple[str, ...]:
        """Return what came of it, as lines."""
        rows: list[str] = []
        if self.works:
            rows.append(f"imports   {', '.join(self.works)}")
        if self.missing:
            rows.append(f"imports   not installed here: {', '.join(self.missing)}")
        if self.namesake:
            rows.append(
                "imports   units import packages called like themselves, such as "
                f"{self.namesake}: install that of a new unit first"
            )
        if self.unknown:
            rows.append(
                f"imports   not tried, since those of existing units fail too: "
                f"{', '.join(self.unknown)}"
            )
        return tuple(rows)


def import_probe(
    target: Target, draft: Draft, files: Mapping[str, bytes], run: Importer
) -> Imported:
    """Import a unit that nobody has, and every registry that it is entered in."""
    request, rendered = tried(target, draft, PROBE)
    changed = {file.path: file.data for file in rendered}
    for entry in request.edited():
        data = changed.get(entry.file, files[entry.file])
        try:
            changed[entry.file] = shapes.add_entry(data, entry).data
        except ScaffoldError:
            continue  # two lines of one unit may exclude each other; the plan reports it
    roots = import_roots([*files, *changed])
    sources = {
        file.common: module_of(made.path, roots)
        for file, made in zip(draft.made, rendered, strict=True)
        if file.role == "source"
    }
    sources = {common: module for common, module in sources.items() if module}
    # A module of the made unit is held against the same one of two units that exist.
    known = {
        common: [
            module_of(unit.paths[common], draft.roots)
            for unit in (draft.family.unit, *draft.family.siblings)
            if common in unit.paths
        ][:2]
        for common in sources
    }
    registries = [
        module
        for path in changed
        if path in files
        and not path.startswith(f"{draft.tests}/")
        and not is_test(path)
        and (module := module_of(path, draft.roots))
    ]
    own = _packages(files, draft.roots)
    before = run(_each([*(m for rows in known.values() for m in rows), *registries]), {})
    after = run(_each([*sources.values(), *registries]), changed)
    works: list[str] = []
    failed: list[tuple[str, str]] = []
    missing: list[str] = []
    unknown: list[str] = []
    for module in _each([*sources.values(), *registries]):
        said = after[module]
        held = known.get(next((c for c, m in sources.items() if m == module), ""), [module])
        package = _MISSING.search(said)
        if not said:
            works.append(module)
        elif package and package[1].partition(".")[0] not in own:
            missing.append(package[1].partition(".")[0])
        elif all(before[each] for each in held):
            unknown.append(module)
        else:
            failed.append((module, said))
    others = [each for each in _each(missing) if not same_name(each, PROBE)]
    namesake = draft.family.unit.key if len(others) < len(_each(missing)) else ""
    return Imported(tuple(works), tuple(failed), tuple(others), tuple(unknown), namesake)


def _packages(files: Iterable[str], roots: Iterable[str]) -> frozenset[str]:
    """Return the top-level packages and modules of a repository."""
    roots = tuple(roots)
    modules = (module_of(path, roots) for path in files if path.endswith(".py"))
    return frozenset(module.partition(".")[0] for module in modules if module)


def _each(rows: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(rows))

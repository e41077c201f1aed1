"""Which repository is this, and where do things go in it? Found out from files alone."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from scaffold.analysis.project.tool_table import settings_errors
from scaffold.config import FieldError, Fields
from scaffold.errors import TargetError
from scaffold.target.layouts import (
    DOCSTRING_FORMS,
    PLUGIN_NAMES,
    KindPlace,
    Registry,
    load_layouts,
    registry_address,
)
from scaffold.templating.manifests import Catalogue, catalogue_for, read_registry, templates_folder
from scaffold.templating.names import pascal
from scaffold.templating.sources import MADE
from scaffold.templating.spec import Kind, RegistryRule, Style, fill

CONFIG_SCHEMA = 1
"""The newest format of [tool.scaffold] that this version reads."""

OWN_LAYOUT = "areal"
"""The layout of this repository, where the training package itself is extended."""

TESTS_MADE = f"{MADE}/tests"
_TEST_FOLDERS = ("tests", "test")

TRINITY = "trinity"
"""Trinity-RFT, as styles and places name what units are written for."""

MAX_SHOWN = 300
"""How much of a path that does not exist is repeated."""


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """A repository that units can be added to.

    Args:
        root: Its folder; nothing outside is ever written.
        layout: How it was recognised: "project", or the name of a layout file.
        package: The top-level package that units go into.
        tests: The folder of the tests, relative to the root.
        kinds: Kind to where its units go.
        python: The interpreter that the target asks for, if any.
        why: By what it was recognised.
        format: The formatters that ``[tool.scaffold].format`` names, as argument lists.
        style: What ``[tool.scaffold.style]`` sets: "header", "docstrings", "test".
        has_areal_lite: Whether units may import all of the training package of this repository;
            where not, what they need comes along.
    """

    root: Path
    layout: str
    package: str
    tests: str
    kinds: Mapping[str, KindPlace]
    python: str | None = None
    why: str = "its pyproject.toml has a [tool.scaffold] table"
    format: tuple[tuple[str, ...], ...] = ()
    style: Mapping[str, str] = field(default_factory=dict[str, str])
    has_areal_lite: bool = False

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """What can be made here."""
        return catalogue_for(self.root)

    @functools.cached_property
    def package_folder(self) -> str:
        """The folder of the package, relative to the root; "" where units are in no package."""
        folders = [PurePosixPath(each.registry.file).parts for each in self.kinds.values()]
        inside = next((parts for parts in folders if self.package in parts), ())
        if inside:
            return "/".join(inside[: inside.index(self.package) + 1])
        return self.package if (self.root / self.package).is_dir() else ""

    def place(self, kind: Kind) -> KindPlace | None:
        """Return where units of a kind go, or None where the kind's manifest has it all.

        Raises:
            TargetError: Neither the target nor the manifest has it.
        """
        if kind.name in self.kinds:
            return self.kinds[kind.name]
        # The manifest itself names every path and registry.
        if kind.new_folder or (kind.place and all(rule.file for rule in kind.registry)):
            return None
        if kind.writer:
            raise TargetError(
                f"{self.root} has no registry for the kind {kind.name!r}",
                code="target_invalid",
                hint="such models go where areal/experimental/models/archon/__init__.py has the "
                "table ARCHON_MODELS, or imports the specs: --target names the repository. A "
                "project of your own sets in pyproject.toml where it has such a table, under "
                "[tool.scaffold.registries] for this tool and under "
                '[project.entry-points."areal.archon_models"] for areal',
            )
        raise TargetError(
            f"{self.root} has no registry for the kind {kind.name!r}",
            code="target_invalid",
            hint="`scaffold init --like PATH` makes a kind of a unit that exists; for the built-in "
            "templates add to its pyproject.toml, under [tool.scaffold.registries]:\n"
            f'    {kind.name} = "{self.package}/{kind.name}/__init__.py:{kind.name.upper()}S"',
        )


def describe(target: Target) -> dict[str, str]:
    """Return a target as reports name it."""
    return {"root": str(target.root), "layout": target.layout, "package": target.package}


def find_target(start: Path, *, exact: bool = False, any_project: bool = False) -> Target:
    """Return the target at a folder or above it, not beyond the git root.

    Args:
        start: Where to begin.
        exact: Look at this folder only, as ``--target`` asks.
        any_project: Take the nearest project in Python where there is no other target.

    Raises:
        TargetError: There is none, there are two, or its configuration is wrong.
    """
    start = existing_folder(start)
    looked: list[Path] = []
    found: list[Target] = []
    for folder in (start, *start.parents):
        looked.append(folder)
        target = target_at(folder, is_asked=folder == start)
        if target is not None:
            found.append(target)
        # Two repositories, one inside the other, are never mixed.
        if exact or (folder / ".git").exists():
            break
    if not found:
        # What has tests of ours is a target for the other commands too.
        plain = [_plain(each) for each in looked if any_project or (each / TESTS_MADE).is_dir()]
        found = [each for each in plain if each is not None][:1]
    if not found:
        raise _no_target(start, looked)
    if len(found) > 1:
        raise TargetError(
            f"there are two targets at {start} and above it, one inside the other",
            code="target_ambiguous",
            hint="choose one: " + " or ".join(f"--target {each.root}" for each in found),
        )
    return found[0]


def _plain(root: Path) -> Target | None:
    """Return a project in Python as a target that has no registries."""
    if not any((root / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
        return None
    folders = [*sorted((root / "src").glob("*/__init__.py")), *sorted(root.glob("*/__init__.py"))]
    packages = [path.parent.name for path in folders]
    package = next((name for name in packages if name not in _TEST_FOLDERS), root.name)
    tests = next((name for name in _TEST_FOLDERS if (root / name).is_dir()), _TEST_FOLDERS[0])
    return Target(root, "python", package, tests, {}, why="it is a project in Python")


def existing_folder(place: Path) -> Path:
    """Return where a folder really is.

    Raises:
        TargetError: There is none.
    """
    reason = "is not a folder"
    try:
        real = place.resolve()
        if real.is_dir():
            return real
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links
        reason = getattr(error, "strerror", None) or "leads in a circle"
    shown = str(place)
    shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
    raise TargetError(
        f"{shown}: {reason}", code="target_missing", hint="give --target an existing folder"
    )


def target_at(folder: Path, *, is_asked: bool = True) -> Target | None:
    """Return the target that a folder is the root of, or None.

    Args:
        folder: Is looked at.
        is_asked: Whether it is the folder that was named, whose files may be listed. Nothing is
            listed above it: there may be a whole company.

    Raises:
        TargetError: The folder has a [tool.scaffold] table that is wrong.
    """
    table = _tool_table(folder)
    if table is not None:
        return _configured(folder, table)
    for layout in load_layouts(templates_folder() / "layouts"):
        if (is_asked or not layout.lists_files) and layout.recognises(folder):
            kinds = layout.kinds(folder)
            return Target(
                folder,
                layout.name,
                layout.package,
                layout.tests,
                kinds,
                why=layout.title,
                has_areal_lite=layout.name == OWN_LAYOUT,
            )
    return None


def unit_names(
    target: Target,
    kind: Kind,
    key: str,
    style: str = "",
    otherwise: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return every variable that a kind's manifest and its templates may use for one unit.

    Args:
        target: Where the unit goes.
        kind: The kind's manifest.
        key: The canonical name.
        style: The one chosen style; empty for kinds that allow several.
        otherwise: What is called otherwise than the manifest and the target say.
        own: What the style calls otherwise than the kind; a target has the last word.
    """
    place = target.place(kind)
    names = key_names(key) | {
        "kind": kind.name,
        "style": style,
        "package": target.package,
        "tests": target.tests,
        **_support(target),
    }
    if place is not None:
        folder = str(PurePosixPath(place.registry.file).parent)
        names |= {
            "folder": folder,
            "registry": place.registry.file,
            "table": place.registry.table,
        }
        if place.registry.is_in_units:
            # A plugin is loaded by its file, and knows no package around it.
            names |= {"registry_module": key, "module": key}
        elif place.registry.file.endswith(".py"):
            # Only a registry in Python has a module; a page of documentation has none.
            module = _module_of(target, folder)
            names |= {"registry_module": module, "module": f"{module}.{key}"}
    named = {**(own or {}), **({} if place is None else place.names), **(otherwise or {})}
    return with_kind_names(kind, names, named)


def _support(target: Target) -> dict[str, str]:
    """Return where units find modules of areal-lite: there, or as copies in their own package."""
    if target.has_areal_lite:
        return {"support": "areal.", "support_folder": ""}
    folder = target.package_folder
    return {"support": f"{target.package}." if folder else "", "support_folder": folder or "."}


def registry_rules(
    target: Target, kind: Kind, styles: Iterable[Style] = ()
) -> tuple[RegistryRule, ...]:
    """Return the lines that register a unit of a kind, each with its file and table.

    There are none where the file of a unit registers it, and for styles that are written for
    another framework than the target's registry, which are found by their dotted path.
    """
    place = target.place(kind)
    if place is None:
        return kind.registry
    if place.registry.is_in_units or any(each.framework != place.framework for each in styles):
        return ()
    file, table = place.registry.file, place.registry.table
    # A layout may register a unit in several files, each of which it names.
    if place.rules:
        return tuple(rule._replace(file=rule.file or file) for rule in place.rules)
    return tuple(
        rule if rule.file else rule._replace(file=file, table=rule.table or table)
        for rule in kind.registry
    )


def key_names(key: str) -> dict[str, str]:
    """Return the spellings of a key: math_debate, math-debate, MathDebate, "Math debate" ..."""
    words = key.replace("_", " ")
    return {
        "key": key,
        "dashed": key.replace("_", "-"),
        "pascal": pascal(key),
        "camel": pascal(key)[:1].lower() + pascal(key)[1:],
        "upper": key.upper(),
        "words": words,
        "title": words.capitalize(),
        "headline": " ".join(word.capitalize() for word in words.split()),
        "flat": key.replace("_", ""),
        "flat_upper": key.replace("_", "").upper(),
    }


def with_kind_names(
    kind: Kind, names: dict[str, str], otherwise: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the names, extended by those that the kind's [names] and [place] derive from them.

    Args:
        kind: The kind's manifest.
        names: What is known so far.
        otherwise: What a target calls differently; it may use all names before it.
    """
    for name, pattern in {**kind.names, **kind.place, **(otherwise or {})}.items():
        names[name] = fill(pattern, names)
    return names


_OF_ANY_REPOSITORY = frozenset({"commits", "debug", "deps", "docs", "review", "skills"})
"""Tables of commands that work in any repository; they make none a target."""


def _tool_table(folder: Path) -> Fields | None:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        # A broken file is only this tool's business where it has our table.
        if "[tool.scaffold]" not in _text_or_empty(path):
            return None
        raise TargetError(
            f"{path} cannot be read: {error}", code="target_invalid", hint="repair it first"
        ) from error
    tool: Any = data.get("tool", {})
    table: Any = cast("dict[str, Any]", tool).get("scaffold") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        return None
    rows = cast("dict[str, Any]", table)
    # `[tool.scaffold]` with nothing in it is a target with a mistake; `[tool.scaffold.docs]` alone
    # configures a command and makes no target.
    own = {key: each for key, each in rows.items() if key not in _OF_ANY_REPOSITORY}
    return Fields(own, f"{path} [tool.scaffold]") if own or not table else None


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _configured(root: Path, table: Fields) -> Target:
    with settings_errors("see the table that `scaffold new` writes", TargetError):
        table.check_schema(CONFIG_SCHEMA, TargetError)
        package = table.text("package")
        tests = table.text("tests", "tests")
        python = table.text("python", "")
        kinds = _kind_places(table.fields("registries"))
        formatters = _formatters(table)
        style = _style(table.fields("style"))
        table.done()
        _check_inside(table.where, "tests", tests)
    if not package.isidentifier():
        raise TargetError(
            f"{table.where}: package {package!r} is not an importable name", code="target_invalid"
        )
    return Target(
        root,
        "project",
        package,
        tests,
        kinds,
        python or None,
        format=formatters,
        style=style,
        has_areal_lite=_needs_areal_lite(root),
    )


def _needs_areal_lite(root: Path) -> bool:
    """Return whether a project depends on areal-lite, whatever the version."""
    text = _text_or_empty(root / "pyproject.toml")
    return re.search(r"""["']areal[-_.]lite\b""", text, re.IGNORECASE) is not None


def _kind_places(rows: Fields) -> dict[str, KindPlace]:
    """Read [tool.scaffold.registries]: per kind "file:TABLE", or an array of tables."""
    found: dict[str, KindPlace] = {}
    for kind in rows.names():
        if isinstance(rows.value(kind), str):
            place = _own_place(rows, kind)
        else:
            rules = tuple(read_registry(row) for row in rows.tables(kind))
            if not rules or not all(rule.file for rule in rules):
                raise FieldError(f"{rows.where}: every line of registry {kind} needs a file")
            place = KindPlace(Registry(rules[0].file, rules[0].table), rules, {})
        for file in (place.registry.file, *(rule.file for rule in place.rules)):
            _check_inside(rows.where, f"registry {kind}", file)
        found[kind] = place
    return found


def _own_place(rows: Fields, kind: str) -> KindPlace:
    registry = registry_address(rows.where, kind, rows.text(kind))
    if not registry.is_in_units:
        return KindPlace(registry, (), {})
    # The only framework whose plugins register themselves.
    return KindPlace(registry, (), PLUGIN_NAMES, TRINITY)


def _formatters(table: Fields) -> tuple[tuple[str, ...], ...]:
    """Read ``format``: one argument list, or several."""
    given: Any = table.value("format", [])
    rows = cast("list[Any]", given if isinstance(given, list) else [given])
    # `["ruff", "format"]` is one command, `[["isort"], ["black"]]` are two.
    lists: list[Any] = rows if any(isinstance(row, list) for row in rows) else [rows] * bool(rows)
    for row in lists:
        words = cast("list[Any]", row if isinstance(row, list) else [])
        if not words or not all(isinstance(word, str) and word for word in words):
            raise FieldError(f'{table.where}: format must read ["program", "argument", ...]')
    return tuple(tuple(cast("list[str]", row)) for row in lists)


def _style(table: Fields) -> dict[str, str]:
    found = {key: table.text(key, "") for key in ("header", "docstrings", "test")}
    table.done()
    if found["docstrings"] not in ("", *DOCSTRING_FORMS):
        raise FieldError(f"{table.where}: docstrings must be one of {', '.join(DOCSTRING_FORMS)}")
    return {key: value for key, value in found.items() if value}


def _check_inside(where: str, what: str, path: str) -> None:
    parts = PurePosixPath(path).parts
    # A colon belongs to a drive of Windows.
    if "\\" in path or not parts or path.startswith("/") or ".." in parts or ":" in path:
        raise FieldError(f"{where}: {what} = {path!r} must be a relative path inside the target")


def _module_of(target: Target, folder: str) -> str:
    parts = PurePosixPath(folder).parts
    if target.package not in parts:
        raise TargetError(
            f"the registry folder {folder} is not inside the package {target.package!r}",
            code="target_invalid",
            hint="make package and registries in [tool.scaffold] agree",
        )
    # `src/my_rl/reward` is the module `my_rl.reward`.
    return ".".join(parts[parts.index(target.package) :])


def _no_target(start: Path, looked: list[Path]) -> TargetError:
    below = sorted(
        path.parent.name
        for path in start.glob("*/pyproject.toml")
        if re.search(r"^\[tool\.scaffold\]", _text_or_empty(path), re.MULTILINE)
    )
    if below:
        choices = " or ".join(f"--target {name}" for name in below)
        hint = f"did you mean {choices}?"
    else:
        hint = (
            "go to a project of `scaffold new NAME`, or configure this repository: "
            "`scaffold init --like PATH` proposes what to write, or add to its pyproject.toml:\n"
            "    [tool.scaffold]\n"
            f"    schema = {CONFIG_SCHEMA}\n"
            '    package = "your_package"\n'
            '    tests = "tests"\n'
            "    [tool.scaffold.registries]\n"
            '    reward = "your_package/reward/__init__.py:REWARDS"\n'
            "where REWARDS is a dictionary literal: REWARDS: dict[str, str] = {}"
        )
    where = f"{looked[0]}" if len(looked) == 1 else f"{looked[0]} and above it up to {looked[-1]}"
    return TargetError(
        f"nothing that scaffold can extend was found in {where}", code="target_missing", hint=hint
    )

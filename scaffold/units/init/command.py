"""`scaffold init`: configure a repository from its folders, and a kind from a unit that exists.

What is proposed is proven first: the templates give the example's own files back, its registry
lines are found as they are, and those of another unit go in and out without a trace.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from scaffold.errors import ConflictError, RequestError, TargetError
from scaffold.report import Report
from scaffold.syntax import parse
from scaffold.target.target import CONFIG_SCHEMA, Target, describe, target_at
from scaffold.templating.manifests import catalogue_for
from scaffold.templating.render import toml_literal
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.transaction.apply import session
from scaffold.transaction.change import Change
from scaffold.units.context import Options, leftover_warning, reported_changes, settled_warning
from scaffold.units.init.draft import Draft, propose
from scaffold.units.init.draft import describe as describe_draft
from scaffold.units.init.example import Example, find_example
from scaffold.units.init.roundtrip import prove
from scaffold.units.init.source_files import read_texts, source_files
from scaffold.units.init.unit_name import find_source

NO_PACKAGES = frozenset(
    ["tests", "test", "docs", "doc", "examples", "scripts", "benchmarks", "tools", "notebooks"]
)


@dataclass(frozen=True)
class InitOptions:
    """What ``scaffold init`` is asked for.

    Args:
        like: A path or the name of a unit, or None.
        kind: What the kind is to be called, or "" to find a name.
        agreed: Whether the draft is agreed to beforehand.
        ask: Shows a draft and asks for consent; None where nobody can be asked.
    """

    like: str | None = None
    kind: str = ""
    agreed: bool = False
    ask: Callable[[str], bool] | None = None


def init_repository(how: InitOptions, options: Options) -> Report:
    """Propose a configuration and, from a unit that exists, a kind; writes both when agreed to."""
    root = find_root(options)
    paths, is_all = source_files(root)
    files, has_room = read_texts(root, paths)
    warnings = leftover_warning(root) if options.dry_run else ()
    if not (is_all and has_room):
        warnings += (f"{root} holds more files than are looked through; not all were read",)
    source = None if how.like is None else find_source(sorted(files), _inside(how.like, options))
    target, changes = _target(root, files, source)
    found: tuple[str, ...] = (f"package   {target.package}", f"tests     {target.tests}")
    report = Report("init", describe(target), dry_run=options.dry_run)
    if source is not None:
        example = _find_example(target, files, source, how.kind)
        draft, notes = prove(
            target, *propose(example, target.tests), files, with_format=options.with_format
        )
        warnings += (*example.warnings, *notes, *_foreign_names(draft))
        changes += [
            Change(path, "created", None, data) for path, data in sorted(draft.texts().items())
        ]
        found += describe_draft(draft.files, draft.rules)
        report.extra["draft"] = _draft_json(draft)
        report.check = (
            ("scaffold", "add", draft.kind, "NAME", "--dry-run", "--target", str(root)),
        )
    report.warnings, report.found = warnings, found
    report.changes = reported_changes(changes)
    return _settled(report, root, changes, how)


def _foreign_names(draft: Draft) -> tuple[str, ...]:
    """Return what to say of names that are no spelling of the example's, so that all units share.

    ``MeanSquared`` in mse.py tells nothing about the class in huber.py.
    """
    source = draft.files[0]
    if not source.path.endswith(".py"):
        return ()
    names = [
        node.name
        for node in parse(source.data).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    texts = [f"{rule.entry.key} {rule.entry.value}" for rule in draft.rules]
    shared = [n for n in names if any(re.search(rf"\b{n}\b", text) for text in texts)]
    key = draft.example.spelling.key
    return tuple(
        f"{name} is no spelling of {key}: every {draft.kind} would be registered as {name}; "
        f"write {{pascal}} or an answer of its own for it in {draft.kind}/kind.toml"
        for name in shared
    )


def find_root(options: Options) -> Path:
    """Return the folder that is to become a target: what ``--target`` says, or one upwards.

    Raises:
        TargetError: ``--target`` is no folder.
    """
    start = (options.folder / (options.target or ".")).resolve()
    if not start.is_dir():
        raise TargetError(
            f"{start} is no folder", code="target_missing", hint="give --target an existing folder"
        )
    for folder in (start, *start.parents) if options.target is None else ():
        if any((folder / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
            return folder
        if (folder / ".git").exists():
            return folder
    return start


# ---- the repository ------------------------------------------------------------------------------


def _inside(like: str, options: Options) -> str:
    """Return what --like names relative to the root, where it is a path."""
    place, root = (options.folder / like).resolve(), find_root(options)
    for each in (place, (root / like).resolve()):
        if each.exists() and each.is_relative_to(root) and each != root:
            return each.relative_to(root).as_posix()
    return like


def _target(
    root: Path, files: Mapping[str, bytes], source: str | None
) -> tuple[Target, list[Change]]:
    """Return the target as it is to be, and what has to be written for it."""
    known = target_at(root)
    if known is not None:
        return known, []
    package = _package(files, source)
    tests = next((name for name in ("tests", "test") if _has_folder(files, name)), "tests")
    python = ".venv/bin/python" if (root / ".venv/bin/python").exists() else None
    target = Target(root, "project", package, tests, {}, python)
    before = files.get("pyproject.toml")
    if before is None and (root / "pyproject.toml").exists():
        raise TargetError(
            f"{root / 'pyproject.toml'} is no text that can be added to",
            code="target_invalid",
            hint="repair it first",
        )
    after = with_config(before or b"", target)
    return target, [Change("pyproject.toml", "edited" if before else "created", before, after)]


def with_config(before: bytes, target: Target) -> bytes:
    """Return a pyproject.toml with the table of a target behind all else.

    Raises:
        TargetError: The file cannot be read, or holds such a table in another form.
    """
    rows = ["[tool.scaffold]", f"schema = {CONFIG_SCHEMA}"]
    rows += [f"package = {toml_literal(target.package)}", f"tests = {toml_literal(target.tests)}"]
    rows += [f"python = {toml_literal(target.python)}"] if target.python else []
    # The file's own line ends, with a blank line in front of the table.
    end = b"\r\n" if b"\r\n" in before else b"\n"
    gap = b"" if not before else end if before.endswith(b"\n") else end * 2
    after = before + gap + end.join(row.encode() for row in rows) + end
    try:
        was: dict[str, Any] = tomllib.loads(before.decode("utf-8-sig"))
        now: dict[str, Any] = tomllib.loads(after.decode("utf-8-sig"))
        del now["tool"]["scaffold"]
        # `tool` itself may be new.
        is_unchanged = now == was or now == {**was, "tool": {}}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, KeyError) as error:
        raise TargetError(
            f"pyproject.toml cannot be added to: {error}",
            code="target_invalid",
            hint="repair it first, or add by hand:\n" + "\n".join(rows),
        ) from error
    assert is_unchanged, "a table at the end changes nothing above it"
    return after


def _package(files: Mapping[str, bytes], source: str | None) -> str:
    """Return the package that units go into.

    Raises:
        TargetError: There is none.
    """
    if source is not None:
        return _package_of(files, source)
    found = _packages(files)
    if not found:
        raise TargetError(
            "no Python package was found: no folder with an __init__.py, in src/ or beside it",
            code="target_missing",
            hint="name an existing unit with --like, or another folder with --target",
        )
    # The package that is called as the project is, else the largest.
    name = _project_name(files)
    sizes = {each: sum(f"{each}/" in path for path in files) for each in found}
    return name if name in found else max(sorted(found), key=lambda each: sizes[each])


def _packages(files: Mapping[str, bytes]) -> set[str]:
    found = (re.fullmatch(r"(?:src/|lib/)?(\w+)/__init__\.py", path) for path in files)
    return {each[1] for each in found if each and each[1] not in NO_PACKAGES}


def _package_of(files: Mapping[str, bytes], source: str) -> str:
    """Return the top-level package of a file: the outermost of the folders that are packages."""
    folders = [each for each in PurePosixPath(source).parents if each.parts]
    packages = [each for each in folders if f"{each}/__init__.py" in files]
    if packages:
        return packages[-1].name
    # No folder is a regular package: the outermost one is taken for a namespace package.
    named = [each.name for each in reversed(folders) if each.name not in ("src", "lib")]
    if not named or not named[0].isidentifier():
        raise TargetError(
            f"{source} is in no package",
            code="target_invalid",
            hint="name a unit in a folder of its like",
        )
    return named[0]


def _project_name(files: Mapping[str, bytes]) -> str:
    try:
        data: dict[str, Any] = tomllib.loads(files["pyproject.toml"].decode("utf-8-sig"))
        return re.sub(r"[-.]", "_", str(data["project"]["name"])).lower()
    except (KeyError, TypeError, ValueError):
        return ""


def _has_folder(files: Mapping[str, bytes], name: str) -> bool:
    return any(path.startswith(f"{name}/") for path in files)


# ---- the kind ------------------------------------------------------------------------------------


def _find_example(target: Target, files: Mapping[str, bytes], source: str, kind: str) -> Example:
    """Return what a unit consists of.

    Raises:
        ConflictError: Its kind is known already.
        RequestError: The kind's name is none.
    """
    folder = PurePosixPath(source).parent
    for name, place in target.kinds.items():
        # Units of a known kind are modules beside its registry, or packages below it.
        if not kind and PurePosixPath(place.registry.file).parent in (folder, folder.parent):
            raise _known(name, f"{source} is a {name}", "scaffold eject " + name)
    # Imports from the tests' own folder are the repository's, too.
    packages = _packages(files) | {target.package, PurePosixPath(target.tests).parts[0]}
    example = find_example(files, source, packages, kind)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", example.kind):
        raise RequestError(
            f"{example.kind!r} is no name for a kind",
            code="usage",
            hint="give one with --kind: lower-case letters and dashes",
        )
    catalogue = catalogue_for(target.root)
    taken = catalogue.kind_names()
    if example.kind in taken or f"{OWN_TEMPLATES}/{example.kind}/kind.toml" in files:
        raise _known(example.kind, f"there is a kind {example.kind!r}", "scaffold list")
    return example


def _known(kind: str, what: str, look: str) -> ConflictError:
    return ConflictError(
        f"{what}, which is known already: scaffold add {kind} NAME",
        code="kind_known",
        hint=f"`{look}` shows its templates; call a kind of your own otherwise with --kind",
    )


def _draft_json(draft: Draft) -> dict[str, Any]:
    return {
        "kind": draft.kind,
        "example": draft.example.spelling.key,
        "files": [{"path": each.path, "role": each.role} for each in draft.files],
        "registry": [
            {"file": rule.file, "line": rule.line, "shape": rule.entry.shape,
             "table": rule.entry.table, "key": rule.entry.key, "value": rule.entry.value}
            for rule in draft.rules
        ],
    }  # fmt: skip


# ---- consent -------------------------------------------------------------------------------------


def _settled(report: Report, root: Path, changes: list[Change], how: InitOptions) -> Report:
    """Return the report of what was written, or of what would be."""
    if not changes:
        report.text = "nothing to do: this repository is known already; --like teaches it a kind\n"
        return report
    shown = "".join(f"found      {row}\n" for row in report.found)
    shown += "".join(change.diff for change in report.changes)
    if report.dry_run:
        report.text = shown
        return report
    if not (how.agreed or (how.ask is not None and how.ask(shown))):
        # The draft is printed all the same, so that it can be read before the second run.
        hint = "read the draft, then run it again with --yes"
        error = {"code": "unconfirmed", "message": "nothing was written", "hint": hint}
        report.ok, report.text = False, f"{shown}nothing was written: {hint}\n"
        report.extra["error"] = error
        return report
    with session(root, "init") as opened:
        report.warnings += settled_warning(opened.settled)
        opened.apply(changes)
    return report

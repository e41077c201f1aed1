"""`scaffold init`: configure a repository from its folders, and a kind from a unit that exists.

What is proposed is proven first: units are left out and made again from what the others have in
common, the registry lines of a new unit go in and out without a trace, and it can be imported.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from scaffold.errors import ConflictError, RequestError, TargetError
from scaffold.report import Report
from scaffold.target.target import CONFIG_SCHEMA, Target, describe, target_at
from scaffold.templating.manifests import catalogue_for
from scaffold.templating.render import toml_literal
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.transaction.apply import session
from scaffold.transaction.change import Change
from scaffold.transaction.leftovers import leftover_warning, settled_warning
from scaffold.units.context import Options, reported_changes
from scaffold.units.init.draft import Draft, import_roots, module_of, with_mark
from scaffold.units.init.draft import describe as describe_draft
from scaffold.units.init.family import Family, find_family, find_home
from scaffold.units.init.imports import Importer, import_probe
from scaffold.units.init.learn import LearnedFile, learn_files
from scaffold.units.init.proof import make_again, prove
from scaffold.units.init.rules import Rules, learn_rules
from scaffold.units.init.source_files import read_texts, source_files
from scaffold.units.init.spellings import Lexicon

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
        importer: Makes what imports modules in a copy of a target of these files, and reports with
            which interpreter; None to import nothing.
    """

    like: str | None = None
    kind: str = ""
    agreed: bool = False
    ask: Callable[[str], bool] | None = None
    importer: Callable[[Target, Iterable[str]], tuple[Importer, str]] | None = None


def init_repository(how: InitOptions, options: Options) -> Report:
    """Propose a configuration and, from a unit that exists, a kind; writes both when agreed to."""
    root = find_root(options)
    paths, is_all = source_files(root)
    files, has_room = read_texts(root, paths)
    warnings = leftover_warning(root) if options.dry_run else ()
    if not (is_all and has_room):
        warnings += (f"{root} has more files than are searched; not all were read",)
    home = None if how.like is None else find_home(files, _inside(how.like, options))
    if home is not None and PurePosixPath(home).name[0].isdigit():
        raise RequestError(
            f"{home} has a number in front, which does not follow from the name of a new unit",
            code="name_digit",
            hint="name a unit whose file or folder begins with a letter",
        )
    target, changes = _target(root, files, home)
    found: tuple[str, ...] = (f"package   {target.package}", f"tests     {target.tests}")
    report = Report("init", describe(target), dry_run=options.dry_run)
    if home is not None:
        draft, rows, notes = _learned(target, paths, files, home, how)
        warnings += notes
        changes += [
            Change(path, "created", None, data) for path, data in sorted(draft.texts().items())
        ]
        found += (*describe_draft(draft), *rows)
        report.extra["draft"] = {**_draft_json(draft), "proof": list(rows)}
        report.check = (
            ("scaffold", "add", draft.kind, "NAME", "--dry-run", "--target", str(root)),
        )
    report.warnings, report.found = warnings, found
    report.changes = reported_changes(changes)
    return _settled(report, root, changes, how)


def _learned(
    target: Target, paths: list[str], files: Mapping[str, bytes], home: str, how: InitOptions
) -> tuple[Draft, tuple[str, ...], tuple[str, ...]]:
    """Return a proven draft, what the proofs came to, and warnings."""
    family = find_family(files, home, how.kind)
    _check_kind(target, files, family)
    roots = import_roots(files)

    def learn(given: Family, times: int = 1) -> tuple[Draft, Rules]:
        lexicon = Lexicon()
        learned, rules = list[LearnedFile](), Rules()
        for _ in range(times):
            learned, rules = learn_files(given, files, lexicon), learn_rules(given, files, lexicon)
        return Draft(
            given, target.tests, roots, tuple(learned), tuple(rules.rules), tuple(rules.steps)
        ), rules

    # Twice: what is spelled in one file is known from all of them the second time.
    draft, rules = learn(family, times=2)
    notes = list(rules.notes)
    if not family.siblings:
        notes.append(
            f"{home} has no unit beside it that is like it: all of it is taken for the kind's"
        )
    sources = [each.template or "" for each in draft.made if each.role == "source"]
    if draft.made and not any("# YOURS:" in text for text in sources):
        source = draft.made[0]
        why = f"replace what is specific to {family.unit.key}"
        marked = with_mark(source, family.names[family.unit.key], why)
        draft = replace(
            draft, files=tuple(marked if each is source else each for each in draft.files)
        )
    draft, more = prove(target, draft, files)
    rows = [
        each.describe()
        for each in make_again(draft, files, lambda key: learn(family.without(key))[0])
    ]
    if how.importer is not None:
        try:
            run, interpreter = how.importer(target, paths)
        except TargetError as error:
            more += (f"nothing was imported: {error.message}",)
        else:
            imported = import_probe(target, draft, files, run)
            rows += [f"python    {interpreter}", *imported.describe()]
            more += tuple(
                f"the new unit cannot be imported as it is, {module}: {said}"
                for module, said in imported.failed
            )
    return draft, tuple(rows), (*notes, *more)


def find_root(options: Options) -> Path:
    """Return the folder that is to become a target: the value of ``--target``, or one upwards.

    Raises:
        TargetError: ``--target`` is no folder.
    """
    start = (options.folder / (options.target or ".")).resolve()
    if not start.is_dir():
        raise TargetError(
            f"{start} is not a folder",
            code="target_missing",
            hint="give --target an existing folder",
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
    root: Path, files: Mapping[str, bytes], home: str | None
) -> tuple[Target, list[Change]]:
    """Return the target as it is to be, and what has to be written for it."""
    known = target_at(root)
    if known is not None:
        return known, []
    package = _package(files, home)
    tests = next((name for name in ("tests", "test") if _has_folder(files, name)), "tests")
    python = ".venv/bin/python" if (root / ".venv/bin/python").exists() else None
    target = Target(root, "project", package, tests, {}, python)
    before = files.get("pyproject.toml")
    if before is None and (root / "pyproject.toml").exists():
        raise TargetError(
            f"{root / 'pyproject.toml'} is not text that can be added to",
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


def _package(files: Mapping[str, bytes], home: str | None) -> str:
    """Return the package that units go into.

    Raises:
        TargetError: There is none.
    """
    if home is not None:
        return _package_of(files, home)
    found = _packages(files)
    if not found:
        raise TargetError(
            "no Python package was found: no folder with an __init__.py, at the root or in src/",
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


def _package_of(files: Mapping[str, bytes], home: str) -> str:
    """Return the top-level package that a unit is imported from."""
    roots = import_roots(files)
    inside = [path for path in sorted(files) if path == home or path.startswith(f"{home}/")]
    modules = [module_of(path, roots) for path in inside if path.endswith(".py")]
    names = [each.partition(".")[0] for each in modules if "." in each]
    if not names:
        raise TargetError(
            f"{home} is in no package",
            code="target_invalid",
            hint="name a unit in a folder of its like",
        )
    return names[0]


def _project_name(files: Mapping[str, bytes]) -> str:
    try:
        data: dict[str, Any] = tomllib.loads(files["pyproject.toml"].decode("utf-8-sig"))
        return re.sub(r"[-.]", "_", str(data["project"]["name"])).lower()
    except (KeyError, TypeError, ValueError):
        return ""


def _has_folder(files: Mapping[str, bytes], name: str) -> bool:
    return any(path.startswith(f"{name}/") for path in files)


# ---- the kind ------------------------------------------------------------------------------------


def _check_kind(target: Target, files: Mapping[str, bytes], family: Family) -> None:
    """Refuse a kind that is known already, or that is no name for one.

    Raises:
        ConflictError: Its kind is known already.
        RequestError: The kind's name is none.
    """
    home = PurePosixPath(family.unit.home)
    for name, place in target.kinds.items():
        # Units of a known kind are modules beside its registry, or folders beside it.
        is_beside = PurePosixPath(place.registry.file).parent == home.parent
        if name == family.kind and is_beside:
            raise _known(name, f"{home} is a {name}", "scaffold eject " + name)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", family.kind):
        raise RequestError(
            f"{family.kind!r} is not a valid name for a kind",
            code="usage",
            hint="give one with --kind: lower-case letters and dashes",
        )
    taken = catalogue_for(target.root).kind_names()
    if family.kind in taken or f"{OWN_TEMPLATES}/{family.kind}/kind.toml" in files:
        raise _known(family.kind, f"there is a kind {family.kind!r}", "scaffold list")


def _known(kind: str, what: str, look: str) -> ConflictError:
    return ConflictError(
        f"{what}, which is known already: scaffold add {kind} NAME",
        code="kind_known",
        hint=f"`{look}` shows its templates; call a kind of your own otherwise with --kind",
    )


def _draft_json(draft: Draft) -> dict[str, Any]:
    return {
        "kind": draft.kind,
        "example": draft.family.unit.key,
        "siblings": [each.key for each in draft.family.siblings],
        "files": [
            {"path": each.path, "role": each.role, "shared": round(each.kept, 2)}
            for each in draft.files
        ],
        "registry": [
            {"file": rule.entry.file, "line": rule.line, "shape": rule.entry.shape,
             "table": rule.entry.table, "key": rule.entry.key, "value": rule.entry.value}
            for rule in draft.rules
        ],
    }  # fmt: skip


# ---- consent -------------------------------------------------------------------------------------


def _settled(report: Report, root: Path, changes: list[Change], how: InitOptions) -> Report:
    """Return the report of what was written, or of what would be."""
    if not changes:
        report.text = "nothing to do: this repository is already known; --like adds a kind\n"
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

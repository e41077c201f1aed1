"""A project that depends on the training package, and where that package comes from."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement

from scaffold.analysis.files.git import run_git
from scaffold.analysis.project.project import normal_name
from scaffold.errors import ConflictError, RequestError, ScaffoldError, TargetError
from scaffold.report import Report
from scaffold.target.target import (
    existing_folder,
    find_target,
    key_names,
    with_kind_names,
)
from scaffold.templating.answers import complete_answers
from scaffold.templating.manifests import catalogue_for, templates_folder
from scaffold.templating.names import canonical_key
from scaffold.templating.render import render_request
from scaffold.templating.request import Request
from scaffold.templating.spec import Kind, all_answers
from scaffold.transaction.apply import create_folder
from scaffold.units.add import report_plan, take_look
from scaffold.units.context import Options
from scaffold.units.existing import existing_unit, nothing_to_do
from scaffold.units.plan import make_plan

# `    from gymnasium import spaces`; a name that is a variable of the template is none.
IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)\b(?=[ \t.]|$)", re.MULTILINE)

TOP_LEVEL = re.compile(r"^\"?(\w+)(?=[/.]|$)", re.MULTILINE)
"""The first part of each path in a RECORD, folders of metadata apart, or a name alone."""


def training_package() -> str:
    """Return the folder or wheel of areal-lite that came with this tool, or "" for an index."""
    # A checkout has the training package beside this one; an installed tool may have its wheel
    # there.
    checkout = Path(__file__).resolve().parents[2] / "areal"
    if (checkout / "pyproject.toml").is_file():
        return checkout.as_posix()
    wheel = _own_wheel()
    beside = sorted(wheel.parent.glob("areal_lite-*.whl")) if wheel else []
    return beside[-1].as_posix() if beside else ""


def imported_packages() -> set[str]:
    """Return the packages that a project may import, in lower case as keys are.

    They are what the training package requires, its extras too, and what templates import.
    """
    folder = templates_folder()
    table = tomllib.loads((folder.parent / "areal" / "pyproject.toml").read_text("utf-8"))
    project = table["project"]
    extras = [each for rows in project["optional-dependencies"].values() for each in rows]
    required = [*table["build-system"]["requires"], *project["dependencies"], *extras]
    names = {normal_name(Requirement(each).name) for each in required}
    found = {name.replace("-", "_") for name in names}
    # Once it is installed, the other name that a distribution is imported by is known, too, as PIL
    # of Pillow is. `packages_distributions` asks all that is installed: 0.4 s with torch.
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            installed = metadata.distribution(name)
            for file in ("RECORD", "top_level.txt"):  # Debian keeps the second one alone
                rows = installed.read_text(file) or ""
                found |= {each.lower() for each in TOP_LEVEL.findall(rows)}
    for file in folder.rglob("*.py.jinja"):
        found |= {each.lower() for each in IMPORTED.findall(file.read_text("utf-8"))}
    return found


def _own_wheel() -> Path | None:
    """Return the file that this tool was installed from, as pip and uv record it (PEP 610)."""
    try:
        text = metadata.distribution("areal-scaffold").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    url = urlsplit(str(json.loads(text)["url"]) if text else "")
    return Path(url2pathname(unquote(url.path))) if url.scheme == "file" else None


def new_project(
    kind: Kind,
    typed: str,
    styles: Iterable[str],
    given: Mapping[str, Any],
    options: Options,
    *,
    with_git: bool = False,
) -> Report:
    """Make a project of one's own in a new folder, inside ``--target`` or the working folder.

    Raises:
        RequestError: The name is refused, or an answer is.
    """
    catalogue = catalogue_for(None)
    chosen = catalogue.styles(kind, styles)
    reserved = {*kind.reserved, *imported_packages()}
    key = _settled_name(typed, canonical_key(typed, kind.suffixes, reserved), options)
    root = existing_folder(options.folder / (options.target or ".")) / key
    names = key_names(key) | {"kind": kind.name, "style": chosen[0].name, "package": key}
    questions = all_answers(kind, chosen)
    answers = complete_answers(questions, given)
    request = Request(kind, chosen, key, answers, with_kind_names(kind, names))
    target = {"root": str(root), "layout": "project", "package": key}
    report = Report(kind.command, target, dry_run=options.dry_run)
    made = existing_unit(root, request)
    if made is not None:
        if with_git and not options.dry_run:  # the command may have been killed just before it
            report.warnings += _git_init(root)
        return nothing_to_do(report, root, request, made, options)
    _check_free(root)
    # A new folder has no neighbours to take a style from, and nobody to lock out.
    rendered = render_request(request, catalogue.files(kind.name, request.support))
    plan = make_plan(request, rendered, take_look(request, root))
    if not options.dry_run:
        files = ((change.path, change.after) for change in plan.changes)
        create_folder(root, [(path, data) for path, data in files if data is not None])
        report.warnings += _git_init(root) if with_git else _inside_target(root)
    report.check = (("scaffold", "target", "--target", str(root)),)
    report = report_plan(report, plan)
    if not answers["areal_source"] and (found := training_package()):
        # A path of this machine is for the person who reads this, not for files that are shared.
        editable = "" if found.endswith(".whl") else "-e "
        first, *others = report.next
        why = f"{first.why}; here: pip install {editable}{shlex.quote(found)} -e '.[dev]'"
        report.next = (first._replace(why=why), *others)
    return report


def _settled_name(typed: str, key: str, options: Options) -> str:
    """Return the key; one that a person would not expect of the name needs their consent.

    Raises:
        RequestError: Nobody is there to be asked, or they decline.
    """
    is_expected = typed.replace("-", "_") == key
    if is_expected or (options.agree and options.agree(f"{typed!r} names no package; make {key}?")):
        return key
    raise RequestError(
        f"the name {typed!r} cannot be that of a folder and a package",
        code="name_characters",
        hint=f"scaffold new {key}",
    )


def _inside_target(root: Path) -> tuple[str, ...]:
    """Return what to say of a project that another target holds, so that neither is meant."""
    try:
        around = find_target(root.parent).root
    except TargetError as error:
        # Two targets around it are as good a reason to warn as one.
        if error.code != "target_ambiguous":
            return ()
        around = root.parent
    return (
        f"{root} lies inside the target {around}: commands in it want --target {root}, "
        "or make it a repository of its own with git init",
    )


def _git_init(root: Path) -> tuple[str, ...]:
    try:
        done = run_git(root, "init", "-q")
    except ScaffoldError as error:
        return (f"git init failed: {error.message}",)
    said = done.stderr.decode("utf-8", "replace").strip()
    return (f"git init failed: {said}",) if done.returncode else ()


def _check_free(root: Path) -> None:
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        raise ConflictError(f"{root} exists and is not a folder", code="file_exists")
    if root.is_dir() and any(root.iterdir()):
        raise ConflictError(
            f"{root} exists and is not empty",
            code="file_exists",
            hint="choose another name, or another folder with --target",
        )

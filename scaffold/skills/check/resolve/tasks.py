"""Whether the targets, scripts, extras, tests and markers that a runner is given exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaffold.analysis.cli.argument_check import shown
from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.near_names import closest
from scaffold.analysis.project import tasks
from scaffold.analysis.project.project import normal_name
from scaffold.analysis.project.projects import Project
from scaffold.analysis.project.pytest_names import KNOWN_MARKERS
from scaffold.analysis.project.tasks import Tasks
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.references.shell import Asked
from scaffold.skills.check.references.tasks import TEST, Task
from scaffold.skills.check.resolve.folders import find_file, has_left, run_folders
from scaffold.skills.check.resolve.names import test_node
from scaffold.skills.check.resolve.scope import Scope

_LISTS: dict[str, tuple[str, tuple[str, ...], Callable[..., Tasks | None], str]] = {
    "make": ("make-target-missing", tasks.MAKEFILES, tasks.make_tasks, "target"),
    "npm": ("npm-script-missing", ("package.json",), tasks.npm_tasks, "script"),
    "just": ("just-recipe-missing", tasks.JUSTFILES, tasks.just_tasks, "recipe"),
}


def resolve_task(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a word that a runner is given."""
    asked: Asked = reference.data
    task = asked.task
    if task.family == "file":
        word = Word(task.name, task.word.line, task.word.column, task.word.is_sure)
        return find_file(word, asked.line, scope, "path-missing")
    if task.family in ("argument", "maybe"):
        return _argument(asked, scope)
    if task.family == "test":
        return _test(asked, reference.text, scope)
    verdict = _RESOLVERS[task.family](task, asked, scope)
    if verdict.reason == "contradicts" and (asked.line.has_fallback or has_left(asked.line, scope)):
        return Verdict.unknown("it may run in another folder, or may fail", "another namespace")
    return verdict


def _argument(asked: Asked, scope: Scope) -> Verdict:
    """Resolve a file that any command is given: one that was never here may be written by it."""
    verdict = find_file(asked.task.word, asked.line, scope, "path-missing")
    if is_invented(asked.task.name) and verdict.reason not in ("true", "other spelling"):
        return Verdict.unknown("it is a name for others", "placeholder")
    if asked.task.family == "argument" or verdict.asked is None:
        return verdict
    return verdict._replace(asked=verdict.asked._replace(otherwise="open"))


def _listed(task: Task, asked: Asked, scope: Scope) -> Verdict:
    rule, names, read, what = _LISTS[task.family]
    files = scope.files
    paths = [path for name in names for path in files.by_name.get(name, ())]
    paths.sort(key=lambda each: each.count("/"))
    every = [(path, each) for path in paths if (each := read(path, files)) is not None]
    for path, each in every:
        if each.has(task.name):
            return Verdict.holds(f"{path} has the {what} {task.name}", path)
    if task.family == "make" and scope.locate(task.name) is not None:
        return Verdict.holds("a file has this name")
    folders = run_folders(asked.line, scope)
    if folders is None:
        return Verdict.unknown("it runs in a folder of its own", "another namespace")
    here = [(path, each) for path, each in every if path.rpartition("/")[0] in folders]
    if not here or any(each.why_open for _, each in here):
        return Verdict.unknown(f"no file here lists every {what}")
    path, own = here[0]
    known = sorted(own.names)
    message = f"{path} has no {what} {task.name!r}"
    near = closest(task.name, known)
    return Verdict.wrong(f"{path} has {shown(known)}", rule, message, task.name, near)


def _extra(task: Task, asked: Asked, scope: Scope) -> Verdict:
    programs = scope.repository.programs
    base = task.folder.rstrip("/")
    is_named = task.family == "extra" and base not in ("", ".")
    if is_named and not programs.is_own_name(base) and not scope.files.has(base):
        evidence = f"{base} is not one of this repository's projects"
        return Verdict.unknown(evidence, "third party not installed")
    projects = programs.projects.all
    if not is_named:
        # Without a name they are those of the project that the command runs in.
        left = run_folders(asked.line, scope) or [] if asked.line.folders else None
        folders = scope.bases if left is None else left
        own = [each for each in projects if each.path.rpartition("/")[0] in folders]
        projects = own or projects
    return known_extra(
        task.family, task.name, projects, scope, is_uv=asked.line.words[0].text == "uv"
    )


def resolve_extra(reference: Reference, scope: Scope) -> Verdict:
    """Resolve "the `gpu` extra": is there such an extra, or group, of any project here?"""
    family, name = reference.data
    projects = scope.repository.programs.projects.all
    verdict = known_extra(family, name, projects, scope, is_uv=True)
    if verdict.reason != "contradicts":
        return verdict
    # It may be said of another distribution, unless it is the other of the two.
    other = "group" if family == "extra" else "extra"
    is_other = known_extra(other, name, projects, scope, is_uv=True).reason == "true"
    if not is_other:
        return Verdict.unknown("it may be one of another project", "another namespace")
    return verdict._replace(now=f"it is {'a' if other == 'group' else 'an'} {other}", fix=None)


def known_extra(
    family: str, written: str, projects: Sequence[Project], scope: Scope, *, is_uv: bool
) -> Verdict:
    """Return whether some projects have an extra or a dependency group.

    Args:
        family: "extra" or "group".
        written: Its name.
        projects: The projects that it may be of.
        scope: Where it is named.
        is_uv: Whether uv is given it, which has no groups of its own.
    """
    programs = scope.repository.programs
    if not projects:
        return Verdict.unknown("there is no project file")
    name = normal_name(written)
    known: set[str] = set()
    for each in projects:
        own = each.extras if family == "extra" else each.groups
        if own is None:
            return Verdict.unknown("its extras are computed")
        known |= {normal_name(one) for one in own}
    if name in known or (family == "extra" and name in programs.projects.side_extras):
        return Verdict.holds(f"a project file has the {family} {written}", projects[0].path)
    if family == "group" and name in ("main", "all", "default", *([] if is_uv else ["dev"])):
        return Verdict.unknown("it may be a group of the tool's own")
    message = f"there is no {family} {written!r}"
    near = min(projects, key=lambda each: each.path.count("/")).path
    evidence = f"{near} and others have {shown(sorted(known))}"
    rule = "pip-extra-missing" if family == "extra" else "dependency-group-missing"
    return Verdict.wrong(evidence, rule, message, written, closest(written, sorted(known)))


def resolve_marker(reference: Reference, scope: Scope) -> Verdict:
    """Resolve ``pytest.mark.slow``: is it registered, or does any test carry it?"""
    return _marked(str(reference.data), scope)


def _marked(name: str, scope: Scope) -> Verdict:
    names = scope.repository.pytest
    # The cheap answers first: the last two read all tests, and all sources.
    if name in names.in_settings:
        return Verdict.holds(f"{names.in_settings[name]} registers it")
    if name in KNOWN_MARKERS:
        return Verdict.unknown("it comes with pytest or a plugin")
    if name in names.used or name in names.registered:
        return Verdict.holds(f"{names.used.get(name) or names.registered[name]} has it")
    own = {*names.registered, *names.used} - KNOWN_MARKERS
    if not own or names.is_dynamic or name in names.words or names.why_foreign(name):
        return Verdict.unknown("markers may be registered while tests run, or by a plugin")
    message = f"there is no marker {name!r}"
    evidence = f"{len(names.registered)} are registered, and no test has this one"
    near = closest(name, sorted(own))
    return Verdict.wrong(evidence, "marker-missing", message, name, near)


_RESOLVERS: dict[str, Callable[[Task, Asked, Scope], Verdict]] = {
    **dict.fromkeys(_LISTS, _listed),
    "extra": _extra,
    "group": _extra,
    "marker": lambda task, _, scope: _marked(task.name, scope),
}


def _test(asked: Asked, text: str, scope: Scope) -> Verdict:
    found = TEST.match(asked.task.name)
    assert found is not None, "only such words are tests"
    word = asked.task.word
    bare = Word(found["path"], word.line, word.column, raw=found["path"])
    spot = find_file(bare, asked.line, scope, "test-missing")
    if spot.reason != "true":
        return spot
    parts = [each for each in found["node"].split("::") if each]
    return test_node(spot.place, parts, text.partition(" ")[2], scope)

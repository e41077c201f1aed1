"""Whether what a command line runs exists, and takes these commands, options and arguments."""

from __future__ import annotations

import re

from scaffold.analysis.cli.argument_check import Fit, Problem, fit
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.programs import Program
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.references.shell import Run, inputs
from scaffold.skills.check.resolve.folders import find_file, has_left, run_folders
from scaffold.skills.check.resolve.scope import Scope

_SHELL_RUNS_IT = (".sh", ".bash", ".zsh")
_PLAIN_MODULE = lazy_re(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def resolve_command(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a command line: the program exists, can run, and takes the words it is given."""
    run: Run = reference.data
    found = _program(run, scope)
    if isinstance(found, Verdict):
        return found
    call = run.call
    if found is None and (verdict := _of_group(run, scope)):
        return verdict
    if found is None:
        evidence = f"{call.target.text!r} is not a program of this repository"
        return Verdict.unknown(evidence, "third party not installed")
    if found.fault:
        return Verdict.unknown(found.fault)
    place = found.evidence.removeprefix("git lists ")
    if found.command is None or not call.args:
        return Verdict.holds(found.evidence, place)
    result = _fitted(run, found.command)
    for index, problem in result.problems.items():
        if problem.kind == "command-unknown":
            return _problem(problem, index, run)
    if result.unsure and not result.known:
        return Verdict.unknown(next(iter(result.unsure.values())))
    return Verdict.holds(found.evidence, place)


def resolve_option(reference: Reference, scope: Scope) -> Verdict:
    """Resolve an option: does the program have it, and is its value one of the choices?"""
    run: Run = reference.data
    found = _program(run, scope)
    if isinstance(found, Verdict) or found is None:
        return Verdict.unknown("the program is not of this repository", "third party not installed")
    if found.command is None:
        return _of_shell(run, found.evidence.removeprefix("git lists "), scope)
    result = _fitted(run, found.command)
    if run.option in result.problems:
        return _problem(result.problems[run.option], run.option, run)
    if run.option in result.known:
        return Verdict.holds(result.known[run.option])
    return Verdict.unknown(result.unsure.get(run.option) or "it may be another option's value")


def _of_group(run: Run, scope: Scope) -> Verdict | None:
    """Resolve `project sync`: a group of the one program that has it, named without the program.

    Any words may look so: another command of the group must be named beside it.
    """
    name, args, span = run.call.target.text, run.call.args, run.line.span
    if span is None or not args or not inputs(args)[0].is_sure:
        return None
    programs = scope.repository.programs
    consoles = (programs.console(each) for each in programs.projects.scripts)
    commands = [each.command for each in consoles if each is not None and each.command is not None]
    # One program may have several names.
    groups = {each.place: each for one in commands if (each := one.find((name,)))}
    group = next(iter(groups.values())) if len(groups) == 1 else None
    beside = re.findall(rf"`{re.escape(name)} ([\w-]+)", span.block.text)
    if group is None or not group.commands or not set(beside) & group.commands.keys():
        return None
    result = _fitted(run, group)
    for index, problem in result.problems.items():
        if problem.kind == "command-unknown":
            return _problem(problem, index, run)
    place = group.place.partition(":")[0]
    return Verdict.holds(f"{group.place} has it", place) if len(result.path) > 1 else None


def _of_shell(run: Run, path: str, scope: Scope) -> Verdict:
    """Resolve an option of a shell script: is it a word of one that reads its options itself?"""
    text = scope.text(path) or "" if path.endswith(_SHELL_RUNS_IT) else ""
    name = run.call.args[run.option].text.partition("=")[0]
    if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
        return Verdict.holds(f"{path} has it", path)
    # What it hands on is for another program, and `getopts` takes letters.
    return Verdict.unknown(f"what {run.call.target.text} takes cannot be read from its text")


def _program(run: Run, scope: Scope) -> Program | Verdict | None:
    """Return the program that a call runs, or the verdict of one that cannot; None: another's."""
    if run.call.kind in ("script", "interpreted"):
        return _script(run, scope)
    if run.call.kind == "module":
        return _module(run, scope)
    return scope.repository.programs.console(run.call.target.text)


def _fitted(run: Run, command: Command) -> Fit:
    named = command._replace(name=run.call.target.text.rpartition("/")[2])
    return fit(named, inputs(run.call.args))


def _problem(problem: Problem, index: int, run: Run) -> Verdict:
    raw, line = run.call.args[index].raw, run.line.line_of(index + 1)
    given = raw.partition("=")[0] if raw.startswith("-") else raw
    return Verdict.wrong(problem.evidence, problem.kind, problem.message, given, problem.near, line)


def _script(run: Run, scope: Scope) -> Program | Verdict | None:
    call = run.call
    if call.kind == "interpreted" and not re.search(r"[./]", call.target.text):
        return Verdict.unknown("it may be no file")
    found = find_file(call.target, run.line, scope, "script-missing")
    if found.reason != "true":
        return found
    programs, place = scope.repository.programs, found.place
    if place not in scope.files.paths:
        if call.kind == "interpreted" and f"{place}/__main__.py" in scope.files.paths:
            return programs.script(f"{place}/__main__.py")
        return Verdict.unknown("it is a folder")
    return programs.script(place)


def _module(run: Run, scope: Scope) -> Program | Verdict | None:
    dotted, line = run.call.target.text, run.line
    is_plain = _PLAIN_MODULE.fullmatch(dotted) and not is_invented(dotted.replace(".", "/"))
    if not run.call.target.is_sure or not is_plain:
        return Verdict.unknown("the module is a placeholder", "placeholder")
    for base in run_folders(line, scope) or []:
        stem = "/".join([*([base] if base else []), *dotted.split(".")])
        for path in (f"{stem}.py", f"{stem}/__main__.py"):
            if path in scope.files.paths:
                return scope.repository.programs.script(path)
    program = scope.repository.programs.module(dotted)
    if program is None or not program.fault:
        return program
    if line.made or has_left(line, scope):
        return Verdict.unknown("it may be made before, or run in another folder")
    near = program.near if program.near.partition(".")[0] == dotted.partition(".")[0] else ""
    message = f"`python -m {dotted}` has nothing to run"
    places = tuple(f"{dotted.replace('.', '/')}{end}" for end in (".py", "/__main__.py"))
    verdict = Verdict.wrong(program.fault, "module-missing", message, dotted, near, line.line)
    return verdict._replace(reason="absent", asked=Asked(places, otherwise="contradicts"))

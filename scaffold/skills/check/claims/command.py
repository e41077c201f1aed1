"""Command lines: does what they run exist, and does it take these commands and arguments?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.argument_check import Fit, Problem, fit
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.programs import Program
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import inputs, shell_of
from scaffold.skills.check.claims.shell_call import Call, call_of
from scaffold.skills.check.claims.shell_place import find_file, has_left, run_folders
from scaffold.skills.check.claims.shell_task import RUNNERS
from scaffold.skills.check.documents import Document

_SHELL_RUNS_IT = (".sh", ".bash", ".zsh")
_PLAIN_MODULE = lazy_re(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class Found(NamedTuple):
    """What a command line runs in this repository.

    Args:
        program: The program; None where it is none of this repository.
        verdict: Where it is certain already: the verdict.
    """

    program: Program | None
    verdict: Verdict | None = None


def find_commands(document: Document) -> Iterator[Claim]:
    """Yield the command lines of a document that may run something of the repository."""
    for invocation in shell_of(document).invocations:
        call = call_of(invocation)
        if call is None or call.target.text in RUNNERS:
            continue
        if call.kind != "name" or _could_be_command(call):
            yield Claim("command", invocation.text, call.line.line, call.line.columns[0], call)


def _could_be_command(call: Call) -> bool:
    """Return whether inline code that begins with any word looks like a command line."""
    if call.line.span is None:
        return True
    rest = call.args
    return bool(rest) and all(re.fullmatch(r"[\w./:=<>\[\]|,@{}$-]+", each.raw) for each in rest)


def judge_command(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a command line: the program exists, can run, and takes the words it is given."""
    call: Call = claim.data
    found = program_of(call, document, repository)
    if found.verdict is not None:
        return found.verdict
    program = found.program
    if program is None:
        return Verdict.open(f"{call.target.text!r} is no program of this repository")
    if program.fault:
        return _fault(call, program)
    if program.command is None or not call.args:
        return Verdict.holds(program.evidence)
    result = fitted(call, program.command)
    for problem in result.problems:
        if problem.option < 0:
            return problem_verdict(problem, call)
    if result.unsure and not result.known:
        return Verdict.open(next(iter(result.unsure.values())))
    return Verdict.holds(program.evidence)


def program_of(call: Call, document: Document, repository: Repository) -> Found:
    """Return the repository's program that a call runs."""
    if call.kind in ("script", "interpreted"):
        return _script(call, document, repository)
    if call.kind == "module":
        return _module(call, document, repository)
    return _named(call, document, repository)


def fitted(call: Call, command: Command) -> Fit:
    """Fit the words of a call to what a command takes."""
    named = Command(
        call.target.text.rpartition("/")[2],
        command.help,
        command.options,
        command.arguments,
        command.commands,
        command.is_open,
        command.why_open,
        command.place,
        command.abbreviates,
    )
    return fit(named, inputs(call.args), is_whole=call.line.is_whole)


def problem_verdict(problem: Problem, call: Call) -> Verdict:
    """Return the verdict of a word that does not fit, or why it may be meant so."""
    line = call.line
    if line.silence:
        return Verdict.open(line.silence)
    now = f"there is {problem.near}" if problem.near else ""
    fix = None
    if problem.near and problem.index >= 0:
        word = call.args[problem.index]
        before = word.raw.partition("=")[0] if word.raw.startswith("-") else word.raw
        fix = Fix(line.line_of(problem.index + 1), before, problem.near, is_safe=False)
    confidence = "high" if problem.index >= 0 else "medium"
    return Verdict.fails(
        problem.kind, problem.message, problem.evidence, now=now, confidence=confidence, fix=fix
    )


def _script(call: Call, document: Document, repository: Repository) -> Found:
    if call.kind == "interpreted" and not re.search(r"[./]", call.target.text):
        return Found(None, Verdict.open("it may be no file"))
    spot = find_file(call.target, call.line, document, repository, "script-missing")
    if spot.verdict is not None:
        return Found(None, spot.verdict)
    programs = repository.programs
    if spot.path not in repository.files.paths:
        if call.kind == "interpreted" and f"{spot.path}/__main__.py" in repository.files.paths:
            return Found(programs.script(f"{spot.path}/__main__.py"))
        return Found(None, Verdict.open("it is a folder"))
    if call.kind == "script" and (verdict := _not_runnable(call, spot.path, repository)):
        return Found(None, verdict)
    return Found(programs.script(spot.path))


def _not_runnable(call: Call, path: str, repository: Repository) -> Verdict | None:
    """Return the verdict of a file that cannot be run itself; None where it can."""
    programs, text = repository.programs, call.target.text
    if call.line.silence:
        return None
    is_named = text.startswith("./") and (call.args or text.endswith(_SHELL_RUNS_IT))
    if not call.line.is_whole and not is_named:
        return None  # it may be meant as a file, or as what another program is given
    if not programs.is_executable(path):
        if _made_executable(call, path):
            return None
        return Verdict.fails(
            "script-not-executable",
            f"{text!r} has no run bit",
            f"the mode of {path} is 644",
            now=f"`git update-index --chmod=+x {path}` sets it",
        )
    if not programs.has_shebang(path) and not path.endswith(_SHELL_RUNS_IT):
        return Verdict.fails(
            "script-no-shebang",
            f"{text!r} does not say what runs it",
            f"line 1 of {path} does not begin with #!",
        )
    return None


def _made_executable(call: Call, path: str) -> bool:
    """Return whether a command before it sets the run bit."""
    name = path.rpartition("/")[2]
    return any(each.rpartition("/")[2] in (name, "*.sh", "*.py", "*") for each in call.line.allowed)


def _module(call: Call, document: Document, repository: Repository) -> Found:
    dotted = call.target.text
    if not call.target.is_sure or not _PLAIN_MODULE.fullmatch(dotted):
        return Found(None, Verdict.open("the module stands for others"))
    line = call.line
    for base in run_folders(line, document, repository) or []:
        stem = "/".join([*([base] if base else []), *dotted.split(".")])
        for path in (f"{stem}.py", f"{stem}/__main__.py"):
            if path in repository.files.paths:
                return Found(repository.programs.script(path))
    program = repository.programs.module(dotted)
    if program is None or not program.fault:
        return Found(program)
    if line.silence or line.example or line.made:
        return Found(None, Verdict.open(line.silence or line.example or "it may be made before"))
    if has_left(line, document, repository):
        return Found(None, Verdict.open("it may run in another folder"))
    if not document.is_about_here and not repository.programs.is_own_name(dotted.split(".")[0]):
        return Found(None, Verdict.open("it may be of the reader's repository"))
    is_kin = program.near.partition(".")[0] == dotted.partition(".")[0]
    near = program.near if is_kin else ""
    return Found(
        None,
        Verdict.fails(
            "module-missing",
            f"`python -m {dotted}` has nothing to run",
            program.fault,
            now=f"there is {near}" if near else "",
            fix=Fix(line.line, dotted, near, is_safe=False) if near else None,
        ),
    )


def _named(call: Call, document: Document, repository: Repository) -> Found:
    programs = repository.programs
    name = call.target.text
    program = programs.console(name)
    if program is not None:
        return Found(program)
    if not call.runner or not document.is_about_here or not programs.is_own_name(name):
        return Found(None)
    line = call.line
    owners = [each for each in programs.projects.all if each.name]
    if any(each.has_more_scripts for each in owners):
        return Found(None, Verdict.open("its scripts are computed"))
    if line.silence or line.example or has_left(line, document, repository):
        return Found(None, Verdict.open(line.silence or "it may run in another folder"))
    scripts = sorted(programs.projects.scripts)
    return Found(
        None,
        Verdict.fails(
            "console-script-missing",
            f"`{call.runner} run {name}`: the project has no such script",
            f"its scripts: {', '.join(scripts) or 'none'}",
            confidence="medium",
        ),
    )


def _fault(call: Call, program: Program) -> Verdict:
    if call.line.silence:
        return Verdict.open(call.line.silence)
    return Verdict.fails(
        "console-script-missing",
        f"{call.target.text!r} cannot start",
        f"{program.evidence}; {program.fault}",
        now=f"there is {program.near}" if program.near else "",
    )


COMMANDS = Kind("command", find_commands, judge_command)

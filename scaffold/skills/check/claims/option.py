"""Options of command lines, with their values."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.command import fitted, problem_verdict, program_of
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import shell_of
from scaffold.skills.check.claims.shell_call import Call, call_of
from scaffold.skills.check.claims.shell_task import RUNNERS
from scaffold.skills.check.documents import Document

_OPTION = lazy_re(r"--?[A-Za-z][\w-]*")


def find_options(document: Document) -> Iterator[Claim]:
    """Yield the options of command lines that may run something of the repository."""
    for invocation in shell_of(document).invocations:
        call = call_of(invocation)
        if call is None or call.target.text in RUNNERS:
            continue
        for index, word in enumerate(call.args):
            if word.text == "--":
                break
            if _OPTION.match(word.text) and not word.is_quoted:
                column = call.line.columns[index + 1]
                line = call.line.line_of(index + 1)
                yield Claim("option", word.raw, line, column, (call, index))


def judge_option(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge an option: does the program have it, and is its value one of the choices?"""
    call: Call
    call, index = claim.data
    found = program_of(call, document, repository)
    if found.program is None:
        return Verdict.open("the program is none of this repository, or is missing")
    command = found.program.command
    if command is None:
        return Verdict.open(f"what {call.target.text} takes cannot be read from its text")
    result = fitted(call, command)
    for problem in result.problems:
        if problem.option == index:
            return problem_verdict(problem, call)
    if index in result.known:
        return Verdict.holds(result.known[index])
    return Verdict.open(result.unsure.get(index) or "it may be the value of another option")


OPTIONS = Kind("option", find_options, judge_option)

"""Services that ``docker compose`` is given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import Invocation, shell_of
from scaffold.skills.check.claims.shell_place import has_left
from scaffold.skills.check.context import is_placeholder
from scaffold.skills.check.documents import Document

_NAME = lazy_re(r"[a-zA-Z0-9][\w.-]*")
# The commands that take services: those that take one, with a command line behind it, and others.
_ONE = frozenset({"run", "exec"})
_MANY = frozenset(
    {
        "up",
        "logs",
        "build",
        "restart",
        "stop",
        "start",
        "pull",
        "rm",
        "kill",
        "top",
        "create",
        "pause",
    }
)
_WITH_VALUE = frozenset(
    {"-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory"}
    | {"-e", "--env", "-v", "--volume", "--publish", "-u", "--user", "-w", "--workdir", "--name"}
    | {"--entrypoint", "-l", "--label", "--index", "--scale", "-t", "--timeout", "--wait-timeout"}
    | {"--exit-code-from", "--attach", "--no-attach", "-n", "--tail", "--since", "--until", "-m"}
    | {
        "--build-arg",
        "--memory",
        "--progress",
        "--ssh",
        "--builder",
        "-s",
        "--signal",
        "--parallel",
    }
    | {"--ansi", "--cap-add", "--cap-drop", "--env-from-file", "--pull"}
)
_SWITCHES = frozenset({"-f", "-t"})  # `logs -f`, `exec -t`: behind the command they take no value


class Asked(NamedTuple):
    """One service that a command line names.

    Args:
        name: The service.
        line: The command line.
        files: The compose files that it names.
    """

    name: str
    line: Invocation
    files: tuple[str, ...]


def find_services(document: Document) -> Iterator[Claim]:
    """Yield the services that the command lines of a document about its repository name."""
    if not document.is_about_here:
        return
    for line in shell_of(document).invocations:
        words = _behind_compose(line.words)
        if not words:
            continue
        files, rest = _options(words)
        for word in _services(rest):
            index = line.words.index(word)
            asked = Asked(word.text, line, files)
            at, column = line.line_of(index), line.columns[index]
            yield Claim("service", f"docker compose {word.text}", at, column, asked)


def _behind_compose(words: Sequence[Word]) -> Sequence[Word]:
    texts = [word.text for word in words[:3]]
    if texts[:1] == ["sudo"]:
        words, texts = words[1:], texts[1:]
    if texts[:1] == ["docker-compose"]:
        return words[1:]
    return words[2:] if texts[:2] in (["docker", "compose"], ["podman", "compose"]) else ()


def _options(words: Sequence[Word]) -> tuple[tuple[str, ...], Sequence[Word]]:
    """Return the files that the options in front name, and the words from the command on."""
    files: list[str] = []
    while words and words[0].text.startswith("-"):
        name, is_set, value = words[0].text.partition("=")
        takes = not is_set and name in _WITH_VALUE and len(words) > 1
        if name in ("-f", "--file"):
            files.append(value if is_set else words[1].text if takes else "")
        words = words[2:] if takes else words[1:]
    return tuple(files), words


def _services(words: Sequence[Word]) -> Iterator[Word]:
    command, words = (words[0].text if words else ""), words[1:]
    if command not in _ONE | _MANY:
        return
    while words:
        name, is_set, _ = words[0].text.partition("=")
        if name.startswith("-"):
            takes = not is_set and name in _WITH_VALUE and not (command in _MANY and name == "-f")
            takes = takes and not (command == "exec" and name in _SWITCHES)
            words = words[2:] if takes else words[1:]
            continue
        if not words[0].is_sure or is_placeholder(words[0].text):
            return
        if _NAME.fullmatch(words[0].text):
            yield words[0]
        if command in _ONE:
            return
        words = words[1:]


def judge_service(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a service: does a compose file define it?"""
    name, line, files = claim.data
    services = repository.services
    if name in services.by_name:
        return Verdict.holds(f"{services.by_name[name]} defines it")
    if not services.by_name:
        return Verdict.open("the repository has no compose file")
    if services.why_open:
        return Verdict.open(services.why_open)
    if any(os.path.normpath(each) not in services.by_file for each in files):
        return Verdict.open("it names a compose file that is not one of the repository")
    if reason := line.silence or line.example:
        return Verdict.open(reason)
    if has_left(line, document, repository):
        return Verdict.open("it may run in another folder")
    near = get_close_matches(name, sorted(services.by_name), n=1, cutoff=0.7)
    return Verdict.fails(
        "compose-service-missing",
        f"no compose file has the service {name!r}",
        f"the services are {', '.join(sorted(services.by_name))}",
        now=f"there is {near[0]}" if near else "",
        confidence="low" if line.is_doubtful else "high",
        fix=Fix(claim.line, name, near[0], is_safe=False) if near else None,
    )


SERVICES = Kind("service", find_services, judge_service)

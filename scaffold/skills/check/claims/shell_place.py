"""Where the files of a command line lie, from the folder that it runs in."""

from __future__ import annotations

import os
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Confidence
from scaffold.skills.check.claim import Verdict
from scaffold.skills.check.claims.made import WHY, is_made_by
from scaffold.skills.check.claims.places import bases, locate, missing
from scaffold.skills.check.claims.shell import Invocation, Word
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document

_SKILL = lazy_re(
    r"^(?:\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|SKILL_PATH|SKILL_ROOT)\}?|\{base_?[dD]ir\}"
    r"|<(?:path[-_ ]to[-_ ])?(?:this[-_ ])?skill(?:[-_ ](?:dir|path|folder|root))?>)/"
)
_PLUGIN = lazy_re(r"^\$\{?CLAUDE_PLUGIN_ROOT\}?/")
_ROOT = lazy_re(
    r"^(?:\$\{?(?:CLAUDE_PROJECT_DIR|REPO_ROOT|PROJECT_ROOT|ROOT_DIR|GITHUB_WORKSPACE|PWD)\}?"
    r"|\$\(git rev-parse --show-toplevel\)|<repo(?:[-_ ]root)?>)/"
)
_INSTALLED = lazy_re(
    r"^(?:~|\$HOME|\$\{HOME\}|\.)?/?\.(?:claude|codex|agents|opencode|cursor)/skills/"
    r"(?P<name>[\w-]+)/(?P<rest>.+)$"
)
# `tests/test_my_thing.py` is a name to be replaced.
_MINE = lazy_re(r"(?:^|[/_-])(?:my|your|some)(?=[_-])")


class Spot(NamedTuple):
    """What a word names among the files.

    Args:
        path: The file or folder, or "".
        verdict: Where there is none: the verdict of it.
    """

    path: str
    verdict: Verdict | None = None


def find_file(
    word: Word, line: Invocation, document: Document, repository: Repository, rule: str
) -> Spot:
    """Find the file that a word of a command line names.

    Args:
        word: The word.
        line: The command line.
        document: Where it stands.
        repository: The repository.
        rule: The rule that a missing file breaks.
    """
    text = word.text.removeprefix("./").removeprefix("@")
    if anchored := _anchored(text, document, repository):
        folder, rest = anchored
        return _at(folder, rest, word, line, repository, rule, document)
    if not word.is_sure or is_placeholder(text) or text.startswith(("~", "/", "-")) or not text:
        return Spot("", Verdict.open("the path stands for others, or lies outside"))
    place = _from_folders(text, line, document, repository)
    if place is None and _MINE.search(text):
        return Spot("", Verdict.open("the name is to be replaced"))
    if place is not None:
        return Spot(place)
    return Spot("", _missing(text, word, line, document, repository, rule))


def _anchored(text: str, document: Document, repository: Repository) -> tuple[str, str] | None:
    """Return the folder that a variable or an installed skill's path means, and the rest."""
    folder = document.folder
    if found := _SKILL.match(text):
        return folder, text[found.end() :]
    if found := _ROOT.match(text):
        return "", text[found.end() :]
    if found := _PLUGIN.match(text):
        return _plugin(document, repository), text[found.end() :]
    if (found := _INSTALLED.match(text)) and not repository.files.has(text):
        skills = [
            path.rpartition("/")[0]
            for path in repository.files.by_name.get("SKILL.md", ())
            if path.rpartition("/")[0].rpartition("/")[2] == found["name"]
        ]
        own = [each for each in skills if each == folder] or skills
        return (own[0], found["rest"]) if len(own) == 1 else None
    return None


def _plugin(document: Document, repository: Repository) -> str:
    """Return the folder of the plugin that a document belongs to, or the root."""
    folder = document.folder
    while folder:
        if f"{folder}/.claude-plugin/plugin.json" in repository.files.paths:
            return folder
        folder = folder.rpartition("/")[0]
    return ""


def _at(
    folder: str,
    rest: str,
    word: Word,
    line: Invocation,
    repository: Repository,
    rule: str,
    document: Document,
) -> Spot:
    path = os.path.normpath(f"{folder}/{rest}" if folder else rest)
    if repository.files.has(path):
        return Spot(path)
    if is_placeholder(rest) or "$" in rest:
        return Spot("", Verdict.open("the path stands for others"))
    if reason := _why_silent(rest, word, line, document):
        return Spot("", Verdict.open(reason))
    if repository.files.is_ignored(path):
        return Spot("", Verdict.open("git ignores it: it is made, not kept"))
    message = f"{word.text!r} does not exist"
    evidence = f"there is no {path}"
    near = repository.files.by_name.get(path.rpartition("/")[2], [])
    now = f"there is {near[0]}" if len(near) == 1 else ""
    return Spot("", Verdict.fails(rule, message, evidence, now=now, confidence=_confidence(line)))


def _confidence(line: Invocation) -> Confidence:
    return "low" if line.is_doubtful else "high"


def run_folders(line: Invocation, document: Document, repository: Repository) -> list[str] | None:
    """Return the folders a command line may run in; None where that is not in this repository."""
    starts = bases(document, repository)
    for step in line.folders:
        if step in ("?", "-") or step.startswith(("/", "~", "$", "..")):
            return None
        inner = [os.path.normpath(f"{base}/{step}" if base else step) for base in starts]
        there = [each for each in inner if repository.files.has(each)]
        if not there and step.strip("/") == repository.root.name:
            there = [""]
        if not there:
            return None
        starts = ["" if each == "." else each for each in there]
    return starts


def has_left(line: Invocation, document: Document, repository: Repository) -> bool:
    """Return whether earlier blocks of a document, or this one, may have left the repository."""
    if run_folders(line, document, repository) is None:
        return True
    return any(
        step in ("?", "-")
        or step.startswith(("/", "~", "$"))
        or (not step.startswith("..") and not _is_folder(step, document, repository))
        for step in line.left
    )


def _is_folder(step: str, document: Document, repository: Repository) -> bool:
    clean = step.strip("/")
    if is_placeholder(step):
        return False
    if clean in ("", ".", repository.root.name) or locate(clean, document, repository):
        return True
    return any(each.endswith(f"/{clean}") for each in repository.files.folders)


def _from_folders(
    text: str, line: Invocation, document: Document, repository: Repository
) -> str | None:
    for base in run_folders(line, document, repository) or []:
        path = os.path.normpath(f"{base}/{text}" if base else text)
        if not path.startswith("..") and repository.files.has(path):
            return path
    place = locate(text, document, repository)
    return None if place is None else place.path


def _missing(
    text: str, word: Word, line: Invocation, document: Document, repository: Repository, rule: str
) -> Verdict:
    if reason := _why_silent(text, word, line, document):
        return Verdict.open(reason)
    if has_left(line, document, repository) or text.startswith(".."):
        return Verdict.open("it may run in another folder")
    if "/" not in text.strip("/"):
        return Verdict.open("a bare file name may be that of any folder")
    if line.folders:
        text = "/".join([*line.folders, text])
    verdict = missing(os.path.normpath(text), document, repository)
    if verdict.state != "false" or verdict.rule != "path-missing":
        return verdict
    if is_made_by(os.path.normpath(text), document, repository):
        return Verdict.open(WHY)
    message = f"{word.text!r} does not exist"
    return verdict._replace(rule=rule, message=message, confidence=_confidence(line))


def _why_silent(text: str, word: Word, line: Invocation, document: Document) -> str:
    """Return why a missing file is no fault: the text makes it, shows it or does not mean it."""
    if line.silence or line.example:
        return line.silence or line.example
    plain = os.path.normpath(text)
    if any(plain == each or plain.startswith(f"{each}/") for each in line.made if each):
        return "a command before it writes it"
    name = plain.rpartition("/")[2]
    for span in document.markdown.codes:
        if span.text.removeprefix("./").endswith(name) and (reason := silence(span)):
            return reason
    for fence in document.markdown.fences:
        first = fence.text.split("\n", 1)[0]
        if name in fence.info or (name in first and first.lstrip().startswith(("#", "//", "<!--"))):
            return "its content stands in the text"
    return ""

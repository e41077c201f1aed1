"""Where the files of a command line lie, from the folder that it runs in."""

from __future__ import annotations

import os

from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.files.files import parents
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.reference import Verdict
from scaffold.skills.check.references.placeholders import is_placeholder
from scaffold.skills.check.references.shell import Invocation
from scaffold.skills.check.resolve.paths import missing
from scaffold.skills.check.resolve.scope import Scope

_SKILL = lazy_re(
    r"^(?:\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|SKILL_PATH|SKILL_ROOT)\}?|\{base_?[dD]ir\}"
    r"|<(?:path[-_ ]to[-_ ])?(?:this[-_ ])?skill(?:[-_ ](?:dir|path|folder|root))?>)/"
)
_ROOT = lazy_re(
    r"^(?:\$\{?(?:CLAUDE_PROJECT_DIR|REPO_ROOT|PROJECT_ROOT|ROOT_DIR|GITHUB_WORKSPACE|PWD)\}?"
    r"|\$\(git rev-parse --show-toplevel\)|<repo(?:[-_ ]root)?>)/"
)
_INSTALLED = lazy_re(
    r"^(?:~|\$HOME|\$\{HOME\}|\.)?/?\.(?:claude|codex|agents|opencode|cursor)/skills/"
    r"(?P<name>[\w-]+)/(?P<rest>.+)$"
)


def find_file(word: Word, line: Invocation, scope: Scope, rule: str) -> Verdict:
    """Return the verdict of a file that a word of a command line names; its place where it is.

    Args:
        word: The word.
        line: The command line.
        scope: Where it is.
        rule: The rule that a missing file breaks.
    """
    text = word.text.removeprefix("./").removeprefix("@")
    if anchored := _anchored(text, scope):
        return _at(*anchored, word, line, scope, rule)
    if not word.is_sure or is_placeholder(text) or text.startswith(("~", "/", "-")) or not text:
        return Verdict.unknown(
            "the path is a placeholder, or is outside the repository", "placeholder"
        )
    folders = run_folders(line, scope)
    for base in folders or []:
        path = os.path.normpath(f"{base}/{text}" if base else text).replace(os.sep, "/")
        if not path.startswith("..") and scope.files.has(path):
            return Verdict.holds(f"git lists {path}", path)
    if (place := scope.locate(text)) is not None:
        return Verdict.holds(f"git lists {place}", place)
    if is_made(text, line):
        return Verdict.unknown("a command before it writes it", "generated")
    if folders is None or has_left(line, scope) or text.startswith(".."):
        return Verdict.unknown("it may run in another folder", "another namespace")
    if line.folders:
        text = "/".join([*line.folders, text])
    verdict = missing(os.path.normpath(text), rule, scope, before=word.raw)
    return verdict._replace(message=verdict.message.replace(repr(text), repr(word.text), 1))


def is_made(text: str, line: Invocation) -> bool:
    """Return whether a command before a command line writes a file."""
    plain = os.path.normpath(text)
    return plain in line.made or any(part in line.made for part in parents(plain))


def _anchored(text: str, scope: Scope) -> tuple[str, str] | None:
    """Return the folder that a variable or an installed skill's path means, and the rest."""
    folder = scope.document.folder
    if found := _SKILL.match(text):
        return folder, text[found.end() :]
    if found := _ROOT.match(text):
        return "", text[found.end() :]
    if (found := _INSTALLED.match(text)) and not scope.files.has(text):
        skills = [
            path.rpartition("/")[0]
            for path in scope.files.by_name.get("SKILL.md", ())
            if path.rpartition("/")[0].rpartition("/")[2] == found["name"]
        ]
        own = [each for each in skills if each == folder] or skills
        return (own[0], found["rest"]) if len(own) == 1 else None
    return None


def _at(folder: str, rest: str, word: Word, line: Invocation, scope: Scope, rule: str) -> Verdict:
    path = os.path.normpath(f"{folder}/{rest}" if folder else rest)
    if scope.files.has(path):
        return Verdict.holds(f"git lists {path}", path)
    if is_placeholder(rest) or is_made(rest, line):
        return Verdict.unknown("the path is a placeholder, or is created before", "placeholder")
    verdict = missing(path, rule, scope, before=word.raw)
    if verdict.reason == "absent" and verdict.asked is not None:
        # The folder is named, and so nothing else can be meant.
        verdict = verdict._replace(asked=verdict.asked._replace(otherwise="contradicts"))
    return verdict._replace(message=f"{word.text!r} does not exist")


def run_folders(line: Invocation, scope: Scope) -> list[str] | None:
    """Return the folders a command line may run in; None where that is not in this repository."""
    files = scope.files
    starts = list(scope.wider_bases)
    for step in line.folders:
        if step in ("?", "-") or step.startswith(("/", "~", "$", "..")):
            return None
        inner = [os.path.normpath(f"{base}/{step}" if base else step) for base in starts]
        there = [each for each in inner if files.has(each)]
        if not there and step.strip("/").lower() in scope.repository.own_names:
            there = [""]
        if not there:
            return None
        starts = ["" if each == "." else each for each in there]
    return starts


def has_left(line: Invocation, scope: Scope) -> bool:
    """Return whether earlier blocks of a document, or this one, may have left the repository."""
    if run_folders(line, scope) is None:
        return True
    return any(
        step in ("?", "-")
        or step.startswith(("/", "~", "$"))
        or (not step.startswith("..") and not _is_folder(step, scope))
        for step in line.left
    )


def _is_folder(step: str, scope: Scope) -> bool:
    clean = step.strip("/")
    if is_placeholder(step):
        return False
    is_root = clean in ("", ".") or clean.lower() in scope.repository.own_names
    return is_root or scope.locate(clean) is not None

"""What blocks of a text write out: the target, option or test that the reader is to add."""

from __future__ import annotations

import re

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.documents import Document

# What a block of a few lines adds to a file. The message of each rule quotes what is missing.
_ADDED = frozenset(
    {"choice-unknown", "command-unknown", "compose-service-missing", "console-script-missing"}
    | {"dependency-group-missing", "fixture-missing", "just-recipe-missing"}
    | {"make-target-missing", "marker-missing", "npm-script-missing", "option-unknown"}
    | {"pip-extra-missing", "task-missing", "test-missing", "workflow-job-missing"}
)
_QUOTED = lazy_re(r"'([^']+)'")
# A command line uses what there is; it defines nothing.
_USERS = frozenset(
    {"", "bash", "console", "ksh", "powershell", "sh", "shell", "shell-session", "text", "txt"}
    | {"terminal", "zsh"}
)


def unless_written(claim: Claim, verdict: Verdict, document: Document) -> Verdict:
    """Return a verdict, or leave the claim open where the text writes out what is missing.

    Args:
        claim: The claim.
        verdict: What was judged of it.
        document: Where it stands.
    """
    found = _QUOTED.search(verdict.message) if verdict.rule in _ADDED else None
    if found is None or not _is_written(found[1].rpartition("::")[2], claim.line, document):
        return verdict
    return Verdict.open("a block of the text writes it out")


def _is_written(word: str, line: int, document: Document) -> bool:
    """Return whether a block that does not hold a line itself defines a word."""
    blocks = [
        each.text
        for each in document.markdown.fences
        if (each.info.split() or [""])[0].lower() not in _USERS
        and not each.line <= line <= each.line + each.text.count("\n")
    ]
    if not any(_stem(word) in text.replace("-", "_") for text in blocks):
        return False
    defined = _definition(word)
    return any(defined.search(text) for text in blocks)


def _stem(word: str) -> str:
    return word.replace("-", "_")


def _definition(word: str) -> re.Pattern[str]:
    name, function = re.escape(word), re.escape(_stem(word))
    return re.compile(
        rf"^[+ \t]*(?:- )?[\"']?{name}[\"']?[ \t]*[:=](?!=)|[\"'`]{name}[\"'`:,(]"
        rf"|\b(?:def|class|fn|func|function)[ \t]+{function}\b",
        re.MULTILINE,
    )

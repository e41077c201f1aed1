"""Skills, slash commands and subagents that a text calls for by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Span

_NAME = lazy_re(r"(?P<lead>[/$@]?)(?P<name>[a-z][a-z0-9]*(?:[-_:][a-z0-9]+)*)(?:\s+[<\[$].*)?")
_KIND = r"(?P<kind>skill|sub-?agent|agent|(?:slash )?command)"
_BEHIND = lazy_re(rf"^\*{{0,2}}\s+(?:custom\s+)?{_KIND}\b(?!s)", re.IGNORECASE)
_AHEAD = lazy_re(rf"\b{_KIND}s?:?\s+(?:named\s+|called\s+)?\*{{0,2}}$", re.IGNORECASE)
_TYPE = lazy_re(r"subagent_type\s*[:=]\s*[\"']?(?P<name>[a-z][\w:-]*)[\"']?")
# What clients bring themselves; a repository's own name may be close to one of them.
_BUILT_IN = frozenset(
    {"general-purpose", "explore", "plan", "build", "general", "statusline-setup", "worker"}
    | {"default", "code-review", "code-reviewer", "review", "security-review", "simplify", "init"}
    | {"clear", "compact", "config", "cost", "doctor", "help", "login", "logout", "memory", "mcp"}
    | {"model", "permissions", "pr-comments", "status", "agents", "skills", "hooks", "plugin"}
    | {"plugins", "add-dir", "bug", "vim", "ide", "resume", "rewind", "export", "context", "usage"}
    | {"batch", "debug", "loop", "skill-creator", "commit", "approvals", "new", "undo", "diff"}
    | {"mention", "quit", "exit", "feedback", "connect", "share", "models", "details", "editor"}
)
# With fewer of its own, a repository's texts mostly call for those of others.
_FEWEST = 3
_CLOSE = 0.8


def find_called_upon(document: Document) -> Iterator[Claim]:
    """Yield the names that a text calls a skill, a command or a subagent."""
    for span in document.markdown.codes:
        kind, name = _called(span)
        if name and not is_placeholder(name):
            data = (kind, name, silence(span) or "")
            yield Claim("called upon", span.text, span.line, span.column, data)


def _called(span: Span) -> tuple[str, str]:
    """Return what a span is called, and its name; two empty texts where it is called nothing."""
    if found := _TYPE.fullmatch(span.text):
        return "agent", found["name"]
    found = _NAME.fullmatch(span.text)
    if found is None:
        return "", ""
    place = _BEHIND.match(span.after) or _AHEAD.search(span.before[-160:])
    if place is None:
        return "", ""
    kind = "agent" if "agent" in place["kind"].lower() else "skill"
    if "command" in place["kind"].lower() and found["lead"] != "/":
        return "", ""  # a command of a shell
    return kind, found["name"]


def judge_called_upon(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a name: is it one of the repository's, or only nearly one?"""
    kind, name, silent = claim.data
    short = str(name).rpartition(":")[2]
    agents, skills = repository.agent_names, repository.skill_names | repository.command_names
    if short in agents | skills or name in agents | skills:
        return Verdict.holds(f"the repository has {short}")
    own = agents if kind == "agent" else skills
    if short in _BUILT_IN or ":" in name:
        return Verdict.open("a client or a plugin may bring it")
    if len(own) < _FEWEST:
        return Verdict.open(f"the repository has only {len(own)} of its own")
    near = get_close_matches(short, sorted(own), n=1, cutoff=_CLOSE)
    if not near:
        return Verdict.open("it may be installed from elsewhere")
    if silent:
        return Verdict.open(silent)
    what = "subagent" if kind == "agent" else "skill or command"
    return Verdict.fails(
        f"{kind}-unknown",
        f"there is no {what} {short!r}",
        f"the repository has {len(own)}, and none of this name",
        now=f"there is {near[0]!r}",
        fix=Fix(claim.line, claim.text, claim.text.replace(short, near[0]), is_safe=False),
    )


CALLED_UPON = Kind("called upon", find_called_upon, judge_called_upon)

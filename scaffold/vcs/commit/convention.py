"""The convention of a repository's commit messages: what it writes down and what its history keeps.

A rule of form that more than a tenth of the newest messages break is not the repository's.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.git import git_output
from scaffold.vcs.commit.conventional import (
    DEFAULT_RULES,
    HEADER_RULES,
    MAX_SUBJECT,
    PROBLEMS,
    TYPES,
    Rules,
    check_message,
    read_header,
    subject_length,
)
from scaffold.vcs.commit.settings import CommitSettings
from scaffold.vcs.commit.written import page_that_asks, written_rules

DEPTH = 300
"""The newest messages that are looked at; merges and those of bots are not among them."""

ENOUGH = 20
"""With fewer messages a history shows no form."""

KEPT = 0.9
"""The share of messages that keep a rule of the repository."""

FITS = 0.98
"""The share of first lines that are no longer than a limit that no file sets."""

# Faults of a draft or of bytes are none of form: a history that has them has no convention of them.
_NEVER_UNASKED = frozenset({"draft", "empty", "encoding"})


class Convention(NamedTuple):
    """What a repository asks of its messages, and how that is known."""

    rules: Rules
    evidence: tuple[str, ...]
    examples: tuple[str, ...] = ()
    """Its newest subjects."""


def learn_convention(root: Path, settings: CommitSettings, start: str = "HEAD") -> Convention:
    """Return the convention of a repository.

    The settings of this tool come first, then those of commitlint and commitizen, then the history
    before a commit, then a page that asks for Conventional Commits. Without any of them, messages
    are Conventional Commits.
    """
    messages = _messages(root, start)
    examples = tuple(each.partition("\n")[0] for each in messages[:3])
    if settings.is_set:
        return Convention(settings.rules, ("set in [tool.scaffold.commits]",), examples)
    written = written_rules(root)
    page = None if written else page_that_asks(root)
    asked = f"{page} asks for Conventional Commits"
    if len(messages) < ENOUGH:
        rules = written.rules if written else DEFAULT_RULES
        where = written.path if written else asked if page else "the default: Conventional Commits"
        return Convention(rules, (where,), examples)
    headers = [(each, read_header(each.partition("\n")[0])) for each in messages]
    # A word in capitals before a colon is a label, such as the name of a product.
    used = Counter(h.type for each, h in headers if h is not None and each.startswith(h.type))
    count = f"{used.total()} of the newest {len(messages)} subjects are Conventional Commits"
    if written:
        rules, evidence = written.rules, [written.path]
    else:
        # A word of the history is a type of the repository, unless it is a slip.
        own = (word for word, times in used.most_common() if times > 1)
        limit, told = _longest(messages)
        rules = Rules(tuple(dict.fromkeys((*TYPES, *own))), max_subject=limit)
        evidence = [count, *told]
        if page:
            evidence.append(asked)
        # A page and half of the history are as good as nearly all of it.
        if used.total() < (0.5 if page else KEPT) * len(messages):
            rules = rules._replace(is_conventional=False)
            evidence.append("so the form is not asked for")
    # Areas of the code may stand where a type does: a history full of new ones has no list of them.
    asked_always = HEADER_RULES if written else HEADER_RULES - {"type"}
    return _kept(rules, messages, evidence, examples, _NEVER_UNASKED | asked_always)


def _longest(messages: Sequence[str]) -> tuple[int, list[str]]:
    """Return the longest first line that a history keeps to, with the evidence for it."""
    lengths = sorted(subject_length(each.partition("\n")[0]) for each in messages)
    limit = lengths[math.ceil(FITS * len(lengths)) - 1]
    # Where many are longer than usual, length is no concern of the repository.
    if limit <= MAX_SUBJECT or lengths[int(KEPT * len(lengths))] > MAX_SUBJECT:
        return MAX_SUBJECT, []
    count = bisect_right(lengths, limit)
    return limit, [f"{count} of {len(lengths)} have at most {limit} characters"]


def _kept(
    rules: Rules,
    messages: Sequence[str],
    evidence: list[str],
    examples: tuple[str, ...],
    asked_always: frozenset[str],
) -> Convention:
    """Leave out the rules that the history does not keep, but for those that are asked always."""
    broken = Counter(
        rule
        for message in messages
        for rule in {each.rule for each in check_message(message, None, rules)}
    )
    limit = (1 - KEPT) * len(messages)
    unasked = {rule for rule in PROBLEMS if broken[rule] > limit}
    unasked -= asked_always
    if unasked:
        counts = ", ".join(f"{rule} ({broken[rule]} break it)" for rule in sorted(unasked))
        evidence = [*evidence, f"not asked for: {counts}"]
    rules = rules._replace(unasked=rules.unasked | unasked)
    return Convention(rules, tuple(evidence), examples)


def _messages(root: Path, start: str) -> list[str]:
    """Return the newest messages that people wrote, comments and merges apart."""
    options = ("--no-merges", f"--max-count={DEPTH}", "-z", "--format=%an%n%B")
    output = git_output(root, "log", *options, start, "--") or b""
    rows = (each.partition("\n") for each in output.decode("utf-8", "replace").split("\0"))
    return [message.strip() for name, _, message in rows if not name.endswith("[bot]") and message]

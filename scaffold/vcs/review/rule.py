"""A rule of the review: when it matches, its risk, why, and who should look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Risk = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW"]
RISKS: tuple[Risk, ...] = ("CRITICAL", "HIGH", "MEDIUM", "LOW")

Within = Literal["code", "text", "all"]
"""Where a pattern is sought: code alone, code with strings, or comments too."""

SYMBOL_CHANGES = ("exported-removed", "exported-broken", "public-removed", "public-broken")
DEPENDENCY_CHANGES = ("added", "removed", "changed")
MODES = ("executable", "link", "submodule")
FACTS = ("call-broken", "name-gone", "syntax-broken", "untested")


@dataclass(frozen=True)
class When:
    """The conditions of a rule; all that are given have to hold.

    Args:
        paths: Globs, one of which the file's path fits.
        not_paths: Globs, none of which it fits.
        roles: The file's role is one of these; see roles.toml.
        status: What happened to the file is one of git's letters here.
        added: Patterns, one of which an added line has that was not merely moved.
        removed: Patterns, one of which a removed line has that was not merely moved.
        unless: Patterns; a line that has one of them too does not count.
        within: Where ``added`` and ``removed`` are sought.
        inside: Patterns for the name of the definition around a line that counts.
        imports: Modules that the file imports now and did not before.
        file_imports: Modules, one of which the file imports.
        symbols: Changes of definitions, of SYMBOL_CHANGES.
        dependencies: Changes of dependencies, of DEPENDENCY_CHANGES.
        modes: What the file's mode became, of MODES.
        binary: Whether it has to be binary.
        min_added: The fewest added lines.
        min_removed: The fewest removed lines.
        net: Whether more has to go than comes: what ``removed`` finds counts against what the same
            patterns find among the added lines of the whole change.
        facts: What was found out about the change as a whole, of FACTS; of the other conditions,
            the globs alone are asked then.
    """

    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    added: tuple[re.Pattern[str], ...] = ()
    removed: tuple[re.Pattern[str], ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()
    within: Within = "code"
    inside: tuple[re.Pattern[str], ...] = ()
    imports: tuple[str, ...] = ()
    file_imports: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    binary: bool | None = None
    min_added: int = 0
    min_removed: int = 0
    net: bool = False
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One rule.

    Args:
        id: Its name, in words with hyphens.
        domain: What kind of thing it is about: security, api, ...
        signal: What it reports, in one sentence without a full stop.
        risk: How grave that is.
        why: Why it matters.
        failures: What typically goes wrong.
        passes: The passes of the review, any one of which looks at it.
        when: When it matches.
        origin: The file that defines it.
        hides: Whether what it finds is a secret, of which no finding shows more than the beginning.
    """

    id: str
    domain: str
    signal: str
    risk: Risk
    why: str
    failures: tuple[str, ...]
    passes: tuple[str, ...]
    when: When
    origin: str = ""
    hides: bool = False


@dataclass(frozen=True)
class Pass:
    """One reading of a change, with one question in mind.

    Args:
        id: Its name.
        title: What it is called in the report.
        brief: The instructions of whoever does it.
        words: Words by which a subagent for it is known, in its name or description.
        roles: The roles of files that want it where no rule matches.
    """

    id: str
    title: str
    brief: str
    words: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleSet:
    """The rules of one file.

    Args:
        name: What it is called.
        active_imports: Modules, one of which the repository has to import; none means always.
        rules: Its rules.
        passes: Its passes.
    """

    name: str
    active_imports: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    passes: tuple[Pass, ...] = field(default=())


def worst(risks: Iterable[Risk]) -> Risk:
    """Return the gravest of some risks; LOW where there is none."""
    # Materialised first: a generator that was tested for emptiness would be consumed.
    return sorted(risks, key=RISKS.index)[0] if (risks := set(risks)) else "LOW"

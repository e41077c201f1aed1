"""What a changed file is about: the table of the field, matched by words of paths and names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.front_matter import read_front_matter

Severity = Literal["HIGH", "MEDIUM", "LOW", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("HIGH", "MEDIUM", "unknown", "LOW")
"""From the gravest; a file that nothing is known of may be grave, so it is never the lowest."""

TABLE = Path(__file__).with_name("domains.toml")
# `KVCache` and `kvCache2` are `kv cache`.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_MANIFEST = re.compile(
    r"(?:^|/)(?:pyproject.*\.toml|setup\.(?:py|cfg)|[\w-]*requirements[\w-]*\.txt)$"
)
# `.claude/agents/review/tests.md`; the folders of the other tools are named alike.
_AGENT = re.compile(r"(?:^|/)\.(?:agents|claude|codex|opencode)/agents?/(?:[^/]+/)*([^/]+)\.md$")


class Domain(NamedTuple):
    """A row of the table."""

    id: str
    title: str
    severity: Severity
    look: str
    words: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    expert: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    is_general: bool = False
    """Whether any other domain is a file's own before this one."""
    of_training: bool = False
    """Whether it holds in repositories alone that train or run models."""


UNKNOWN = Domain("unknown", "Unknown", "unknown", "Nothing is known of this place: read it.")


class Agent(NamedTuple):
    """A subagent that the repository describes."""

    name: str
    description: str
    path: str


def read_domains(text: str) -> tuple[Domain, ...]:
    """Return the rows of a table in TOML."""
    rows = tomllib.loads(text)["domain"]
    found = [
        Domain(
            row["id"],
            row["title"],
            severity_of(row["severity"]),
            row["look"],
            # As names are read, so that "ulysses" finds itself.
            words=tuple(" ".join(_words(word)) for word in row.get("words", ())),
            roles=tuple(row.get("roles", ())),
            expert=tuple(row.get("expert", ())),
            tests=tuple(row.get("tests", ())),
            is_general=bool(row.get("is_general", False)),
            of_training=bool(row.get("of_training", False)),
        )
        for row in rows
    ]
    return tuple(found)


def severity_of(value: object) -> Severity:
    """Return a severity that was given.

    Raises:
        ValueError: It is none.
    """
    # "unknown" is no choice: whoever gives a severity knows one.
    if value in SEVERITIES and value != "unknown":
        return cast("Severity", value)
    raise ValueError(f"the severity {value!r} is none of HIGH, MEDIUM, LOW")


@cache
def built_in_domains() -> tuple[Domain, ...]:
    """Return the table that comes with the tool."""
    return read_domains(TABLE.read_text(encoding="utf-8"))


def uses_models(files: Files) -> bool:
    """Return whether a source imports, or a manifest names, a framework of the table."""
    names = "|".join(tomllib.loads(TABLE.read_text(encoding="utf-8"))["frameworks"])
    imported = re.compile(rf"^[ \t]*(?:import|from)[ \t]+(?:{names})\b".encode(), re.MULTILINE)
    named = re.compile(rf"(?<![\w/.-])(?:{names})(?![\w/-])".encode())
    manifests = [each for each in files.sorted_paths if _MANIFEST.search(each)]
    # The manifests first: they are few, and mostly enough.
    sought = [(named, each) for each in manifests] + [(imported, each) for each in files.python]
    return any(pattern.search(files.data(path) or b"") for pattern, path in sought)


def domains_of(
    path: str, role: str, names: Iterable[str], table: Sequence[Domain]
) -> tuple[Domain, ...]:
    """Return the domains of a changed file, the first of them its own; `UNKNOWN` where none fits.

    Args:
        names: The dotted names of the definitions that changed in it.
    """
    own = [each for each in table if role in each.roles]
    parts = [*path.split("/")[:-1], path.rpartition("/")[2].partition(".")[0]]
    found: dict[str, Domain] = {}
    # From the file's name outwards, then the definitions: nearer words are more exact.
    for text in (*reversed(parts), *names):
        # Python's own name, of any package and of any class, says nothing.
        words = f" {' '.join(_words(text.replace('__init__', '')))} "
        for each in table:
            if any(f" {word} " in words for word in each.words):
                found.setdefault(each.id, each)
    matched = sorted(found.values(), key=lambda each: each.is_general)
    return tuple(dict.fromkeys((*own, *matched))) or (UNKNOWN,)


def tests_of(domain: Domain, paths: Iterable[str], tests: Iterable[str]) -> tuple[str, ...]:
    """Return the test files that are named after changed files, then those of the domain."""
    stems = {path.rpartition("/")[2].partition(".")[0] for path in paths}
    named: list[str] = []
    alike: list[str] = []
    for test in sorted(tests):
        stem = test.rpartition("/")[2].partition(".")[0]
        if stem.removeprefix("test_").removesuffix("_test") in stems:
            named.append(test)
        elif stem != "__init__" and set(_words(stem)).intersection(domain.tests):
            alike.append(test)
    return (*named, *alike)


def worst(domains: Iterable[Domain]) -> Severity:
    """Return the gravest severity; "LOW" only where something is known to be so."""
    present = {each.severity for each in domains}
    rows: list[Severity] = [each for each in SEVERITIES if each in present]
    return rows[0] if rows else "unknown"


def read_agents(files: Files) -> tuple[Agent, ...]:
    """Return the subagents that a repository describes, each name once."""
    found: dict[str, Agent] = {}
    for path in sorted(files.paths):
        match = _AGENT.search(path)
        text = files.text(path) if match else None
        if match is None or text is None:
            continue
        fields = read_front_matter(text).fields
        name = str(fields.get("name") or match[1])
        found.setdefault(name, Agent(name, str(fields.get("description", "")), path))
    return tuple(found.values())


def expert_for(
    domain: Domain, agents: Sequence[Agent], chosen: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the subagent for a domain and why; None where the repository has nobody for it.

    A word of the domain in an agent's name decides; in its description, it takes two of them.
    """
    if domain.id in chosen:
        return chosen[domain.id], "[tool.scaffold.review.agents] names it"
    best: tuple[int, str, list[str]] | None = None
    for agent in agents:
        in_name = set(_words(agent.name)).intersection(domain.expert)
        described = set(_words(agent.description)).intersection(domain.expert)
        weight = 2 * len(in_name) + len(described)
        # Strictly greater: of equals the first by path stays.
        if weight >= 2 and (best is None or weight > best[0]):
            best = weight, agent.name, sorted(in_name | described)
    return best and (best[1], f"its name or description has {', '.join(map(repr, best[2]))}")


def _words(name: str) -> Iterator[str]:
    """Yield the words of a name in lower case and in the singular."""
    for match in _WORD.finditer(name):
        word = match[0].lower()
        # `losses`, `policies` and `weights`; `loss` and `axis` end so themselves.
        if word.endswith("ies") and len(word) > 4:
            word = f"{word[:-3]}y"
        elif word.endswith(("sses", "xes", "ches", "shes")):
            word = word[:-2]
        elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
            word = word[:-1]
        yield word

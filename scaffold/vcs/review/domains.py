"""What a changed file is about: the table, what a repository sets of it, and what is near."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.files.revision import tree_files
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.analysis.project.test_marks import marks_of
from scaffold.analysis.project.tool_table import (
    PROJECT_FILE,
    project_text,
    read_tool_table,
    settings_errors,
)
from scaffold.config import FieldError, Fields
from scaffold.errors import RequestError, nearest
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.pull_request.body import Risk, Surroundings
from scaffold.vcs.repository import Repository
from scaffold.vcs.roles import Role, role_names, role_of

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

DESCRIBED = "docs/en/review.md lists the settings"


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
        # Python's own name, of any package and of any class, is no evidence.
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


class Settings(NamedTuple):
    """The settings of a review.

    Args:
        domains: The table, the repository's own rows first.
    """

    domains: tuple[Domain, ...]
    roles: tuple[Role, ...] = ()
    agents: Mapping[str, str] | None = None


def read_settings(files: Files) -> Settings:
    """Return the settings of a repository in one of its states.

    Args:
        files: That state; a review asks the old one, so that no change can excuse itself.

    Raises:
        RequestError: The settings are wrong.
    """
    table = read_tool_table(project_text(files), "review")
    with settings_errors(DESCRIBED, code="rules_invalid"):
        own = [row for path in table.texts("domains", ()) for row in _own_domains(files, path)]
        given = table.fields("severity")
        severities = {name: _severity(given, name) for name in given.names()}
        names = {each.id for each in own}
        rows = [*own, *(each for each in built_in_domains() if each.id not in names)]
        _confirm_known(severities, {each.id for each in rows}, f"{given.where}: unknown domain")
        if not uses_models(files):
            # "backend", "worker" and "cache" mean other things there; rows of its own stay.
            kept = names | {*severities}
            rows = [each for each in rows if not each.of_training or each.id in kept]
        roles = table.fields("roles")
        _confirm_known(roles.names(), role_names(), f"{roles.where}: unknown role")
        agents = {name: str(value) for name, value in table.table("agents").items()}
        table.done()
        return Settings(
            tuple(e._replace(severity=severities.get(e.id, e.severity)) for e in rows),
            tuple(Role(name, roles.texts(name)) for name in roles.names()),
            agents,
        )


def _own_domains(files: Files, path: str) -> tuple[Domain, ...]:
    text = files.text(path) if path in files.paths else None
    if text is None:
        raise RequestError(
            f"{PROJECT_FILE}: [tool.scaffold.review] names the domains {path!r}, which are not "
            "there",
            code="rules_invalid",
            hint=DESCRIBED,
        )
    try:
        return read_domains(text)
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"{path} is not a table of domains, each with id, title, severity and look: {error}",
            code="rules_invalid",
            hint=DESCRIBED,
        ) from error


def _severity(table: Fields, name: str) -> Severity:
    try:
        return severity_of(table.value(name))
    except ValueError as error:
        raise FieldError(f"{table.where} {name}: {error}") from error


def _confirm_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise FieldError(f"{what} {name!r}{nearest(name, known)}")


def surroundings_of(
    repository: Repository, old: str, new: str, changes: Sequence[FileChange], key: KeyChanges
) -> Surroundings:
    """Return the subjects of a change, the gravest first, and the test files near to it.

    Near are those that change, and those that are named after a changed file.

    Args:
        old: The commit that the change begins at; its settings of reviews count.

    Raises:
        RequestError: The settings of reviews are wrong.
    """
    with closing(tree_files(repository.root, old)) as before:
        settings = read_settings(before)
    own: dict[str, Domain] = {}
    for each in changes:
        role = role_of(each.path, None, settings.roles)
        if role != "test":
            names = [one.name for one in key.symbols if one.path == each.path]
            own[each.path] = domains_of(each.path, role, names, settings.domains)[0]
    # A set has another order in each process.
    ranked = sorted(dict.fromkeys(own.values()), key=lambda each: SEVERITIES.index(each.severity))
    risks = [
        Risk(
            domain.title,
            domain.severity,
            domain.look,
            tuple(path for path, found in own.items() if found == domain),
        )
        for domain in ranked
        if domain.severity in ("HIGH", "MEDIUM")
    ]
    with closing(tree_files(repository.root, new)) as files:
        tests = [path for path in files.paths if role_of(path, None, settings.roles) == "test"]
        changed = {each.path for each in changes}
        named = tests_of(UNKNOWN, own, tests)
        near = tuple(path for path in tests if path in changed or path in named)
        marks = {path: marks_of(files.text(path) or "") for path in near}
        return Surroundings(tuple(risks), near, marks, PytestNames(files).default_markers)

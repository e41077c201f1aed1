"""The settings of the review: ``[tool.scaffold.review]`` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.tool_table import (
    PROJECT_FILE,
    project_text,
    read_tool_table,
    settings_errors,
)
from scaffold.config import FieldError, Fields
from scaffold.errors import RequestError, nearest
from scaffold.vcs.review.domains import (
    Domain,
    Severity,
    built_in_domains,
    read_domains,
    severity_of,
    uses_models,
)
from scaffold.vcs.roles import Role, role_names

DESCRIBED = "docs/en/review.md lists the settings"


class Settings(NamedTuple):
    """The settings of a review.

    Args:
        domains: The table, the repository's own rows first.
        roles: Roles of files that the repository adds.
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

"""The services that a repository's compose files define."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

# `compose.yaml`, `docker-compose.override.yml`, `deploy/compose-gpu.yml`.
_FILE = lazy_re(r"(?:^|/)(?:docker-)?compose(?:[.-][\w.-]+)?\.ya?ml$")


class Services(NamedTuple):
    """The services that the compose files of a repository define.

    Args:
        by_name: Each service with the first file that defines it.
        by_file: The services of each file.
        why_open: Why there may be more, or "".
    """

    by_name: dict[str, str]
    by_file: dict[str, frozenset[str]]
    why_open: str


def services_of(files: Files) -> Services:
    """Return the services of all compose files of a repository."""
    found = Services({}, {}, "")
    for path in sorted(each for each in files.paths if _FILE.search(each)):
        names, why = _services(files.text(path) or "")
        found.by_file[path] = names
        for name in names:
            found.by_name.setdefault(name, path)
        found = found._replace(why_open=found.why_open or (why and f"{path} {why}"))
    return found


def _services(text: str) -> tuple[frozenset[str], str]:
    import yaml  # costs 20 ms; only compose files need it

    try:
        data: Any = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return frozenset(), "cannot be read"
    table = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    services: Any = table.get("services")
    names = cast("dict[str, Any]", services) if isinstance(services, dict) else {}
    why = "takes in other files" if "include" in table else ""
    return frozenset(str(each) for each in names), why

"""The settings of commit messages: ``[tool.scaffold.commits]`` in pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from scaffold.analysis.project.tool_table import PROJECT_FILE, read_tool_table, settings_errors
from scaffold.config import FieldError, Fields
from scaffold.errors import RequestError
from scaffold.vcs.commit.conventional import DEFAULT_RULES, Rules

_HINT = "docs/en/commit-messages.md lists the settings"


class PathRule(NamedTuple):
    """One line of the path table: which type or scope goes with paths."""

    pattern: str
    type: str | None
    scope: str | None


@dataclass(frozen=True)
class CommitSettings:
    """What a repository asks of its commit messages.

    Args:
        paths: The path table in its order; of two patterns that match a file the later one counts.
        is_set: Whether the repository has the table at all.
    """

    rules: Rules = DEFAULT_RULES
    paths: tuple[PathRule, ...] = ()
    is_set: bool = False


def read_commit_settings(root: Path) -> CommitSettings:
    """Return the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong, or the file cannot be read.
    """
    try:
        text = (root / PROJECT_FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return CommitSettings()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{PROJECT_FILE} cannot be read: {error}"
        raise RequestError(message, code="target_invalid", hint=_HINT) from error
    with settings_errors(_HINT):
        return _commit_settings(read_tool_table(text, "commits"))


def _commit_settings(table: Fields) -> CommitSettings:
    is_set = bool(table.names())
    rules = Rules(
        _words(table, "types", DEFAULT_RULES.types) or DEFAULT_RULES.types,
        _words(table, "scopes", ()),
        table.integer("max-subject", DEFAULT_RULES.max_subject, minimum=20),
        table.integer("max-body", DEFAULT_RULES.max_body, minimum=20),
    )
    paths = table.fields("paths")
    table.done()
    rows = tuple(_path_rule(paths, each, rules) for each in paths.names())
    return CommitSettings(rules, rows, is_set)


def _path_rule(paths: Fields, pattern: str, rules: Rules) -> PathRule:
    """Read ``"docs/**" = "scope"``, or a table with type, scope or both."""
    value: object = paths.value(pattern)
    # A bare word is a scope, as most rows name nothing else.
    row = {"scope": value} if isinstance(value, str) else value
    if not isinstance(row, dict) or not row:
        raise FieldError(
            f"{paths.where}: {pattern!r} is {value!r}; it must be a scope, or a table of type and "
            "scope"
        )
    fields = Fields(cast("dict[str, object]", row), f"{paths.where} {pattern!r}")
    words: list[str | None] = []
    # Without a list of scopes any word is one.
    for key, known in (("type", rules.types), ("scope", rules.scopes)):
        word = fields.text(key, "")
        if word and known and word not in known:
            raise FieldError(
                f"{fields.where} has the {key} {word!r}, which is not allowed; {', '.join(known)}"
            )
        words.append(word or None)
    fields.done()
    return PathRule(pattern, *words)


def _words(table: Fields, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = table.texts(key, default)
    if not all(word.strip() for word in found):
        raise FieldError(f"{table.where}: key {key!r} holds an empty word")
    return found

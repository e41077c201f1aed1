"""What a repository says of its commits: ``[tool.scaffold.commits]`` in its pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.analysis.project.tool_table import read_tool_table
from scaffold.errors import RequestError, TargetError, nearest
from scaffold.vcs.commit.conventional import DEFAULT_RULES, Rules

WHERE = "[tool.scaffold.commits]"
_KEYS = ("types", "scopes", "max-subject", "max-body", "paths")
_HINT = "docs/en/commit-messages.md lists the settings"


class PathRule(NamedTuple):
    """Is one line of the path table: which type or scope goes with paths."""

    pattern: str
    type: str | None
    scope: str | None


@dataclass(frozen=True)
class CommitSettings:
    """Is what a repository asks of its commit messages.

    Args:
        rules: What a message is held to.
        paths: The path table in its order; of two patterns that match a file the later one counts.
    """

    rules: Rules = DEFAULT_RULES
    paths: tuple[PathRule, ...] = ()


def read_commit_settings(root: Path) -> CommitSettings:
    """Returns the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong, or the file cannot be read.
    """
    try:
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return CommitSettings()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong("pyproject.toml", f"cannot be read: {error}") from error
    try:
        return _checked(read_tool_table(text, "commits"))
    except TargetError as error:  # status 1 is for findings
        raise RequestError(error.message, code=error.code, hint=error.hint) from error


def _checked(table: dict[str, Any]) -> CommitSettings:
    for key in table:
        if key not in _KEYS:
            raise _wrong(f"{WHERE} {key}", f"is no setting{nearest(key, _KEYS)}")
    types = _words(table, "types", DEFAULT_RULES.types)
    rules = Rules(
        types or DEFAULT_RULES.types,
        _words(table, "scopes", ()),
        _number(table, "max-subject", DEFAULT_RULES.max_subject),
        _number(table, "max-body", DEFAULT_RULES.max_body),
    )
    given = table.get("paths", {})
    if not isinstance(given, dict):
        raise _wrong(f"{WHERE} paths", "must be a table of patterns")
    rows = cast("dict[str, object]", given).items()
    return CommitSettings(rules, tuple(_path_rule(key, value, rules) for key, value in rows))


def _path_rule(pattern: str, value: object, rules: Rules) -> PathRule:
    """Reads ``"docs/**" = "scope"``, or a table with type, scope or both."""
    where = f"{WHERE}.paths {pattern!r}"
    row = {"scope": value} if isinstance(value, str) else cast("dict[str, object]", value)
    if not isinstance(value, str | dict) or not row or set(row) - {"type", "scope"}:
        raise _wrong(where, f"is {value!r}; it must be a scope, or a table of type and scope")
    for key, known in (("type", rules.types), ("scope", rules.scopes)):
        word = row.get(key)
        if word is not None and not isinstance(word, str):
            raise _wrong(where, f"has the {key} {word!r}; it must be a text")
        if word and known and word not in known:
            raise _wrong(where, f"has the {key} {word!r}, which is not allowed; {', '.join(known)}")
    words = [cast("str | None", row.get(key)) or None for key in ("type", "scope")]
    return PathRule(pattern, *words)


def _words(table: dict[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value: object = table.get(key, list(default))
    rows = cast("list[object]", value) if isinstance(value, list) else [None]
    words = [row for row in rows if isinstance(row, str) and row.strip()]
    if len(words) != len(rows):
        raise _wrong(f"{WHERE} {key}", f"is {value!r}; it must be a list of words")
    return tuple(words)


def _number(table: dict[str, Any], key: str, default: int) -> int:
    value: object = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 20:
        raise _wrong(f"{WHERE} {key}", f"is {value!r}; it must be a whole number from 20")
    return value


def _wrong(what: str, why: str) -> RequestError:
    return RequestError(f"{what} {why}", code="target_invalid", hint=_HINT)

"""What a repository says of its reviews: ``[tool.scaffold.review]`` and its files of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.tool_table import read_tool_table
from scaffold.errors import RequestError, TargetError, nearest
from scaffold.vcs.review.roles import Role, role_names
from scaffold.vcs.review.rule import RISKS, Pass, Risk, Rule, RuleSet
from scaffold.vcs.review.rule_files import built_in_rules, invalid, read_rules

_KEYS = ("rules", "disable", "risk", "roles", "agents")
_TABLE = "[tool.scaffold.review]"


@dataclass(frozen=True)
class Settings:
    """Is what a review goes by.

    Args:
        sets: The sets of rules, those that come with the tool first.
        disable: The rules that do not count.
        risk: The risks that the repository gives to rules.
        roles: The roles that it gives to files.
        agents: The subagents that it names for passes.
    """

    sets: tuple[RuleSet, ...]
    disable: frozenset[str] = frozenset()
    risk: Mapping[str, Risk] | None = None
    roles: tuple[Role, ...] = ()
    agents: Mapping[str, str] | None = None


def read_settings(files: Files, extra: Sequence[str] = ()) -> Settings:
    """Returns the settings of a repository in one of its states.

    Args:
        files: That state; a review asks the old one, so that no change can excuse itself.
        extra: Files of rules on the disk, which the command line names.

    Raises:
        RequestError: The settings or the rules are wrong.
    """
    text = files.text("pyproject.toml") if "pyproject.toml" in files.paths else None
    try:
        table = read_tool_table(text, "review")
    except TargetError as error:
        raise RequestError(error.message, code=error.code, hint=error.hint) from error
    for key in table:
        if key not in _KEYS:
            raise invalid(
                "pyproject.toml", f"{_TABLE} has an unknown key {key!r}{nearest(key, _KEYS)}"
            )
    named = _words(table, "rules")
    own = [read_rules(_text(files, each), each) for each in named]
    own += [read_rules(_disk_text(each), each) for each in extra]
    sets = (*built_in_rules(), *own)
    _confirm_passes(sets)
    rules = {rule.id for each in sets for rule in each.rules}
    return Settings(
        sets,
        frozenset(_known(each, rules, "disable") for each in _words(table, "disable")),
        {
            _known(rule, rules, "risk"): _risk(value)
            for rule, value in _table(table, "risk").items()
        },
        _roles(_table(table, "roles")),
        {name: str(value) for name, value in _table(table, "agents").items()},
    )


def rules_of(settings: Settings, active: Sequence[RuleSet]) -> tuple[Rule, ...]:
    """Returns the rules that count of the active sets: of several with one id the last."""
    found: dict[str, Rule] = {}
    for rule in (rule for each in active for rule in each.rules):
        given = (settings.risk or {}).get(rule.id, rule.risk)
        found[rule.id] = replace(rule, risk=given)
    return tuple(rule for rule in found.values() if rule.id not in settings.disable)


def passes_of(settings: Settings) -> tuple[Pass, ...]:
    """Returns the passes of all sets: of several with one id the last."""
    found = {each.id: each for a_set in settings.sets for each in a_set.passes}
    return tuple(found.values())


def _confirm_passes(sets: Sequence[RuleSet]) -> None:
    known = {each.id for a_set in sets for each in a_set.passes}
    for rule in (rule for each in sets for rule in each.rules):
        if not rule.passes:
            raise invalid(rule.origin, f"rule {rule.id!r} names no pass that looks at it")
        for each in rule.passes:
            if each not in known:
                raise invalid(
                    rule.origin,
                    f"rule {rule.id!r} names an unknown pass {each!r}{nearest(each, known)}",
                )


def _text(files: Files, path: str) -> str:
    text = files.text(path) if path in files.paths else None
    if text is None:
        raise invalid("pyproject.toml", f"{_TABLE} names the rules {path!r}, which are not there")
    return text


def _disk_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise invalid("--rules", f"{path!r} cannot be read: {reason}") from error


def _words(table: Mapping[str, Any], key: str) -> list[str]:
    found: object = table.get(key, [])
    rows = cast("list[object]", found) if isinstance(found, list) else [None]
    if not all(isinstance(each, str) for each in rows):
        raise invalid("pyproject.toml", f"{_TABLE} {key} is no list of texts")
    return cast("list[str]", rows)


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    found: object = table.get(key, {})
    if not isinstance(found, dict):
        raise invalid("pyproject.toml", f"{_TABLE} {key} is no table")
    return cast("dict[str, Any]", found)


def _known(name: str, rules: set[str], key: str) -> str:
    if name not in rules:
        raise invalid(
            "pyproject.toml", f"{_TABLE} {key}: unknown rule {name!r}{nearest(name, rules)}"
        )
    return name


def _risk(value: object) -> Risk:
    for each in RISKS:
        if each == value:
            return each
    raise invalid("pyproject.toml", f"{_TABLE} risk: {value!r} is none of {', '.join(RISKS)}")


def _roles(table: Mapping[str, Any]) -> tuple[Role, ...]:
    found: list[Role] = []
    for name in table:
        if name not in role_names():
            what = f"{_TABLE} roles: unknown role {name!r}{nearest(name, role_names())}"
            raise invalid("pyproject.toml", what)
        found.append(Role(name, tuple(_words(table, name))))
    return tuple(found)

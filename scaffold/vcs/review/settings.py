"""The settings of reviews: ``[tool.scaffold.review]`` and the files of rules that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.tool_table import (
    PROJECT_FILE,
    project_text,
    read_tool_table,
    settings_errors,
)
from scaffold.config import FieldError, Fields
from scaffold.errors import nearest
from scaffold.vcs.review.roles import Role, role_names
from scaffold.vcs.review.rule import RISKS, Pass, Risk, Rule, RuleSet
from scaffold.vcs.review.rule_files import DESCRIBED, built_in_rules, invalid, read_rules


@dataclass(frozen=True)
class Settings:
    """The settings of a review.

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
    """Return the settings of a repository in one of its states.

    Args:
        files: That state; a review asks the old one, so that no change can excuse itself.
        extra: Files of rules on the disk, which the command line names.

    Raises:
        RequestError: The settings or the rules are wrong.
    """
    table = read_tool_table(project_text(files), "review")
    with settings_errors(DESCRIBED, code="rules_invalid"):
        own = [read_rules(_text(files, each), each) for each in table.texts("rules", ())]
        # Rules of the command line come from the disk: they are the person's and not the change's.
        own += [read_rules(_disk_text(each), each) for each in extra]
        sets = (*built_in_rules(), *own)
        _confirm_passes(sets)
        rules = {rule.id for each in sets for rule in each.rules}
        disable = table.texts("disable", ())
        risk = table.fields("risk")
        for key, named in (("disable", disable), ("risk", risk.names())):
            _confirm_known(named, rules, f"{table.where} {key}: unknown rule")
        roles = table.fields("roles")
        _confirm_known(roles.names(), role_names(), f"{roles.where}: unknown role")
        agents = {name: str(value) for name, value in table.table("agents").items()}
        table.done()
        return Settings(
            sets,
            frozenset(disable),
            {name: _risk(risk, name) for name in risk.names()},
            tuple(Role(name, roles.texts(name)) for name in roles.names()),
            agents,
        )


def rules_of(settings: Settings, active: Sequence[RuleSet]) -> tuple[Rule, ...]:
    """Return the rules that count of the active sets: of several with one id the last."""
    found: dict[str, Rule] = {}
    for rule in (rule for each in active for rule in each.rules):
        given = (settings.risk or {}).get(rule.id, rule.risk)
        # A later set may replace a built-in rule by using its id.
        found[rule.id] = replace(rule, risk=given)
    return tuple(rule for rule in found.values() if rule.id not in settings.disable)


def passes_of(settings: Settings) -> tuple[Pass, ...]:
    """Return the passes of all sets: of several with one id the last."""
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
        message = f"[tool.scaffold.review] names the rules {path!r}, which are not there"
        raise invalid(PROJECT_FILE, message)
    return text


def _disk_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise invalid("--rules", f"{path!r} cannot be read: {reason}") from error


def _confirm_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise FieldError(f"{what} {name!r}{nearest(name, known)}")


def _risk(table: Fields, name: str) -> Risk:
    value = table.value(name)
    for each in RISKS:
        if each == value:
            return each
    raise FieldError(f"{table.where} {name}: {value!r} is none of {', '.join(RISKS)}")

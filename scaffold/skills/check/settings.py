"""What a repository says of its own check: ``[tool.scaffold.skills]`` in its pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.tool_table import read_tool_table
from scaffold.errors import RequestError, TargetError, nearest
from scaffold.skills.check.rules import RULES


@dataclass(frozen=True)
class Settings:
    """Is what a repository asks of the check.

    Args:
        select: Only these rules, by id or by the first words of it ("path"); empty means all.
        ignore: Not these rules.
        exclude: Documents that are not checked, as patterns of a .gitignore.
        line_budget: The most lines of a SKILL.md.
        description_budget: The most characters of a description.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    line_budget: int = 500
    description_budget: int = 1024

    def wants(self, rule: str) -> bool:
        """Tells whether a rule is asked for."""
        chosen = not self.select or any(_covers(each, rule) for each in self.select)
        return chosen and not any(_covers(each, rule) for each in self.ignore)


def _covers(pattern: str, rule: str) -> bool:
    return rule == pattern or rule.startswith(f"{pattern}-")


def read_settings(files: Files) -> Settings:
    """Returns the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong.
    """
    text = files.text("pyproject.toml") if "pyproject.toml" in files.paths else None
    try:
        table = read_tool_table(text, "skills")
    except TargetError as error:  # status 1 is for findings
        raise RequestError(error.message, code=error.code, hint=error.hint) from error
    return _checked({key.replace("-", "_"): value for key, value in table.items()})


def _checked(table: dict[str, Any]) -> Settings:
    given: dict[str, Any] = {}
    for each in fields(Settings):
        if each.name not in table:
            continue
        value = table[each.name]
        key = each.name.replace("_", "-")
        if isinstance(each.default, int):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise _wrong(key, value, "it must be a whole number from 1")
            given[each.name] = value
        else:
            rows = cast("list[Any]", value) if isinstance(value, list) else [None]
            if not all(isinstance(row, str) for row in rows):
                raise _wrong(key, cast("object", value), "it must be a list of texts")
            given[each.name] = tuple(rows)
    settings = Settings(**given)
    check_rule_names((*settings.select, *settings.ignore), "[tool.scaffold.skills]")
    return settings


def check_rule_names(names: tuple[str, ...], where: str) -> None:
    """Checks that every name is a rule, or the beginning of rules.

    Raises:
        RequestError: One is not.
    """
    for name in names:
        if not any(_covers(name, rule) for rule in RULES):
            raise RequestError(
                f"{where} names the rule {name!r}, which does not exist{nearest(name, RULES)}",
                code="target_invalid",
                hint="docs/en/rules lists all rules",
            )


def _wrong(key: str, value: object, what: str) -> RequestError:
    return RequestError(
        f"[tool.scaffold.skills] {key} is {value!r}; {what}",
        code="target_invalid",
        hint="docs/en/skills-check.md lists the settings",
    )

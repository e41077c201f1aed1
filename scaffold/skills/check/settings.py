"""The settings of the check: ``[tool.scaffold.skills]`` in pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.tool_table import project_text, read_tool_table, settings_errors
from scaffold.config import Fields
from scaffold.errors import RequestError, nearest
from scaffold.skills.check.rules import GONE, RULES


@dataclass(frozen=True)
class Settings:
    """What a repository asks of the check.

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
        """Return whether a rule is asked for."""
        chosen = not self.select or any(_covers(each, rule) for each in self.select)
        return chosen and not any(_covers(each, rule) for each in self.ignore)


def _covers(pattern: str, rule: str) -> bool:
    return rule == pattern or rule.startswith(f"{pattern}-")


def read_settings(files: Files) -> Settings:
    """Return the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong.
    """
    found = read_tool_table(project_text(files), "skills")
    # Words may be joined by an underscore, too. `done` would refuse what skills/blocks reads.
    table = Fields({key.replace("_", "-"): found.value(key) for key in found.names()}, found.where)
    with settings_errors("docs/en/skills-check.md lists the settings"):
        settings = Settings(
            table.texts("select", ()),
            table.texts("ignore", ()),
            table.texts("exclude", ()),
            table.integer("line-budget", Settings.line_budget, minimum=1),
            table.integer("description-budget", Settings.description_budget, minimum=1),
        )
    check_rule_names((*settings.select, *settings.ignore), found.where)
    return settings


def check_rule_names(names: tuple[str, ...], where: str) -> None:
    """Check that every name is a rule, or the beginning of rules.

    Raises:
        RequestError: One is not.
    """
    for name in names:
        if not any(_covers(name, rule) for rule in (*RULES, *GONE)):
            raise RequestError(
                f"{where} names the rule {name!r}, which does not exist{nearest(name, RULES)}",
                code="target_invalid",
                hint="docs/en/rules lists all rules",
            )

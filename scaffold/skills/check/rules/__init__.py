"""Every rule by its id; each has a page under docs/en/rules and a fixture that breaks it."""

from __future__ import annotations

from scaffold.skills.check.rules.count import COUNT_RULES
from scaffold.skills.check.rules.data import DATA_RULES
from scaffold.skills.check.rules.form import FORM_RULES
from scaffold.skills.check.rules.generated import GENERATED_RULES
from scaffold.skills.check.rules.named import NAMED_RULES
from scaffold.skills.check.rules.path import PATH_RULES
from scaffold.skills.check.rules.python import PYTHON_RULES
from scaffold.skills.check.rules.rule import Rule
from scaffold.skills.check.rules.settings import SETTINGS_RULES
from scaffold.skills.check.rules.shell import SHELL_RULES

_FAMILIES = (
    COUNT_RULES,
    DATA_RULES,
    FORM_RULES,
    GENERATED_RULES,
    NAMED_RULES,
    PATH_RULES,
    PYTHON_RULES,
    SETTINGS_RULES,
    SHELL_RULES,
)
RULES: dict[str, Rule] = dict(sorted(row for family in _FAMILIES for row in family.items()))
"""All rules by their ids. An id is stable: baselines, `select` and inline comments name it."""

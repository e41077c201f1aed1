"""The rule of counts."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

COUNT_RULES: dict[str, Rule] = {
    "count-differs": Rule(
        "error",
        "A number that a text gives beside a thing that can be counted is right.",
        "The agent looks for what is not there, or stops before the last of them.",
    ),
}

"""The rules of what a project's settings say: markers, fixtures, keys, versions, images, jobs."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

SETTINGS_RULES: dict[str, Rule] = {
    "fixture-missing": Rule(
        "error",
        "A fixture of pytest that a text names exists.",
        "Every test that is written with it fails before it begins.",
    ),
    "marker-missing": Rule(
        "error",
        "A marker of pytest that a text names is registered, or carried by a test.",
        "A selection by it runs nothing, or everything, and looks as if it had passed.",
    ),
}

"""The rules of what a project's settings say: markers, fixtures, keys, versions, images, jobs."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

SETTINGS_RULES: dict[str, Rule] = {
    "config-key-missing": Rule(
        "error",
        "A dotted key of the configuration is a field of the repository's own classes.",
        "The run stops at the unknown key, or goes on as if it had not been given.",
    ),
    "fixture-missing": Rule(
        "error",
        "A fixture of pytest that a text names exists.",
        "Every test that is written with it fails before it begins.",
    ),
    "image-tag-differs": Rule(
        "error",
        "An image has the tag that the repository's own files give it.",
        "The agent tries the change in another environment than the one that counts.",
    ),
    "marker-missing": Rule(
        "error",
        "A marker of pytest that a text names is registered, or carried by a test.",
        "A selection by it runs nothing, or everything, and looks as if it had passed.",
    ),
    "version-differs": Rule(
        "error",
        "A version that a text gives is the one of the project's own files.",
        "The agent installs, or writes for, a version that the project does not have.",
    ),
    "workflow-job-missing": Rule(
        "error",
        "A job that is named with its workflow is in it.",
        "The agent waits for, or edits, a check that never runs.",
    ),
}

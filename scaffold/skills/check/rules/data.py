"""The rules of fenced data."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

_COPIED = "The reader copies it into a file, and the program that reads the file stops."

DATA_RULES: dict[str, Rule] = {
    "json-syntax": Rule("error", "A fenced block of JSON can be parsed.", _COPIED),
    "toml-syntax": Rule("error", "A fenced block of TOML can be parsed.", _COPIED),
    "yaml-syntax": Rule("error", "A fenced block of YAML can be parsed.", _COPIED),
}

"""The error codes of registries."""

from __future__ import annotations

CODES: dict[str, str] = {
    "registry_computed": "The registry is not a literal that can be edited safely.",
    "registry_differs": "The registry already has the key, with another value.",
    "registry_generated": "The registry's file is generated and must not be edited.",
    "registry_missing": "The registry's file, or the table in it, does not exist.",
    "registry_shadowed": "An earlier branch of the dispatch already matches the new entry.",
    "registry_syntax": "The registry's file cannot be parsed.",
}

"""The error codes of registries."""

from __future__ import annotations

CODES: dict[str, str] = {
    "registry_computed": "The registry is no literal that can be edited without risk.",
    "registry_differs": "The registry holds the key already, with another value.",
    "registry_generated": "The registry's file is generated and must not be edited.",
    "registry_missing": "The registry's file, or the table in it, does not exist.",
    "registry_shadowed": "An earlier branch of the dispatch takes what the new one is for.",
    "registry_syntax": "The registry's file cannot be parsed.",
}

"""The error codes of units."""

from __future__ import annotations

CODES: dict[str, str] = {
    "base_missing": "The rendered base of a unit, which merging needs, is gone.",
    "columns_unclear": "The columns of a sample cannot be identified.",
    "kind_known": "The kind already exists.",
    "ledger_invalid": "A file under .scaffold/made cannot be read.",
    "module_unsuited": "The module defines nothing that tests can be written for.",
    "name_taken": "The name is already registered, in this or another spelling.",
    "sample_invalid": "A sample of the data cannot be read.",
    "unit_ambiguous": "Units of several kinds share the name.",
    "unit_needed": "Another unit needs a file of this unit.",
    "unit_unknown": "There is no generated unit with this id.",
}

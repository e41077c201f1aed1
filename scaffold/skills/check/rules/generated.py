"""The rules of generated blocks."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

GENERATED_RULES: dict[str, Rule] = {
    "block-invalid": Rule(
        "error",
        "A generated block has an end, a kind that exists, and sources.",
        "`scaffold skills sync` cannot write it, so it stays as it is while the code moves on.",
    ),
    "block-stale": Rule(
        "error",
        "A generated block says what its sources give today.",
        "The agent reads the signature, table or output of an earlier state.",
    ),
}

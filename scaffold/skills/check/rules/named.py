"""The rules of things that a text names together with where they stand."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

NAMED_RULES: dict[str, Rule] = {
    "agent-unknown": Rule(
        "error",
        "A subagent that a text calls for is one of the repository.",
        "The client answers that there is no such subagent, and the work is done without it.",
    ),
    "function-missing": Rule(
        "error",
        "A function, method or class that is named with its file stands in that file.",
        "The agent searches the file, finds nothing, and writes a second one.",
    ),
    "list-missing": Rule(
        "error",
        "A list or table that a text tells to add to stands in the file that it names.",
        "The agent makes a new list that nothing reads, and the entry has no effect.",
    ),
    "parameter-missing": Rule(
        "error",
        "A parameter that a text names with its function is one of it.",
        "The agent passes what the function does not take.",
    ),
    "skill-unknown": Rule(
        "error",
        "A skill or command that a text calls for is one of the repository.",
        "The client answers that there is no such skill, and the work is done without it.",
    ),
    "variable-missing": Rule(
        "error",
        "A variable or constant that is named with its file stands in that file.",
        "The agent changes what nothing reads.",
    ),
}

"""The rules of form: front matter, names, lengths, copies, fences and inline comments."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

_UNLISTED = "A client that cannot read the front matter leaves the skill out of its list, silently."

FORM_RULES: dict[str, Rule] = {
    "allow-reason": Rule(
        "error",
        "An inline comment that allows a rule gives the reason.",
        "The next reader cannot tell whether the exception still holds.",
    ),
    "allow-unknown": Rule(
        "error",
        "An inline comment names rules that exist.",
        "A misspelled rule is not allowed, and the comment only looks as if it did.",
    ),
    "allow-unused": Rule(
        "warning",
        "An inline comment silences a finding.",
        "A comment that silences nothing hides the next true finding on its line.",
    ),
    "agent-description-missing": Rule(
        "error",
        "A subagent has a description.",
        "The client decides by the description when to call a subagent; without one it never does.",
    ),
    "agent-name": Rule(
        "error",
        "A subagent's name is the name of its file, in lower case with hyphens.",
        "Texts call a subagent by the name of its file; the client knows it by its key.",
    ),
    "body-missing": Rule(
        "error",
        "A skill has a body below its front matter.",
        "The skill is listed and loads as nothing.",
    ),
    "compatibility-length": Rule(
        "error",
        "`compatibility` is a text of at most 500 characters.",
        "The specification of skills limits it; strict clients refuse the skill.",
    ),
    "copy-differs": Rule(
        "error",
        "Copies of a skill for several clients have the same body.",
        "What an agent is told depends on the client, and only one of the copies is maintained.",
    ),
    "description-length": Rule(
        "error",
        "A description has at most 1,024 characters, or as many as the repository's settings say.",
        "Clients cut or drop longer ones from the list that agents choose by.",
    ),
    "description-missing": Rule(
        "error",
        "A skill has a description that says what it does and when to use it.",
        "The description is all that an agent sees before it chooses a skill.",
    ),
    "fence-unclosed": Rule(
        "error",
        "Fenced code is closed.",
        "Everything below it is read as code, and nothing of it as instruction.",
    ),
    "file-unreadable": Rule(
        "error",
        "Guidance is text in UTF-8 of a size that can be read.",
        "A client skips what it cannot read, and no claim in it can be checked.",
    ),
    "frontmatter-invalid": Rule("error", "The front matter is a YAML mapping.", _UNLISTED),
    "frontmatter-missing": Rule(
        "error", "A SKILL.md begins with front matter between two lines ---.", _UNLISTED
    ),
    "frontmatter-type": Rule(
        "error",
        "Values of the front matter have the types of the specification: texts, and a mapping of "
        "texts under `metadata`.",
        "A number or a list where a text belongs is refused by strict clients.",
    ),
    "frontmatter-unknown-key": Rule(
        "warning",
        "The front matter has keys of the specification, or those of the client in whose folder "
        "the skill stands.",
        "Other keys do nothing, although somebody meant them to.",
    ),
    "line-budget": Rule(
        "warning",
        "A skill has at most 500 lines, or as many as the repository's settings say.",
        "A loaded skill stays in the context; rare detail belongs into references.",
    ),
    "name-duplicate": Rule(
        "error",
        "Two different skills of one root have two names.",
        "Which of them a client loads is chance.",
    ),
    "name-folder": Rule(
        "error",
        "A skill's name is the name of its folder.",
        "Clients that list by folder and clients that list by name call it differently.",
    ),
    "name-format": Rule(
        "error",
        "A name has 1 to 64 lower-case letters, digits and single hyphens between them.",
        "The specification of skills asks for it; slash commands are made of it.",
    ),
    "name-missing": Rule("error", "A skill has a name.", _UNLISTED),
    "reference-orphaned": Rule(
        "warning",
        "A file under a skill's `references` is named by the skill or by another reference.",
        "An agent opens only what it is pointed to.",
    ),
    "skill-case": Rule(
        "error",
        "The file of a skill is called SKILL.md.",
        "Clients look for this spelling; on a case-sensitive disk they find no other.",
    ),
    "text-hidden": Rule(
        "error",
        "Guidance holds no invisible characters.",
        "They can carry instructions that an agent reads and no reviewer sees.",
    ),
}

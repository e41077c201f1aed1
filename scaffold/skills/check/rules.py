"""Every rule by its id; each has a page under docs/en/rules and a fixture that breaks it."""

from __future__ import annotations

from typing import NamedTuple

from scaffold.findings import Finding, Fix, Severity


class Rule(NamedTuple):
    """One rule.

    Args:
        asks: What it asks for, in a sentence.
        why: What happens to an agent, or a client, where it is broken.
        severity: "error" makes the command fail.
    """

    asks: str
    why: str
    severity: Severity = "error"


_FAILS = "The command fails, and the agent tries others until one seems to work."
_UNLISTED = "A client that cannot read the front matter leaves the skill out of its list, silently."

RULES: dict[str, Rule] = {
    "agent-description-missing": Rule(
        "A subagent has a description.",
        "The client decides by the description when to call a subagent; without one it never does.",
    ),
    "agent-name": Rule(
        "A subagent's name is the name of its file, in lower case with hyphens.",
        "Texts call a subagent by the name of its file; the client knows it by its key.",
    ),
    "allow-reason": Rule(
        "An inline comment that allows a rule gives the reason.",
        "The next reader cannot tell whether the exception still holds.",
    ),
    "allow-unknown": Rule(
        "An inline comment names rules that exist.",
        "A misspelled rule is not allowed: the comment has no effect.",
    ),
    "allow-unused": Rule(
        "An inline comment silences a finding.",
        "A comment that silences nothing hides the next true finding on its line.",
        "warning",
    ),
    "argument-missing": Rule(
        "A call gives every argument that its function needs.",
        "Code that is copied from the text fails.",
    ),
    "argument-surplus": Rule(
        "A call gives no more positional arguments than its function takes.",
        "Code that is copied from the text fails.",
    ),
    "argument-unknown": Rule(
        "A call names only arguments that its function has.",
        "Code that is copied from the text raises TypeError, or the argument is swallowed.",
    ),
    "block-invalid": Rule(
        "A generated block has an end, a kind that exists, and sources.",
        "`scaffold skills sync` cannot write it, so it stays as it is while the code moves on.",
    ),
    "block-stale": Rule(
        "A generated block matches its sources.",
        "The agent reads an outdated signature, table or output.",
    ),
    "body-missing": Rule(
        "A skill has a body below its front matter.",
        "The skill is listed, and loading it gives nothing.",
    ),
    "command-unknown": Rule(
        "A command that a text calls exists in the repository's program.",
        "The program stops with a usage error, and the agent guesses another command.",
    ),
    "compatibility-length": Rule(
        "`compatibility` is a text of at most 500 characters.",
        "The specification of skills limits it; strict clients refuse the skill.",
    ),
    "config-key-missing": Rule(
        "A key of the configuration that a text sets is a field of its classes.",
        "The run stops at the key, or ignores it.",
    ),
    "copy-differs": Rule(
        "Copies of a skill for several clients have the same body.",
        "What an agent reads depends on the client, and only one of the copies is maintained.",
    ),
    "count-differs": Rule(
        "The number that a text gives for lines, items or a setting is right.",
        "The agent looks for items that do not exist, or stops before the last one.",
    ),
    "default-differs": Rule(
        "A default that a text gives for a parameter is that of the code.",
        "The agent leaves out an argument that it needs, or passes one for nothing.",
    ),
    "dependency-group-missing": Rule(
        "A dependency group that a text installs is declared in the project file.", _FAILS
    ),
    "description-length": Rule(
        "A description has at most 1,024 characters, or as many as the repository's settings say.",
        "Clients cut or drop longer ones from the list that agents choose by.",
    ),
    "description-missing": Rule(
        "A skill has a description of what it does and when to use it.",
        "The description is all that an agent sees before it chooses a skill.",
    ),
    "fence-unclosed": Rule(
        "Fenced code is closed.",
        "Everything below it is read as code, and nothing of it as instruction.",
    ),
    "file-unreadable": Rule(
        "Guidance is text in UTF-8 of a size that can be read.",
        "A client skips what it cannot read, and no claim in it can be checked.",
    ),
    "frontmatter-invalid": Rule("The front matter is a YAML mapping.", _UNLISTED),
    "frontmatter-missing": Rule(
        "A SKILL.md begins with front matter between two lines ---.", _UNLISTED
    ),
    "frontmatter-type": Rule(
        "Values of the front matter have the types of the specification: texts, and a mapping of "
        "texts under `metadata`.",
        "A number or a list where a text belongs is refused by strict clients.",
    ),
    "frontmatter-unknown-key": Rule(
        "The front matter has keys that some client reads.",
        "Other keys have no effect, although somebody meant them to.",
        "warning",
    ),
    "image-tag-differs": Rule(
        "An image has the tag that the repository's own files give it.",
        "The agent tests the change in a different environment from the real one.",
    ),
    "import-missing": Rule(
        "A module of this repository that a text imports exists.",
        "The first line of the code that the agent writes fails.",
    ),
    "import-name-missing": Rule(
        "A name that a text imports from a module of this repository exists.",
        "The first line of the code that the agent writes fails.",
    ),
    "just-recipe-missing": Rule("A recipe that a text runs is in the justfile.", _FAILS),
    "line-budget": Rule(
        "A skill has at most 500 lines, or as many as the repository's settings say.",
        "A loaded skill stays in the context; rare detail belongs in references.",
        "warning",
    ),
    "line-number": Rule(
        "Lines that a text gives for a file contain what it claims is there.",
        "Line numbers move with every edit; the agent reads the wrong place.",
    ),
    "link-anchor": Rule(
        "The heading that a link leads to exists.",
        "The link opens the top of a page that does not say what was promised.",
    ),
    "link-from-root": Rule(
        "A link leads to its file from the file it is in, not only from the root.",
        "A client that follows the link, and every rendered page, finds nothing.",
        "warning",
    ),
    "link-missing": Rule(
        "The file that a link leads to exists.",
        "An agent that follows it finds nothing and goes on without what it needed.",
    ),
    "link-outside": Rule(
        "A skill links to files of its repository only.",
        "On another machine it is a different file, or none.",
        "warning",
    ),
    "list-incomplete": Rule(
        "A list of what a folder, an enum, a class or a list of a source has is complete.",
        "What the list lacks is not looked at, or is written a second time.",
        "warning",
    ),
    "make-target-missing": Rule("A make target that a text runs is in the Makefile.", _FAILS),
    "marker-missing": Rule(
        "A marker of pytest that a text names is registered, or carried by a test.",
        "A selection by it runs nothing, or everything, and looks as if it had passed.",
    ),
    "method-missing": Rule(
        "A method, attribute or member that a text names with its class or type exists.",
        "The agent overrides or calls a method that does not exist.",
    ),
    "module-missing": Rule(
        "A module that a text runs with `python -m` exists and can be run.", _FAILS
    ),
    "name-duplicate": Rule(
        "Different skills of one root have different names.",
        "Which of them a client loads is arbitrary.",
    ),
    "name-folder": Rule(
        "A skill's name is the name of its folder.",
        "Clients that list by folder and clients that list by name call it differently.",
    ),
    "name-format": Rule(
        "A name has 1 to 64 lower-case letters, digits and single hyphens between them.",
        "The specification of skills asks for it; slash commands are made of it.",
    ),
    "name-missing": Rule("A skill has a name.", _UNLISTED),
    "npm-script-missing": Rule("A script that a text runs is in package.json.", _FAILS),
    "option-unknown": Rule(
        "An option that a text gives exists in the repository's program.",
        "The program stops with a usage error, and the agent leaves out what the option was for.",
    ),
    "parameter-order": Rule(
        "A signature in a text has its parameters in the order of the code.",
        "Positional calls that are written after it pass the wrong values, without an error.",
    ),
    "parameter-unknown": Rule(
        "A signature in a text has parameters that the code has.",
        "The agent passes what does not exist.",
    ),
    "path-case": Rule(
        "A path is spelled as on the disk.",
        "It opens on some systems and not on others.",
    ),
    "path-missing": Rule(
        "A path of the repository, or of the skill's folder, exists.",
        "The agent opens it, finds nothing, and invents what it should have read.",
    ),
    "pip-extra-missing": Rule(
        "An extra that a text installs is declared in the project file.",
        "The installer warns at most, and the packages of the extra are missing.",
    ),
    "python-syntax": Rule(
        "A block of Python can be parsed.",
        "The agent copies it and gets a SyntaxError, or repairs it by guessing.",
    ),
    "reference-orphaned": Rule(
        "A file under a skill's `references` is named by the skill or by another reference.",
        "An agent opens only what it is pointed to.",
        "warning",
    ),
    "script-missing": Rule("A script that a text runs exists.", _FAILS),
    "skill-case": Rule(
        "The file of a skill is called SKILL.md.",
        "Clients look for this spelling, and on a case-sensitive disk they find nothing else.",
    ),
    "skill-unknown": Rule(
        "A skill or command that a text calls as `/name` has that name.",
        "The client does not know the command, and the agent goes on without what it does.",
    ),
    "symbol-deleted": Rule(
        "A change that removes a definition also removes it from the guidance.",
        "The agent looks for a definition that no longer exists.",
    ),
    "symbol-missing": Rule(
        "A name of this repository exists, in the file it is said to be in.",
        "The agent imports or calls something that does not exist.",
    ),
    "test-missing": Rule(
        "A test that a text names exists.",
        "pytest collects nothing, which an agent may take for success.",
    ),
    "text-hidden": Rule(
        "Guidance has no invisible characters.",
        "They can carry instructions that an agent reads and no reviewer sees.",
    ),
    "tree-missing": Rule(
        "The files that a drawn tree shows exist.",
        "The agent relies on the tree as a map.",
    ),
    "version-differs": Rule(
        "A version that a text gives is that of the project's own files.",
        "The agent installs, or writes for, a version that the project does not have.",
    ),
}
"""All rules by their ids. An id is stable: baselines, `select` and inline comments name it."""

GONE: frozenset[str] = frozenset(
    {
        "agent-unknown",
        "choice-unknown",
        "cli-argument-missing",
        "cli-argument-surplus",
        "compose-service-missing",
        "console-script-missing",
        "fixture-missing",
        "function-missing",
        "hook-missing",
        "json-syntax",
        "list-missing",
        "name-undefined",
        "option-required",
        "option-value-missing",
        "parameter-missing",
        "requirements-missing",
        "script-no-shebang",
        "script-not-executable",
        "shell-syntax",
        "task-missing",
        "toml-syntax",
        "variable-missing",
        "workflow-job-missing",
        "yaml-syntax",
    }
)
"""Rules of earlier releases, which `select`, inline comments and baselines may still name."""


def fault(
    path: str,
    line: int,
    rule: str,
    claim: str,
    message: str,
    evidence: str = "",
    fix: Fix | None = None,
    column: int = 1,
) -> Finding:
    """Return a finding that no reference of a text gives, with the severity of its rule."""
    severity = RULES[rule].severity
    return Finding(path, line, column, rule, claim, message, evidence, "", severity, "high", fix)

"""The rules of shell: programs, scripts, commands, options, tasks and tests."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

_FAILS = "The command fails, and the agent tries others until one seems to work."

SHELL_RULES: dict[str, Rule] = {
    "choice-unknown": Rule(
        "error",
        "A value that a command line gives is one of the choices.",
        "The program refuses it with a usage error.",
    ),
    "cli-argument-missing": Rule(
        "error",
        "A command line gives every argument that its program needs.",
        "The program stops with a usage error.",
    ),
    "cli-argument-surplus": Rule(
        "error",
        "A command line gives no more arguments than its program takes.",
        "The program stops with a usage error.",
    ),
    "command-unknown": Rule(
        "error",
        "A command that a text calls exists in the repository's program.",
        "The program stops with a usage error, and the agent guesses another command.",
    ),
    "compose-service-missing": Rule(
        "error",
        "A service that `docker compose` is given stands in a compose file of the repository.",
        "The command stops with `no such service`, and nothing that needs it runs.",
    ),
    "console-script-missing": Rule(
        "error",
        "A program that the project installs leads to a function that exists.",
        "It is installed and cannot start.",
    ),
    "dependency-group-missing": Rule(
        "error",
        "A dependency group that a text installs stands in the project file.",
        _FAILS,
    ),
    "hook-missing": Rule(
        "error",
        "A hook that a text runs by its id stands in .pre-commit-config.yaml.",
        _FAILS,
    ),
    "just-recipe-missing": Rule(
        "error",
        "A recipe that a text runs stands in the justfile.",
        _FAILS,
    ),
    "make-target-missing": Rule(
        "error",
        "A target that a text makes stands in the Makefile.",
        _FAILS,
    ),
    "module-missing": Rule(
        "error",
        "A module that a text runs with `python -m` exists and can be run.",
        _FAILS,
    ),
    "npm-script-missing": Rule(
        "error",
        "A script that a text runs stands in package.json.",
        _FAILS,
    ),
    "option-required": Rule(
        "error",
        "A command line gives the options that its program requires.",
        "The program stops with a usage error.",
    ),
    "option-unknown": Rule(
        "error",
        "An option that a text gives exists in the repository's program.",
        "The program stops with a usage error, and the agent leaves out what the option was for.",
    ),
    "option-value-missing": Rule(
        "error",
        "An option that takes a value is given one.",
        "The program stops, or takes the next word for the value.",
    ),
    "pip-extra-missing": Rule(
        "error",
        "An extra that a text installs stands in the project file.",
        "The installer warns at most, and what the extra was for is not there.",
    ),
    "requirements-missing": Rule(
        "error",
        "A requirements file that a text installs from exists.",
        _FAILS,
    ),
    "script-missing": Rule(
        "error",
        "A script that a text runs exists.",
        _FAILS,
    ),
    "script-no-shebang": Rule(
        "error",
        "A script that a text runs by its path says in its first line what runs it.",
        "The system hands it to a shell, which reads it as something that it is not.",
    ),
    "script-not-executable": Rule(
        "error",
        "A script that a text runs by its path has its run bit.",
        "The command ends with 'Permission denied'.",
    ),
    "shell-syntax": Rule(
        "error",
        "A block of shell closes its quotes, here-documents, loops and conditions.",
        "The shell waits for more, or runs something else than was meant.",
    ),
    "task-missing": Rule(
        "error",
        "A task that a text runs stands in the Taskfile.",
        _FAILS,
    ),
    "test-missing": Rule(
        "error",
        "A test that a text names exists.",
        "pytest collects nothing, which an agent may take for success.",
    ),
}

"""Whether blocks of data and of shell parse."""

from __future__ import annotations

from scaffold.analysis.cli.shell_words import Script
from scaffold.findings import Fix
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.data import Problem
from scaffold.skills.check.resolve.scope import Scope


def resolve_data(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a block of JSON, YAML or TOML."""
    language, problem = reference.data
    given: Problem | None = problem
    if given is None:
        return Verdict.holds("it parses")
    name = str(language).upper()
    if given.doubt:
        return Verdict.unknown(f"it is not a {name} as written: {given.doubt}", "placeholder")
    message = f"the block does not parse as {name}: {given.reason}"
    return Verdict("contradicts", given.reason, f"{language}-syntax", message)


def resolve_shell(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a block of shell: are its quotes and here-documents closed?"""
    script: Script = reference.data
    if not script.faults:
        return Verdict.holds("it can be read")
    fault = script.faults[0]
    what = "here-document" if fault.what == "heredoc" else "quote"
    message = f"the {what} {fault.text!r} is not closed"
    return Verdict(
        "contradicts", f"it begins at line {reference.line + fault.line}", "shell-syntax", message
    )


def resolve_key(reference: Reference, scope: Scope) -> Verdict:
    """Resolve ``trainer.policy.lr=...``: have the classes of the configuration such a key?"""
    key = str(reference.data)
    repository = scope.repository
    answer = repository.config_classes.find(key)
    if answer.state == "there":
        return Verdict.holds(answer.reason, "a class of the configuration")
    if answer.state == "open" or repository.config_classes.yaml_has(key):
        return Verdict.unknown(answer.reason)
    part = key.split(".")[answer.depth]
    fix = Fix(reference.line, part, answer.near, is_safe=False) if answer.near else None
    now = f"there is {answer.near}" if answer.near else ""
    message = f"{key!r} is not a key of the configuration"
    return Verdict("contradicts", answer.reason, "config-key-missing", message, now, fix)

"""Faults of form in one document: front matter, names, lengths, fences, hidden characters."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any, cast

from scaffold.analysis.lazy_re import lazy_re
from scaffold.findings import Finding, Fix
from scaffold.skills.check.read.documents import Document, Unreadable
from scaffold.skills.check.rules import fault
from scaffold.skills.check.settings import Settings

MAX_NAME = 64
MAX_COMPATIBILITY = 500
SPEC_KEYS = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
# Keys that some client takes beside those of the specification; a file may be read by several.
CLIENT_KEYS = frozenset(
    {"argument-hint", "arguments", "disable-model-invocation", "user-invocable", "model", "context"}
    | {"agent", "hooks", "when_to_use", "version", "effort", "paths", "shell", "disallowed-tools"}
    | {"tools", "mode", "globs", "alwaysApply", "applyTo", "color", "permissionMode", "skills"}
)
_CLOSE = 0.85
"""Above it two keys are one with a slip of the fingers."""
_NAME = lazy_re(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# Zero-width, bidirectional controls, tags and invisible operators: Unicode's format characters
# that change what is read and not what is seen. Joiners stay: emoji and scripts need them.
_HIDDEN = lazy_re(
    "[\u00ad\u180e\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0001\U000e0020-\U000e007f]"
)

_FENCE_LINE = lazy_re(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


def check_form(document: Document, settings: Settings) -> Iterator[Finding]:
    """Yield the faults of form of a document."""
    yield from _hidden(document)
    yield from _fences(document)
    if document.is_fixture:
        return  # a test may be about what is wrong with it
    if document.kind == "skill":
        yield from _skill(document, settings)
    elif document.kind == "agent":
        yield from _agent(document)
    elif document.front_matter.problem is not None and document.kind == "command":
        yield _broken(document)


def unreadable_finding(unreadable: Unreadable) -> Finding:
    """Return the finding for a document that could not be read."""
    message = f"the document {unreadable.reason}"
    return fault(unreadable.path, 1, "file-unreadable", unreadable.path, message)


def _skill(document: Document, settings: Settings) -> Iterator[Finding]:
    matter = document.front_matter
    if not matter.is_there:
        message = "the skill has no front matter"
        found = fault(
            document.path, 1, "frontmatter-missing", "SKILL.md", message, "line 1 is not ---"
        )
        yield found.at("warning") if _is_lenient(document) else found
    elif matter.problem is not None and not matter.fields:
        yield _broken(document)
    else:
        if matter.problem is not None:
            yield _broken(document)
        yield from _name(document)
        yield from _description(document, settings.description_budget)
        yield from _other_fields(document)
    body = document.lines[matter.body_line - 1 :]
    if matter.is_there and matter.problem is None and not any(line.strip() for line in body):
        yield fault(
            document.path, matter.body_line, "body-missing", "body", "the skill has no body"
        )
    count = len(document.text.splitlines())
    if count > settings.line_budget:
        message = f"the skill has {count} lines; at most {settings.line_budget} are recommended"
        yield fault(document.path, settings.line_budget + 1, "line-budget", "lines", message)


def _name(document: Document) -> Iterator[Finding]:
    matter = document.front_matter
    name = matter.fields.get("name")
    line = matter.lines.get("name", 1)
    folder = document.folder.rpartition("/")[2]
    if name is None or name == "":
        if not _is_lenient(document):
            yield fault(document.path, line, "name-missing", "name", "the skill has no name")
        return
    if not isinstance(name, str):
        yield _wrong_type(document, "name", name, "a text")
        return
    if not (_NAME.fullmatch(name) and len(name) <= MAX_NAME):
        message = f"the name {name!r} is not 1 to 64 lower-case letters, digits and single hyphens"
        yield fault(document.path, line, "name-format", name, message)
    elif folder and name != folder:
        message = f"the name {name!r} is not that of the folder"
        # Whoever installs the skill may know it by its name, and would rename the folder.
        fix = Fix(line, name, folder, is_safe=False) if _NAME.fullmatch(folder) else None
        yield fault(
            document.path, line, "name-folder", name, message, f"the folder is {folder!r}", fix
        )


def _description(document: Document, budget: int) -> Iterator[Finding]:
    matter = document.front_matter
    text = matter.fields.get("description")
    line = matter.lines.get("description", 1)
    if text is None or (isinstance(text, str) and not text.strip()):
        message = "the skill has no description"
        found = fault(document.path, line, "description-missing", "description", message)
        yield found.at("warning") if _is_lenient(document) else found
    elif not isinstance(text, str):
        yield _wrong_type(document, "description", text, "a text")
    elif len(text) > budget:
        message = f"the description has {len(text)} characters; at most {budget} are asked for"
        yield fault(document.path, line, "description-length", "description", message)


def _is_lenient(document: Document) -> bool:
    """Return whether only Claude Code reads a skill, which takes the folder for the name."""
    return document.clients == frozenset({".claude"})


def _other_fields(document: Document) -> Iterator[Finding]:
    matter = document.front_matter
    known = SPEC_KEYS | CLIENT_KEYS
    for key, value in matter.fields.items():
        if key not in known:
            from difflib import get_close_matches

            # Any client may have keys of its own; one that is nearly a known one is a slip.
            near = get_close_matches(key, known - matter.fields.keys(), 1, _CLOSE)
            if near:
                message = f"the key {key!r} is nearly {near[0]!r}"
                line, fix = (
                    matter.lines.get(key, 1),
                    Fix(matter.lines.get(key, 1), key, near[0], False),
                )
                yield fault(document.path, line, "frontmatter-unknown-key", key, message, fix=fix)
        elif key == "compatibility" and isinstance(value, str) and len(value) > MAX_COMPATIBILITY:
            message = f"`compatibility` has {len(value)} characters; at most 500 are allowed"
            line = matter.lines.get(key, 1)
            yield fault(document.path, line, "compatibility-length", key, message)
        elif key in ("license", "compatibility") and not isinstance(value, str):
            yield _wrong_type(document, key, value, "a text")
        elif key == "allowed-tools" and not _is_tools(value, document):
            yield _wrong_type(document, key, value, "a text of names with spaces between them")
        elif key == "metadata":
            yield from _metadata(document, value)


def _is_tools(value: object, document: Document) -> bool:
    if isinstance(value, str):
        return True
    return document.clients != frozenset({".agents"}) and isinstance(value, list)


def _metadata(document: Document, value: object) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _wrong_type(document, "metadata", value, "a mapping of texts")
        return
    for key, each in cast("dict[Any, Any]", value).items():
        if not isinstance(each, str):
            found = _wrong_type(document, f"metadata.{key}", each, "a text: put it in quotes")
            # Every client that was tried reads over it; only validators refuse it.
            yield found.at("warning")


def _agent(document: Document) -> Iterator[Finding]:
    matter = document.front_matter
    if matter.problem is not None:
        yield _broken(document)
        return
    if not matter.is_there and not document.path.startswith((".agents/", ".claude/")):
        return
    if not matter.fields.get("description"):
        message = "the subagent has no description"
        line = matter.lines.get("description", 1)
        yield fault(document.path, line, "agent-description-missing", "description", message)
    if ".github/" in document.path:
        return  # its name is a title for people
    name = matter.fields.get("name")
    stem = document.path.rpartition("/")[2].removesuffix(".md")
    if name is None and ".opencode/" in document.path:
        return  # OpenCode takes the file's name
    if name != stem or not _NAME.fullmatch(stem):
        message = f"the subagent is called {name!r} in the file {stem}.md"
        yield fault(document.path, matter.lines.get("name", 1), "agent-name", str(name), message)


def _hidden(document: Document) -> Iterator[Finding]:
    if document.text.isascii():
        return
    for number, line in enumerate(document.lines, 1):
        if found := _HIDDEN.search(line):
            sign = f"U+{ord(found.group()):04X}"
            message = f"the line contains the invisible character {sign}"
            at = found.start() + 1
            yield fault(document.path, number, "text-hidden", sign, message, column=at)


def _fences(document: Document) -> Iterator[Finding]:
    blocks = document.markdown.blocks
    if any(block.kind == "html" and _FENCE_LINE.search(block.text) for block in blocks):
        return  # a tag right above a fence swallows it: what opens and what closes is not certain
    for fence in document.markdown.fences:
        if not fence.is_closed:
            message = "the fenced code that begins here is not closed"
            yield fault(
                document.path, fence.line - 1, "fence-unclosed", fence.info or "fence", message
            )


def _broken(document: Document) -> Finding:
    matter = document.front_matter
    problem = matter.problem or ""
    return fault(document.path, matter.problem_line, "frontmatter-invalid", "front matter", problem)


def _wrong_type(document: Document, key: str, value: object, what: str) -> Finding:
    line = document.front_matter.lines.get(key.partition(".")[0], 1)
    message = f"`{key}` is {reprlib.repr(value)}; it must be {what}"
    return fault(document.path, line, "frontmatter-type", key, message)

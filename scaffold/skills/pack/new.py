"""``scaffold skills new``: a skill with the sections that every skill of the pack has."""

from __future__ import annotations

import os
import re
from pathlib import Path

from scaffold.errors import ConflictError, RequestError
from scaffold.report import Report, ReportedChange, Step, unified_diff
from scaffold.skills.blocks.expected import REPAIR
from scaffold.skills.pack.sources import SKILLS, holds_pack
from scaffold.transaction.apply import apply_changes
from scaffold.transaction.change import Change

MAX_NAME = 64
"""Source: the Agent Skills specification; a name has lower-case letters, digits and dashes."""

MAX_DESCRIPTION = 200
"""Clients cut longer lists, so a description has what and when in as much."""

SKILL = """\
---
name: {name}
description: {description}
---

# {title}

One or two sentences: what there is once this is done, and the one command that does it.

## When to use it

- The request that this skill answers, in the words of whoever makes it.
- Not for the nearest other task: name the skill or the command for that one.

## Before you start

- What must be there, and the command that shows whether it is.

## The command first

The command that does the work, and what it prints. Paste a real run: text that was typed goes
stale unseen. The output of a command can be kept in step by a generated block of the kind
`output`, the options of a command by one of the kind `options`.

## Decisions that are yours

| question | choice |
|---|---|
| What only the reader can know | what to do in each case |

## The contract

What must hold of the result. Signatures, tables and templates come from generated blocks of the
kinds `signature`, `registry` and `template`, never from the keyboard.

## Check

The command that proves the result, what it prints, and what to do for each other verdict.

## Common mistakes

| what is seen | what happened |
|---|---|
| A message that was really seen | its cause, and what to do |

## Reference implementations

The files to read as examples: a generated block of the kind `registry` lists them.
"""


def new_skill(start: Path, typed: str, description: str | None, *, dry_run: bool) -> Report:
    """Start a skill in the nearest repository.

    Args:
        typed: The name, in any spelling.
        description: What it is for and when; None for a text to be replaced.

    Raises:
        RequestError: The name or the description cannot be a skill's.
        ConflictError: A skill of this name is there.
    """
    name = skill_name(typed)
    root = _root(start)
    path = f"{SKILLS}/{name}/SKILL.md"
    # lexists: a dangling link would be written through.
    if os.path.lexists(root / SKILLS / name):
        raise ConflictError(f"{SKILLS}/{name} is there already", code="file_exists")
    data = _text(name, description).encode()
    report = Report("skills new", dry_run=dry_run)
    report.changes = (ReportedChange(path, "created", unified_diff(path, None, data)),)
    report.next = tuple(_steps(path, data.decode(), description is None))
    report.check = (("scaffold", "skills", "check"), tuple(REPAIR.split()))
    if not dry_run:
        apply_changes(root, [Change(path, "created", None, data)], "skills new")
    return report


def skill_name(typed: str) -> str:
    """Return a name as a skill's folder is called: ``Add metric`` becomes ``add-metric``.

    Raises:
        RequestError: Nothing of the kind can be made of it.
    """
    # camelCase is split before the case is folded.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", typed.strip())
    name = re.sub(r"[\s_-]+", "-", words).strip("-").lower()
    if not name:
        raise RequestError("a skill needs a name", code="name_empty", hint="such as add-metric")
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise RequestError(
            f"{typed!r} has characters that are not allowed in a skill name",
            code="name_characters",
            hint="letters of ASCII, digits and dashes: a verb and a noun, such as add-metric",
        )
    if len(name) > MAX_NAME:
        raise RequestError(
            f"a skill's name has at most {MAX_NAME} characters, not {len(name)}",
            code="name_length",
            hint="a verb and a noun, such as add-metric",
        )
    return name


def _root(start: Path) -> Path:
    """Return where ``.agents`` is or goes: the nearest folder with it, else the git root."""
    for folder in (start, *start.parents):
        if holds_pack(folder) or (folder / ".git").exists():
            return folder
    return start


def _text(name: str, description: str | None) -> str:
    title = name.replace("-", " ").capitalize()
    if description is None:
        description = (
            f"{title}, with its test. Use when the request is to {name.replace('-', ' ')}."
        )
    description = " ".join(description.split())
    if not description or len(description) > MAX_DESCRIPTION:
        raise RequestError(
            f"a description has 1 to {MAX_DESCRIPTION} characters, not {len(description)}",
            code="answer_invalid",
            hint="describe what it does and when to use it; details go into the text",
        )
    return SKILL.format(name=name, description=_scalar(description), title=title)


def _scalar(text: str) -> str:
    """Return text as one YAML scalar, in quotes where it would read as something else."""
    import json

    is_plain = re.fullmatch(r"[A-Za-z][^:#\x00-\x1f]*", text) and text.lower() not in (
        "true", "false", "null", "yes", "no", "on", "off",
    )  # fmt: skip
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _steps(path: str, text: str, is_bare: bool) -> list[Step]:
    rows = text.splitlines()
    # Line 3 of SKILL is the description.
    steps = [Step(path, 3, "describe what it does and when to use it")] if is_bare else []
    first = next(n for n, row in enumerate(rows, start=1) if row.startswith("# "))
    return [
        *steps,
        Step(path, first + 2, "replace the description of each section by its content"),
    ]

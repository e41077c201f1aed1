"""The proof of a draft, before it is shown: siblings are left out in turn and made again.

What is learned without a sibling has to give its paths and its registry lines; and the lines of a
unit that nobody has have to go into the registries and out without a trace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import ConflictError, ScaffoldError
from scaffold.target.target import Target, key_names
from scaffold.templating.manifests import Catalogue, TemplateSource
from scaffold.templating.render import RenderedFile, render_request
from scaffold.templating.request import Request
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.templating.spec import fill
from scaffold.units.init.draft import STYLE, Draft
from scaffold.units.init.family import read_text
from scaffold.units.init.rules import Rule, Step
from scaffold.units.init.spellings import Name
from scaffold.units.prepare import request_for

PROBE = "probe_unit"
"""The name of the unit that a draft is tried with."""

MAX_LEFT_OUT = 3
"""How many siblings are made again."""


@dataclass(frozen=True)
class MadeAgain:
    """What came of a sibling that was left out.

    Args:
        key: Its name.
        paths: How many of its files are at the paths that the others give, and how many of those
            that it should have.
        entries: How many of the registry lines are there, and how many it should have.
        lines: How many lines of the templates are in its files, and how many there are.
    """

    key: str
    paths: tuple[int, int]
    entries: tuple[int, int]
    lines: tuple[int, int]

    def describe(self) -> str:
        """Return what came of it, as one line."""
        counts = [self.paths, self.entries, self.lines]
        names = ("files", "registry lines", "lines of text")
        shown = ", ".join(
            f"{done} of {all_} {name}" for (done, all_), name in zip(counts, names, strict=True)
        )
        return f"proof     {self.key} left out and generated again: {shown}"


def prove(
    target: Target, draft: Draft, files: Mapping[str, bytes]
) -> tuple[Draft, tuple[str, ...]]:
    """Try a draft out on a unit that nobody has.

    Returns:
        The draft without what did not prove right, and warnings about that.

    Raises:
        ConflictError: The source itself cannot be made a template of.
    """
    notes: list[str] = []
    kept = [file for file in draft.files if file.template is None]
    for file in draft.made:
        alone = replace(
            draft, files=tuple(dict.fromkeys([draft.made[0], file])), rules=(), steps=()
        )
        try:
            if file.to == file.path:
                raise ConflictError("it would be the same file for every unit", code="usage")
            tried(target, alone, PROBE)
        except ScaffoldError as error:
            notes.append(f"{file.path} makes no template: {error.message}")
            continue
        kept.append(file)
    draft = replace(draft, files=tuple(file for file in draft.files if file in kept))
    if not draft.made or draft.made[0].role != "source":
        raise ConflictError(
            f"no template came of {draft.family.unit.home}: " + "; ".join(notes),
            code="template_invalid",
            hint="give another unit with --like",
        )
    rules: list[Rule] = []
    steps = list(draft.steps)
    alone = replace(draft, files=draft.made[:1], steps=())
    try:
        entries = tried(target, alone, PROBE)[0].entries()
    except ScaffoldError as error:
        raise ConflictError(
            f"the registry lines make no kind: {error.message}", code="template_invalid"
        ) from error
    for rule, entry in zip(draft.rules, entries, strict=True):
        reason = _fault(entry, files[rule.entry.file])
        if not reason:
            rules.append(rule)
            continue
        notes.append(f"{rule.entry.file}:{rule.line} is left to you: {reason}")
        row = read_text(files, rule.entry.file).splitlines()[rule.line - 1].strip()
        steps.append(Step(rule.entry.file, f"add the like of what {rule.unit} has: {row}"))
    return replace(draft, rules=tuple(rules), steps=tuple(steps)), tuple(notes)


def tried(target: Target, draft: Draft, key: str) -> tuple[Request, tuple[RenderedFile, ...]]:
    """Make a unit of the proposed kind, as `scaffold add` would, and write nothing of it."""
    with tempfile.TemporaryDirectory(prefix="scaffold-init-") as name:
        folder = Path(name)
        for path, data in draft.texts().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        catalogue = Catalogue(TemplateSource("repository", folder / OWN_TEMPLATES))
        kind = catalogue.kind(draft.kind)
        style = catalogue.style(draft.kind, STYLE)
        unit = draft.family.names.get(key, Name(key))
        request = request_for(target, kind, (style,), key, draft.answers(unit))
        return request, render_request(request, catalogue.files(kind.name, request.support))


def _fault(entry: Entry, data: bytes) -> str:
    """Return why a line cannot be written for another unit, "" where it can."""
    try:
        added = shapes.add_entry(data, entry)
        if added.data == data or shapes.remove_entry(added.data, entry) != data:
            return f"a line like it does not go in and out of {entry.file} without a trace"
    except ScaffoldError as error:
        return error.message
    return ""


def make_again(
    draft: Draft,
    files: Mapping[str, bytes],
    learn: Callable[[str], Draft],
) -> tuple[MadeAgain, ...]:
    """Leave siblings out in turn, and compare what the others give with what these have.

    Args:
        draft: What was learned from all.
        files: The repository's text files.
        learn: Returns what is learned without the sibling of a key.
    """
    # With two units, what is left is one, which shows nothing of the kind.
    siblings = draft.family.siblings[:MAX_LEFT_OUT] if len(draft.family.siblings) > 1 else ()
    return tuple(_made_again(learn(each.key), draft, each.key, files) for each in siblings)


def _made_again(learned: Draft, draft: Draft, key: str, files: Mapping[str, bytes]) -> MadeAgain:
    unit = next(each for each in draft.family.siblings if each.key == key)
    names = {**key_names(key), **learned.answers(unit.name)}
    paths = [
        (fill(file.to, names), file) for file in learned.files if file.common in draft_roles(draft)
    ]
    own = set(unit.paths.values())
    done = [(path, file) for path, file in paths if path in own]
    lines = [0, 0]
    for path, file in done:
        if file.template is None:
            continue
        theirs = {row.strip() for row in read_text(files, path).splitlines()}
        for row in _rows_of(file.template, names):
            lines[1] += 1
            lines[0] += row in theirs
    # What a registry knows a unit by, nobody can say of one that is left out.
    rules = [rule for rule in learned.rules if not (rule.question and rule.question.is_key)]
    entries = [_is_there(rule.entry, names, files) for rule in rules]
    return MadeAgain(
        key, (len(done), len(paths)), (sum(entries), len(entries)), (lines[0], lines[1])
    )


def draft_roles(draft: Draft) -> frozenset[str]:
    """Return the common paths of a draft's files."""
    return frozenset(file.common for file in draft.files)


def _rows_of(template: str, names: Mapping[str, str]) -> list[str]:
    text = template.replace('{{ "{" }}', "{").replace('{{ "\\r" }}', "")
    for name, value in names.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    rows = (row.strip() for row in text.splitlines())
    return [
        row for row in rows if row and "YOURS:" not in row and row != "raise NotImplementedError"
    ]


def _is_there(entry: Entry, names: Mapping[str, str], files: Mapping[str, bytes]) -> bool:
    try:
        key = fill(entry.key, names)
        rows = shapes.read_entries(files[entry.file], replace(entry, key=key, value=""))
        return key in rows
    except ScaffoldError:
        return False

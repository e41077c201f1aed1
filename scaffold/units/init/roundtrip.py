"""The proof of a draft: it is tried on its example and on another unit before it is shown.

The templates have to give the example's own files back, its registry lines have to be found as they
are, and those of another unit have to go in and out without a trace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import ConflictError, ScaffoldError
from scaffold.target.restyle import find_file_style, restyle
from scaffold.target.target import Target
from scaffold.templating.manifests import Catalogue, TemplateSource
from scaffold.templating.render import RenderedFile, render_request
from scaffold.templating.request import MANUAL, Request
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.units.init.draft import STYLE, Draft, Rule, manual, without_mark
from scaffold.units.init.example import OtherLine, UnitFile
from scaffold.units.prepare import request_for

PROBE = "probe_unit"
"""The name of the unit that a draft is tried with."""


def prove(
    target: Target,
    draft: Draft,
    warnings: Iterable[str],
    files: Mapping[str, bytes],
    *,
    with_format: bool = True,
) -> tuple[Draft, tuple[str, ...]]:
    """Try a draft out on its example and on another unit.

    Args:
        target: Where it is to hold.
        draft: The kind.
        warnings: What is known to be left out.
        files: The repository's text files.
        with_format: Whether the target's formatters are asked what they would write.

    Returns:
        The draft without what did not prove right, and warnings about that.

    Raises:
        ConflictError: The source itself cannot be made a template of.
    """
    notes = list(warnings)
    kept = _proven_files(target, draft, notes, with_format)
    draft = replace(draft, files=tuple(kept))
    if not kept or kept[0].role != "source":
        raise ConflictError(
            f"{draft.example.files[0].path} does not come back from a template of it: "
            + "; ".join(notes),
            code="template_invalid",
            hint="give another unit with --like",
        )
    rules = [_proven_rule(target, draft, rule, files, notes) for rule in draft.rules]
    return replace(draft, rules=tuple(rule for rule in rules if rule)), tuple(notes)


def _tried(target: Target, draft: Draft, key: str) -> tuple[Request, tuple[RenderedFile, ...]]:
    """Make a unit of the proposed kind, as `scaffold add` would, and write nothing of it."""
    with tempfile.TemporaryDirectory(prefix="scaffold-init-") as name:
        folder = Path(name)
        for path, data in draft.texts().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        catalogue = Catalogue(TemplateSource("repository", folder / OWN_TEMPLATES))
        kind = catalogue.kind(draft.kind)
        style = catalogue.style(draft.kind, STYLE)
        request = request_for(target, kind, (style,), key, {})
        return request, render_request(request, catalogue.files(kind.name))


def _proven_files(
    target: Target, draft: Draft, notes: list[str], with_format: bool
) -> list[UnitFile]:
    """Return the files that come back byte for byte, and that another unit can have."""
    kept: list[UnitFile] = []
    bare = replace(draft, rules=())
    for file in draft.files:
        # The source goes along: its path is what the kind's manifest needs.
        alone = replace(bare, files=tuple(dict.fromkeys([draft.files[0], file])))
        try:
            _, rendered = _tried(target, alone, draft.example.spelling.key)
            # A template may give the example back and still fail for any other name.
            _tried(target, alone, PROBE)
        except ScaffoldError as error:
            notes.append(f"{file.path} makes no template: {error.message}")
            continue
        # The source comes first, the file that is tried last.
        made = rendered[-1]
        data = without_mark(made.data, draft.example.spelling.key)
        if (made.path, data) == (file.path, file.data):
            kept.append(file)
        else:
            notes.append(f"{file.path} does not come back from a template of it; left out")
    if kept:
        notes += _formatted(target, replace(bare, files=tuple(kept)), with_format)
    return kept


def _formatted(target: Target, draft: Draft, with_format: bool) -> list[str]:
    """Return warnings about files that the target's formatters would write otherwise."""
    request, rendered = _tried(target, draft, draft.example.spelling.key)
    file_style = find_file_style(target, request.names)
    restyled, warnings = restyle(target, rendered, file_style, with_format=with_format)
    changed = [
        file.path
        for file, was in zip(restyled, rendered, strict=True)
        if without_mark(file.data, draft.example.spelling.key)
        != without_mark(was.data, draft.example.spelling.key)
    ]
    return [*warnings, *(f"the formatters would write {path} otherwise" for path in changed)]


def _proven_rule(
    target: Target, draft: Draft, rule: Rule, files: Mapping[str, bytes], notes: list[str]
) -> Rule | None:
    """Return a rule that holds for the example and another unit, else one for a person."""
    alone = replace(draft, files=draft.files[:1], rules=(rule,))
    data = files[rule.file]
    try:
        (own,) = _tried(target, alone, draft.example.spelling.key)[0].entries()
        (other,) = _tried(target, alone, PROBE)[0].entries()
        # A line for a person has only to read as it is in the file.
        if rule.entry.shape == MANUAL:
            return rule if own.key in data.decode("utf-8") else None
        _check_entry(data, own, other)
    except ScaffoldError as error:
        row = data.decode("utf-8").splitlines()[rule.line - 1]
        notes.append(f"{rule.file}:{rule.line} is left to a person: {error.message}")
        entry = manual(OtherLine(rule.file, rule.line, row), draft.example.spelling)
        return None if entry is None else Rule(entry, rule.file, rule.line)
    return rule


def _check_entry(data: bytes, own: Entry, other: Entry) -> None:
    """Raise ConflictError where the example's line is not there, or another's leaves a trace."""
    added = shapes.add_entry(data, other)
    sound = (
        shapes.add_entry(data, own).data == data
        and added.data != data
        and shapes.remove_entry(added.data, other) == data
    )
    if not sound:
        raise ConflictError(
            f"a line like it does not go in and out of {own.file} without a trace",
            code="registry_computed",
        )

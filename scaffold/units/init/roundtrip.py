"""The proof of a proposal: it is tried on its example and on another unit before it is shown.

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
from scaffold.target.restyle import dress, manner_of
from scaffold.target.target import Target
from scaffold.templating.manifests import Catalogue, TemplateSource
from scaffold.templating.render import RenderedFile, render_request
from scaffold.templating.request import MANUAL, Request
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.units.init.draft import STYLE, Proposal, Rule, manual, without_mark
from scaffold.units.init.example import OtherLine, UnitFile
from scaffold.units.prepare import request_for

PROBE = "probe_unit"
"""The name of the unit that a proposal is tried with."""


def prove(
    target: Target,
    proposal: Proposal,
    warnings: Iterable[str],
    files: Mapping[str, bytes],
    *,
    with_format: bool = True,
) -> tuple[Proposal, tuple[str, ...]]:
    """Try a proposal out on its example and on another unit.

    Args:
        target: Where it is to hold.
        proposal: The kind.
        warnings: What is known to be left out.
        files: The repository's text files.
        with_format: Whether the target's formatters are asked what they would write.

    Returns:
        The proposal without what did not prove right, and warnings about that.

    Raises:
        ConflictError: The source itself cannot be made a template of.
    """
    notes = list(warnings)
    kept = _proven_files(target, proposal, notes, with_format)
    proposal = replace(proposal, files=tuple(kept))
    if not kept or kept[0].role != "source":
        raise ConflictError(
            f"{proposal.likeness.files[0].path} does not come back from a template of it: "
            + "; ".join(notes),
            code="template_invalid",
            hint="give another unit with --like",
        )
    rules = [_proven_rule(target, proposal, rule, files, notes) for rule in proposal.rules]
    return replace(proposal, rules=tuple(rule for rule in rules if rule)), tuple(notes)


def _tried(
    target: Target, proposal: Proposal, key: str
) -> tuple[Request, tuple[RenderedFile, ...]]:
    """Make a unit of the proposed kind, as `scaffold add` would, and write nothing of it."""
    with tempfile.TemporaryDirectory(prefix="scaffold-init-") as name:
        folder = Path(name)
        for path, data in proposal.texts().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        catalogue = Catalogue(TemplateSource("repository", folder / OWN_TEMPLATES))
        kind = catalogue.kind(proposal.kind)
        style = catalogue.style(proposal.kind, STYLE)
        request = request_for(target, kind, (style,), key, {})
        return request, render_request(request, catalogue.files(kind.name))


def _proven_files(
    target: Target, proposal: Proposal, notes: list[str], with_format: bool
) -> list[UnitFile]:
    """Return the files that come back byte for byte, and that another unit can have."""
    kept: list[UnitFile] = []
    bare = replace(proposal, rules=())
    for file in proposal.files:
        # The source goes along: its path is what the kind's manifest needs.
        alone = replace(bare, files=tuple(dict.fromkeys([proposal.files[0], file])))
        try:
            _, rendered = _tried(target, alone, proposal.likeness.spelling.key)
            _tried(target, alone, PROBE)
        except ScaffoldError as error:
            notes.append(f"{file.path} makes no template: {error.message}")
            continue
        made = rendered[-1]
        data = without_mark(made.data, proposal.likeness.spelling.key)
        if (made.path, data) == (file.path, file.data):
            kept.append(file)
        else:
            notes.append(f"{file.path} does not come back from a template of it; left out")
    if kept:
        notes += _formatted(target, replace(bare, files=tuple(kept)), with_format)
    return kept


def _formatted(target: Target, proposal: Proposal, with_format: bool) -> list[str]:
    """Return warnings about files that the target's formatters would write otherwise."""
    request, rendered = _tried(target, proposal, proposal.likeness.spelling.key)
    manner = manner_of(target, request.names)
    dressed, warnings = dress(target, rendered, manner, with_format=with_format)
    changed = [
        file.path
        for file, was in zip(dressed, rendered, strict=True)
        if without_mark(file.data, proposal.likeness.spelling.key)
        != without_mark(was.data, proposal.likeness.spelling.key)
    ]
    return [*warnings, *(f"the formatters would write {path} otherwise" for path in changed)]


def _proven_rule(
    target: Target, proposal: Proposal, rule: Rule, files: Mapping[str, bytes], notes: list[str]
) -> Rule | None:
    """Return a rule that holds for the example and another unit, else one for a person."""
    alone = replace(proposal, files=proposal.files[:1], rules=(rule,))
    data = files[rule.file]
    try:
        (own,) = _tried(target, alone, proposal.likeness.spelling.key)[0].entries()
        (other,) = _tried(target, alone, PROBE)[0].entries()
        if rule.entry.shape == MANUAL:
            return rule if own.key in data.decode("utf-8") else None
        _check_entry(data, own, other)
    except ScaffoldError as error:
        row = data.decode("utf-8").splitlines()[rule.line - 1]
        notes.append(f"{rule.file}:{rule.line} is left to a person: {error.message}")
        entry = manual(OtherLine(rule.file, rule.line, row), proposal.likeness.spelling)
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

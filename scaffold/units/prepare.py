"""What is asked for, settled: the target, the request and what is there already.

Nothing here renders or edits, so that a command that has nothing to do stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from scaffold.errors import RequestError
from scaffold.report import Report
from scaffold.target.target import Target, describe, registry_rules, unit_names
from scaffold.templating.answers import answers_by_name, complete_answers
from scaffold.templating.names import canonical_key, check_top_level
from scaffold.templating.request import Request, destinations
from scaffold.templating.spec import Kind, Style, all_answers
from scaffold.transaction.state import has_journal
from scaffold.units.context import Options, origin_warnings
from scaffold.units.existing import existing_unit, nothing_to_do

if TYPE_CHECKING:
    from scaffold.units.columns import ColumnMap


class Prepared(NamedTuple):
    """A settled request.

    Args:
        target: Where the unit goes.
        request: The unit.
        report: What is known so far.
        is_made: Whether the unit exists, made with the same answers; the report is whole then.
    """

    target: Target
    request: Request
    report: Report
    is_made: bool = False


def prepare(
    kind: Kind, typed: str, styles: Iterable[str], given: Mapping[str, Any], options: Options
) -> Prepared:
    """Settle the request for one unit of a kind: its target, name and answers.

    Raises:
        RequestError: A name, a style or an answer is wrong.
        ConflictError: The unit exists, made with other answers.
    """
    command = kind.command or f"add {kind.name}"
    target, settled = options.find_settled(command)
    chosen = target.catalogue.styles(kind, styles)
    _check_framework(target, kind, chosen)
    key = canonical_key(typed, kind.suffixes, kind.reserved, is_top_level=False)
    given, columns = _sampled(kind, chosen, given, options)
    request = replace(
        request_for(target, kind, chosen, key, given),
        overwrite=options.overwritten(target.root),
    )
    _check_hidden(target, request, typed)
    report = Report(command, describe(target), dry_run=options.dry_run)
    report.check = (options.command("verify", request.id),)
    report.warnings += (*settled, *origin_warnings(request))
    if columns is not None:
        report.found = columns.lines()
        report.warnings += _lacking(options, columns)
        report.extra["columns"] = [vars(match) for match in columns.matches]
    made = existing_unit(target.root, request)
    # With a run left over, what is made is only known once that is settled, under the lock.
    if made is None or has_journal(target.root):
        return Prepared(target, request, report)
    report = nothing_to_do(report, target.root, request, made, options)
    return Prepared(target, request, report, is_made=True)


def request_for(
    target: Target,
    kind: Kind,
    styles: tuple[Style, ...],
    key: str,
    given: Mapping[str, Any],
    otherwise: Mapping[str, str] | None = None,
) -> Request:
    """Return the request for one unit in a target, its answers checked and its names derived."""
    names = names_of(target, kind, key, styles, otherwise)
    questions = all_answers(kind, styles)
    given = {name: value for name, value in given.items() if value is not None}
    answers = complete_answers(questions, {**answers_by_name(questions, names), **given})
    return Request(kind, styles, key, answers, names, registry_rules(target, kind, styles))


def names_of(
    target: Target,
    kind: Kind,
    key: str,
    styles: tuple[Style, ...],
    otherwise: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the names of a unit; of several styles none has a say in them."""
    own = None if kind.multiple or not styles else styles[0].names
    return unit_names(target, kind, key, "" if kind.multiple else styles[0].name, otherwise, own)


def _lacking(options: Options, columns: ColumnMap) -> tuple[str, ...]:
    """Return what to say of rows that lack a column that was found."""
    from scaffold.units.sample import lacking_rows  # brings readers of data

    used = dict.fromkeys(name for match in columns.matches for name in match.columns)
    told = lacking_rows(options.sample_path(), tuple(used))
    return (told,) if told else ()


def _check_hidden(target: Target, request: Request, typed: str) -> None:
    """Refuse a module beside no package of the name of one of the standard library.

    Inside a package `math` hides nothing: `import math` means the standard library there.
    """
    for path in map(PurePosixPath, destinations(request)):
        folders = [str(each) for each in path.parents if each.name]
        is_inside = target.package_folder in folders or any(
            (target.root / each / "__init__.py").is_file() for each in folders
        )
        if path.suffix == ".py" and not is_inside:
            check_top_level(typed, path.stem)


def _check_framework(target: Target, kind: Kind, styles: tuple[Style, ...]) -> None:
    """Refuse what is written for the training package where another framework loads it."""
    place = target.place(kind)
    wanted = "" if place is None else place.framework
    wrong = [style.name for style in styles if wanted and style.framework != wanted]
    if wrong:
        names = target.catalogue.style_names(kind.name)
        fitting = [n for n in names if target.catalogue.style(kind.name, n).framework == wanted]
        raise RequestError(
            f"a {kind.name} of style {wrong[0]} is written for areal, and {target.root} is a "
            f"place for those of {wanted}",
            code="usage",
            hint=f"give --{kind.option} {' or '.join(fitting)}",
        )


def _sampled(
    kind: Kind, styles: tuple[Style, ...], given: Mapping[str, Any], options: Options
) -> tuple[Mapping[str, Any], ColumnMap | None]:
    """Return the answers, completed from the sample if there is one."""
    if options.sample is None:
        return given, None
    questions = all_answers(kind, styles)
    if not any(row.default_from.startswith("sample:") for row in questions.values()):
        names = ", ".join(style.name for style in styles)
        raise RequestError(
            f"--from shows nothing that the {kind.option} {names} asks for",
            code="usage",
            hint="leave --from out",
        )
    from scaffold.units.sample import answers_from_sample  # brings readers of data

    names = [style.name for style in styles]
    return answers_from_sample(options.sample_path(), all_answers(kind, styles), names, given)

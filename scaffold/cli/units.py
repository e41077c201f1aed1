"""The commands on units: they parse, call one function and return its report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.groups import catalogue_of
from scaffold.cli.options import (
    DRY_RUN,
    NO_FORMAT,
    NO_INPUT,
    PYTHON,
    command,
    log,
    may_ask,
    options_of,
)
from scaffold.templating.sources import made_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    from scaffold.report import Report
    from scaffold.target.target import Target
    from scaffold.units.update import Writer

WRITERS = {"archon": "scaffold.archon.update:update_model"}
"""What brings the units of a kind without templates up to date, by the kind's writer."""


def _complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    target = ctx.params.get("target")
    ids = made_ids(["--target", target] if target else [])
    return [CompletionItem(each) for each in ids if each.startswith(incomplete)]


def _complete_template(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    catalogue = catalogue_of(ctx)
    kinds = catalogue.kind_names()
    found = [
        *kinds,
        *(f"{kind}/{style}" for kind in kinds for style in catalogue.style_names(kind)),
    ]
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]


def writer_of(name: str) -> Writer:
    """Return the writer that a kind's manifest names."""
    module, _, attribute = WRITERS[name].partition(":")
    return getattr(import_module(module), attribute)


def _agree(draft: str) -> bool:
    click.echo(draft, err=True, nl=False)
    return click.confirm("Write this?", err=True)


@command(
    "init",
    click.Option(
        ["--like"], metavar="PATH_OR_NAME", help="Existing unit in Python to derive a kind from."
    ),
    click.Option(["--kind"], default="", metavar="KIND", help="Name of the kind."),
    click.Option(["--yes"], is_flag=True, help="Write the proposal without asking."),
    click.Option(["--no-import"], is_flag=True, help="Do not run code of the repository."),
    PYTHON,
    DRY_RUN,
    NO_INPUT,
)
def init(
    like: str | None, kind: str, yes: bool, no_import: bool, python: str | None, **values: Any
) -> Report:
    """Create a template from existing units.

    It proposes a configuration and, with --like, a kind derived from what an existing unit has in
    common with its siblings: files, registry lines, spellings of the name. A unit generated from
    the draft is imported in a copy of the repository.
    """
    from scaffold.units.init.command import InitOptions, init_repository
    from scaffold.verify.imports import importer_for

    def importer(target: Target, paths: Iterable[str]) -> Any:
        return importer_for(target, python, paths)

    can_ask = not values["dry_run"] and may_ask(values["no_input"], values["as_json"])
    ask = _agree if can_ask else None
    run = None if no_import else importer
    return init_repository(InitOptions(like, kind, yes, ask, run), options_of(values))


@command("list")
def list_(**values: Any) -> Report:
    """List templates and generated units."""
    from scaffold.units.list import list_templates

    return list_templates(options_of(values))


@command("target")
def target(**values: Any) -> Report:
    """Show where generated files go in this repository."""
    from scaffold.units.list import explain_target

    return explain_target(options_of(values))


@command(
    "status",
    click.Option(["--fix"], is_flag=True, help="Restore missing registry entries."),
    DRY_RUN,
)
def status(fix: bool, **values: Any) -> Report:
    """Show which generated files are edited, missing or outdated."""
    from scaffold.units.status import fix_registries, show_status

    options = options_of(values)
    return fix_registries(options) if fix else show_status(options)


@command("show", click.Argument(["id"], shell_complete=_complete_id))
def show(id: str, **values: Any) -> Report:
    """Show one unit in full.

    ID is kind/name, or a name that is unique.
    """
    from scaffold.units.show import show_unit

    return show_unit(id, options_of(values))


@command(
    "verify",
    click.Argument(["ids"], nargs=-1, metavar="[ID]...", shell_complete=_complete_id),
    PYTHON,
    click.Option(
        ["--allow-stub"], is_flag=True, help="Accept places marked YOURS that are not written yet."
    ),
    click.Option(["--data"], metavar="PATH", help="Your own rows to run it on (JSONL)."),
    click.Option(
        ["--completions"],
        metavar="PATH",
        help="Your own completions (JSONL): rows with a column completion, for a reward also "
        "reward. [default: the .jsonl beside the unit's test, if there is one]",
    ),
    click.Option(
        ["--check"], is_flag=True, help="Write nothing; fail if a rendered file is stale."
    ),
    click.Option(
        ["--timeout"],
        type=click.FloatRange(min=1),
        default=300.0,
        metavar="SECONDS",
        help="Seconds for tests, and for episodes, of each unit. [default: 300]",
    ),
)
def verify(ids: tuple[str, ...], **values: Any) -> Report:
    """Run every check that a unit needs, and give a verdict.

    For each ID, or for all units, it checks contract, style and types, runs the unit's tests, its
    registry's tests and real episodes, and updates the pages that list the registry. This executes
    the target's code.
    """
    from scaffold.archon.update import verify_and_register
    from scaffold.verify.command import Trial

    how = Trial(
        values["python"],
        values["allow_stub"],
        values["data"],
        values["completions"],
        values["timeout"],
        renews=not values["check"],
    )
    return verify_and_register(ids, how, log, options_of(values))


@command(
    "remove",
    click.Argument(["id"], shell_complete=_complete_id),
    click.Option(
        ["--discard-edits", "discard"],
        multiple=True,
        metavar="ID",
        help="Delete the edited files of this unit too, after copying them.",
    ),
    DRY_RUN,
)
def remove(id: str, discard: tuple[str, ...], **values: Any) -> Report:
    """Delete generated files; keep those you edited.

    ID is kind/name, or a name that is unique.
    """
    from scaffold.units.remove import remove_unit

    return remove_unit(id, discard, options_of(values))


@command(
    "update",
    click.Argument(["ids"], nargs=-1, metavar="[ID]...", shell_complete=_complete_id),
    click.Option(
        ["--set", "settings"],
        multiple=True,
        metavar="NAME=VALUE",
        help="Answer to change, for one unit (repeatable).",
    ),
    NO_FORMAT,
    DRY_RUN,
)
def update(ids: tuple[str, ...], settings: tuple[str, ...], **values: Any) -> Report:
    """Apply newer template versions to generated files.

    Conflicts are marked in the file and reported; the exit status is then 1.
    """
    from scaffold.units.update import update_units

    return update_units(ids, settings, options_of(values), writer_of)


@command("eject", click.Argument(["template"], shell_complete=_complete_template), DRY_RUN)
def eject(template: str, **values: Any) -> Report:
    """Copy a template into the repository to change it.

    TEMPLATE is kind/style, or a kind for the files that its styles share.
    """
    from scaffold.units.maintain import eject_template

    return eject_template(template, options_of(values))


@command("trust", click.Option(["--revoke"], is_flag=True, help="Revoke all permissions."), DRY_RUN)
def trust(revoke: bool, **values: Any) -> Report:
    """Allow the formatters of the repository itself to run.

    These are formatters in its .venv, and commands in [tool.scaffold].format that
    are not known formatters. Read them first: they can be any program. Each
    allowed command is remembered outside the repository.
    """
    from scaffold.units.maintain import trust_target

    return trust_target(revoke, options_of(values))


@command(
    "recover",
    click.Option(
        ["--keep-edited"], is_flag=True, help="Keep files that changed after the interruption."
    ),
    DRY_RUN,
)
def recover(keep_edited: bool, **values: Any) -> Report:
    """Finish or undo an interrupted command."""
    from scaffold.units.maintain import recover_target

    return recover_target(keep_edited, options_of(values))


@command("uninstall", DRY_RUN)
def uninstall(**values: Any) -> Report:
    """Forget all generated units; keep their code."""
    from scaffold.units import maintain

    return maintain.uninstall(options_of(values))


COMMANDS = (
    init, list_, target, status, show, verify, remove, update, eject, trust, recover, uninstall,
)  # fmt: skip

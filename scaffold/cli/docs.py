"""The commands of documents in two languages: they parse, call one function, return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import DRY_RUN, FORMAT
from scaffold.cli.working_folder import start_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaffold.report import Report


def add_docs_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Add every command of ``scaffold docs`` to its group.

    Args:
        group: The group ``docs``.
        target: The option --target, as all commands have it.
        json: The option --json.
    """

    def add(name: str, body: Callable[..., Report], params: list[click.Parameter]) -> None:
        options = [*params, target, json]
        group.add_command(click.Command(name, params=options, callback=body, help=body.__doc__))

    add("status", docs_status, [])
    add("plan", docs_plan, _PLAN)
    add("check", docs_check, _CHECK)
    add("adopt", docs_adopt, _ADOPT)


_PLAN: list[click.Parameter] = [
    click.Argument(["page"]),
    click.Option(
        ["--all", "everything"], is_flag=True, help="Include sections that are up to date."
    ),
    click.Option(
        ["--section", "keys"], multiple=True, metavar="KEY", help="Section to print (repeatable)."
    ),
]
_CHECK: list[click.Parameter] = [
    click.Argument(["pages"], nargs=-1, metavar="[PAGE]..."),
    FORMAT,
]


_ADOPT: list[click.Parameter] = [
    click.Argument(["pages"], nargs=-1, metavar="[PAGE]..."),
    click.Option(["--glossary"], is_flag=True, help="Also start a glossary if there is none."),
    DRY_RUN,
]


def docs_status(**values: Any) -> Report:
    """List missing and stale translations.

    Sections are dated by their markers, or, without markers, by git's history.
    """
    from scaffold.translation.command import docs_status

    return docs_status(start_folder(values["target"]))


def docs_plan(page: str, everything: bool, keys: tuple[str, ...], **values: Any) -> Report:
    """Print what is needed to translate a page.

    PAGE is a page or its translation. For each missing or stale section it prints the source, what
    changed, the current translation, the terms, and the marker to write.
    """
    from scaffold.translation.command import docs_plan

    return docs_plan(start_folder(values["target"]), page, keys, everything=everything)


def docs_check(pages: tuple[str, ...], form: str, **values: Any) -> Report:
    """Check that translations match their sources.

    PAGE is a page or its translation. [default: all] It compares headings, lists, tables, code,
    links, numbers and terms.
    """
    from scaffold.translation.command import docs_check

    return docs_check(start_folder(values["target"]), pages, form)


def docs_adopt(pages: tuple[str, ...], glossary: bool, dry_run: bool, **values: Any) -> Report:
    """Write markers into translations that have none.

    PAGE is a page or its translation. [default: all] A marker names the source version at the
    commit that last changed the translated section, so outdated sections stay stale. --glossary
    takes terms of the field that most of the existing translations use.
    """
    from scaffold.translation.command import docs_adopt

    return docs_adopt(start_folder(values["target"]), pages, dry_run=dry_run, glossary=glossary)

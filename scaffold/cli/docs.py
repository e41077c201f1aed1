"""The commands of documents in two languages: they parse, call one function, return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import FORMAT
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


_PLAN: list[click.Parameter] = [
    click.Argument(["page"]),
    click.Option(["--all", "everything"], is_flag=True, help="Show up-to-date sections, too."),
    click.Option(
        ["--section", "keys"], multiple=True, metavar="KEY", help="Only this one (repeatable)."
    ),
]
_CHECK: list[click.Parameter] = [
    click.Argument(["pages"], nargs=-1, metavar="[PAGE]..."),
    FORMAT,
]


def docs_status(**values: Any) -> Report:
    """Return which Chinese pages are missing or behind.

    It tells so section by section, from the marker that each translated section carries.
    """
    from scaffold.translation.command import docs_status

    return docs_status(start_folder(values["target"]))


def docs_plan(page: str, everything: bool, keys: tuple[str, ...], **values: Any) -> Report:
    """Give all that is needed to translate a page.

    PAGE is a page or its translation. For each section that is missing or behind it tells the
    source, what changed since, the translation so far, the terms, and the marker to write.
    """
    from scaffold.translation.command import docs_plan

    return docs_plan(start_folder(values["target"]), page, keys, everything=everything)


def docs_check(pages: tuple[str, ...], form: str, **values: Any) -> Report:
    """Prove that translations agree with their pages.

    PAGE is a page or its translation; without one, all are checked. It compares headings, lists,
    tables, code, links, numbers and terms.
    """
    from scaffold.translation.command import docs_check

    return docs_check(start_folder(values["target"]), pages, form)

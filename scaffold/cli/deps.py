"""The commands of dependencies: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import FORMAT, may_ask
from scaffold.cli.working_folder import start_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaffold.report import Report


def add_deps_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Add every command of ``scaffold deps`` to its group.

    Args:
        group: The group ``deps``.
        target: The option --target, as all commands have it.
        json: The option --json.
    """

    def add(name: str, body: Callable[..., Report], params: list[click.Parameter]) -> None:
        options = [*params, target, json]
        group.add_command(click.Command(name, params=options, callback=body, help=body.__doc__))

    add("catalog", deps_catalog, _CATALOG)
    add("audit", deps_audit, _AUDIT)
    add("plan", deps_plan, _PLAN)
    add("apply", deps_apply, _APPLY)
    add("summary", deps_summary, _SUMMARY)


_PYTHON = click.Option(
    ["--python"], metavar="EXE", help="Python whose pip to use. [default: this one]"
)
_CATALOG: list[click.Parameter] = [click.Argument(["package"], metavar="PKG")]
_AUDIT: list[click.Parameter] = [
    click.Argument(["package"], metavar="PKG"),
    click.Argument(["old"], metavar="OLD"),
    click.Argument(["new"], metavar="NEW"),
    click.Option(["--show-undecided"], is_flag=True, help="Also show undecided uses."),
    FORMAT,
    _PYTHON,
]
_APPLY: list[click.Parameter] = [
    click.Argument(["package"], metavar="PKG"),
    click.Argument(["old"], metavar="OLD"),
    click.Argument(["new"], metavar="NEW"),
    click.Option(["--write"], is_flag=True, help="Write the edits, atomically."),
    _PYTHON,
]
_PLAN: list[click.Parameter] = [
    click.Argument(["pins"], nargs=-1, required=True, metavar="PKG==VER[@VARIANT]..."),
    click.Option(["--apply"], is_flag=True, help="Write the edits, atomically."),
    click.Option(
        ["--no-resolve"], is_flag=True, help="Skip the resolver, and with it the package index."
    ),
    _PYTHON,
]

_SUMMARY: list[click.Parameter] = [
    click.Option(
        ["--since"],
        default="HEAD",
        metavar="REV",
        help="Commit before the upgrade. [default: HEAD]",
    ),
    click.Option(["--output"], metavar="FILE", help="File to write. [default: stdout]"),
    _PYTHON,
]


def deps_catalog(package: str, **values: Any) -> Report:
    """List every use of a package as a checklist.

    PKG is the name of a distribution on the package index. Nothing is imported, run or fetched.
    """
    from scaffold.deps.catalog import catalog

    return catalog(start_folder(values["target"]), package)


def deps_audit(package: str, old: str, new: str, **values: Any) -> Report:
    """Report which uses of a package a new release breaks.

    Both releases are downloaded and read as text: nothing is installed, imported or built. The exit
    status is 1 if a use breaks.
    """
    from scaffold.deps.audit import audit

    root = start_folder(values["target"])
    given = {key: values[key] for key in ("python", "show_undecided", "form")}
    return audit(root, package, old, new, **given)


def deps_apply(package: str, old: str, new: str, write: bool, **values: Any) -> Report:
    """Rewrite the uses that a new release breaks.

    Shows the diff; --write writes it. Renamed names, moved imports and renamed or dropped arguments
    are rewritten; a new required argument gets the value YOURS. The rest is listed, and the exit
    status is 1 while anything is left.
    """
    from scaffold.deps.apply import apply

    root = start_folder(values["target"])
    return apply(root, package, old, new, write=write, python=values["python"])


def deps_summary(since: str, output: str | None, **values: Any) -> Report:
    """Write one page of Markdown about every package that changed since a commit.

    Locks and exact pins are compared with those of the commit. What the code imports is audited, a
    new major of anything else is named. The exit status is 1 if a use breaks.
    """
    from scaffold.deps.summary import summary

    return summary(start_folder(values["target"]), since, output, values["python"])


def deps_plan(pins: tuple[str, ...], apply: bool, no_resolve: bool, **values: Any) -> Report:
    """Update the pins of packages in every manifest, and resolve the result in a scratch folder.

    Without --apply it shows the edits and writes nothing. A conflict is reported in the words of
    the resolver.
    @VARIANT updates only the pins of pyproject.VARIANT.toml, @default those of pyproject.toml, @all
    those of every variant.
    """
    from scaffold.deps.plan import plan

    root, ask = start_folder(values["target"]), None
    if may_ask(no_input=False, as_json=values["as_json"]):
        ask = _ask_variant
    resolve, python = not no_resolve, values["python"]
    return plan(root, pins, apply=apply, resolve=resolve, python=python, ask=ask)


def _ask_variant(found: str, known: Sequence[str]) -> str:
    click.echo(found, err=True)
    return click.prompt("Which variant?", type=click.Choice(list(known)), err=True)

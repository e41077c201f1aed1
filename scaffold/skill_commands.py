"""The commands of skills: they parse, call one function and return its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaffold.report import Report


def add_skill_commands(
    group: click.Group, target: click.Option, json: click.Option, dry_run: click.Option
) -> None:
    """Adds every command of ``scaffold skills`` to its group.

    Args:
        group: The group ``skills``.
        target: The option --target, as all commands have it.
        json: The option --json.
        dry_run: The option --dry-run.
    """
    common = [target, json]

    def add(
        name: str, body: Callable[..., Any], params: list[click.Parameter], *, writes: bool
    ) -> None:
        options = [*params, *common, *([dry_run] if writes else [])]
        help_text = (body.__doc__ or "").split("\n\n    Args:")[0]
        group.add_command(click.Command(name, params=options, callback=body, help=help_text))

    add("check", skills_check, _CHECK, writes=False)
    add("sync", skills_sync, _SYNC, writes=True)


_CHECK: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, metavar="[PATH]..."),
    click.Option(["--show-undecided"], is_flag=True, help="Show the claims left undecided, too."),
]


def skills_check(paths: tuple[str, ...], show_undecided: bool, **values: Any) -> Report:
    """Proves or refutes what guidance for agents says of its repository.

    PATH is a skill, a folder or a Markdown file; without one, all guidance of the repository is
    checked. Nothing is imported and nothing is run.
    """
    from scaffold.skills.check.command import CheckWish, check_skills

    return check_skills(CheckWish(_start(values), paths, show_undecided))


_SYNC: list[click.Parameter] = [
    click.Option(["--check"], is_flag=True, help="Write nothing; fail where a rendering is behind.")
]


def skills_sync(check: bool, **values: Any) -> Report:
    """Renders .agents/skills for the clients that do not read it there."""
    from scaffold.skills.sync import find_skills, sync_skills

    return sync_skills(find_skills(_start(values)), check=check, dry_run=values["dry_run"])


def _start(values: dict[str, Any]) -> Path:
    return (Path.cwd() / (values["target"] or ".")).resolve()

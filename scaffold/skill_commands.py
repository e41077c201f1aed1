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

    add("check", skills_check, _CHECK, writes=True)
    add("list", skills_list, [], writes=False)
    add("new", skills_new, _NEW, writes=True)
    add("sync", skills_sync, _SYNC, writes=True)


_CHECK: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, metavar="[PATH]..."),
    click.Option(
        ["--format", "form"],
        type=click.Choice(["human", "json", "sarif", "github"]),
        default="human",
        help="How findings are told. [default: human]",
    ),
    click.Option(["--show-undecided"], is_flag=True, help="Show the claims left undecided, too."),
    click.Option(["--fix"], is_flag=True, help="Write the fixes whose meaning is certain."),
    click.Option(["--select"], multiple=True, metavar="RULE", help="Only this rule (repeatable)."),
    click.Option(["--ignore"], multiple=True, metavar="RULE", help="Not this rule (repeatable)."),
    click.Option(
        ["--exclude"], multiple=True, metavar="GLOB", help="Not these documents (repeatable)."
    ),
    click.Option(["--baseline"], metavar="FILE", help="Leave out the findings that FILE knows."),
    click.Option(["--write-baseline"], metavar="FILE", help="Make all findings known, in FILE."),
    click.Option(["--since"], metavar="REV", help="Only what the changes after REV broke."),
]


def skills_check(**values: Any) -> Report:
    """Proves or refutes what guidance for agents says of its repository.

    PATH is a skill, a folder or a Markdown file; without one, all guidance of the repository is
    checked. Nothing is imported and nothing is run.
    """
    from scaffold.skills.check.command import CheckWish, check_skills

    given = {key: value for key, value in values.items() if key not in ("target", "as_json")}
    return check_skills(CheckWish(_start(values), **given))


_SYNC: list[click.Parameter] = [
    click.Option(["--check"], is_flag=True, help="Write nothing; fail where something is behind."),
    click.Option(
        ["--overwrite"],
        multiple=True,
        metavar="PATH",
        help="Drop the edits of this rendered file, or of those in this folder (repeatable).",
    ),
]
_NEW: list[click.Parameter] = [
    click.Argument(["name"]),
    click.Option(["--description"], metavar="TEXT", help="What it does, and when to use it."),
]


def skills_sync(check: bool, overwrite: tuple[str, ...], **values: Any) -> Report:
    """Renders .agents for each client, and renews generated blocks.

    What a person edited in a rendered file is reported and left alone. It runs commands only where
    [tool.scaffold.skills] allows them, and nothing with --check or --dry-run.
    """
    from scaffold.skills.pack.sources import find_pack
    from scaffold.skills.pack.sync import overwritten, sync_skills

    root = find_pack(_start(values))
    named = overwritten(overwrite, _here(), root)
    return sync_skills(root, check=check, dry_run=values["dry_run"], overwrite=named)


def skills_list(**values: Any) -> Report:
    """Lists the skills and what each costs a client in tokens."""
    from scaffold.skills.pack.listing import list_skills
    from scaffold.skills.pack.sources import find_pack

    return list_skills(find_pack(_start(values)))


def skills_new(name: str, description: str | None, **values: Any) -> Report:
    """Starts a skill in .agents/skills, with the sections of one.

    NAME is a verb and a noun, such as add-metric.
    """
    from scaffold.skills.pack.starting import new_skill

    return new_skill(_start(values), name, description, dry_run=values["dry_run"])


def _start(values: dict[str, Any]) -> Path:
    start = (_here() / (values["target"] or ".")).resolve()
    if not start.is_dir():
        from scaffold.spec import TargetError

        raise TargetError(
            f"{start} is no folder", code="target_missing", hint="name a folder that exists"
        )
    return start


def _here() -> Path:
    try:
        return Path.cwd().resolve()
    except OSError as error:
        from scaffold.spec import TargetError

        raise TargetError(
            "the working folder was deleted",
            code="target_missing",
            hint="go to a folder that exists",
        ) from error

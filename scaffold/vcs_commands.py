"""The commands around version control: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scaffold.report import Report


def add_vcs_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Adds the commands to the group that holds all others.

    Args:
        group: The command line.
        target: The option --target, as all commands have it.
        json: The option --json.
    """
    params = [*_COMMIT_MSG, target, json]
    group.add_command(
        click.Command("commit-msg", params=params, callback=commit_msg, help=commit_msg.__doc__)
    )


_COMMIT_MSG: list[click.Parameter] = [
    click.Option(["--check"], metavar="FILE", required=True, help="The message to check.")
]


def commit_msg(check: str, target: str | None, **_: Any) -> Report:
    """Checks that a commit message is a Conventional Commit.

    Git's hook commit-msg passes the file. Messages that git writes itself are accepted.
    """
    from scaffold.vcs.message_check import check_message_file

    return check_message_file(check, target)

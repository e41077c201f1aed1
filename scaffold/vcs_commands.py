"""The commands around version control: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.standing import start_folder

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
    click.Option(
        ["--check"],
        metavar="FILE|REV..REV",
        help="Check the message in a file, or those of a range of commits.",
    )
]


def commit_msg(check: str | None, target: str | None, **_: Any) -> Report:
    """Drafts the message for what is staged, or checks messages.

    The draft is a Conventional Commit with the evidence for its type and scope; the why is yours.
    Git's hook commit-msg passes --check a file. Messages that git writes itself are accepted.
    """
    if check is not None:
        from scaffold.vcs.message_check import check_messages

        return check_messages(check, target)
    from scaffold.vcs.commit_message import draft_commit_message

    return draft_commit_message(start_folder(target))

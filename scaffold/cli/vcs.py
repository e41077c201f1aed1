"""The commands around version control: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import FORMAT, may_ask
from scaffold.cli.working_folder import start_folder

if TYPE_CHECKING:
    from scaffold.report import Report


def add_vcs_commands(group: click.Group, target: click.Option, json: click.Option) -> None:
    """Add the commands to the group that holds all others.

    Args:
        group: The command line.
        target: The option --target, as all commands have it.
        json: The option --json.
    """
    params = [*_COMMIT_MSG, target, json]
    group.add_command(
        click.Command("commit-msg", params=params, callback=commit_msg, help=commit_msg.__doc__)
    )
    group.add_command(
        click.Command("pr", params=[*_PR, target, json], callback=pr, help=pr.__doc__)
    )
    params = [*_REVIEW, target, json]
    group.add_command(click.Command("review", params=params, callback=review, help=review.__doc__))


_COMMIT_MSG: list[click.Parameter] = [
    click.Option(
        ["--check"],
        metavar="FILE|REV..REV",
        help="Check the message in a file, or the messages of a range of commits.",
    ),
    FORMAT,
]


def commit_msg(check: str | None, form: str, target: str | None, **_: Any) -> Report:
    """Draft a commit message, or check existing ones.

    The draft lists what is staged, in the form that the repository's settings and history use; you
    write the subject and the reason. The git hook commit-msg calls --check with a file. Messages
    that git writes itself are accepted.
    """
    if check is not None:
        from pathlib import Path

        from scaffold.vcs.commit.check import check_message_file, check_range, is_range

        if is_range(check):
            return check_range(check, Path(target or "."), form)
        return check_message_file(check, target, form)
    # Only findings have a format, and a draft has none.
    if form != "human":
        raise click.UsageError("--format requires --check; a draft has --json")
    from scaffold.vcs.commit.command import draft_commit_message

    return draft_commit_message(start_folder(target))


_REVIEW: list[click.Parameter] = [
    click.Argument(["revisions"], required=False, metavar="[REV..REV|REV]"),
    click.Option(["--base"], metavar="BRANCH", help="Branch that the change will be merged into."),
    click.Option(["--staged"], is_flag=True, help="Review what is staged."),
    click.Option(["--worktree"], is_flag=True, help="Include uncommitted changes and new files."),
    click.Option(
        ["--pr", "request"],
        type=click.IntRange(min=1),
        metavar="N",
        help="Pull request number; looked up with gh, fetched with git.",
    ),
    click.Option(["--quick"], is_flag=True, help="Skip pyright and ruff."),
    FORMAT,
]


def review(
    revisions: str | None,
    base: str | None,
    staged: bool,
    worktree: bool,
    request: int | None,
    quick: bool,
    form: str,
    target: str | None,
    **_: Any,
) -> Report:
    """Report what a change touches and breaks.

    REV is a branch, tag or commit, HEAD by default; the change is what it adds to its base. The
    report lists what pyright, ruff and the calls in this repository show to be broken, changed
    defaults, callers and tests, and which reviewer should read what.
    """
    from scaffold.vcs.review.command import review as review_change
    from scaffold.vcs.review.revisions import Which

    which = Which(revisions, base, staged, worktree, request)
    return review_change(start_folder(target), which, form, quick=quick)


_PR: list[click.Parameter] = [
    click.Option(
        ["--base"], metavar="BRANCH", help="Base branch. [default: the remote's default branch]"
    ),
    click.Option(["--remote"], metavar="NAME", help="Remote. [default: origin, or the only one]"),
    click.Option(["--title"], metavar="TEXT", help="Title, and subject of the squashed commit."),
    click.Option(
        ["--body"], metavar="FILE", help="File with the body. [default: the filled-in template]"
    ),
    click.Option(
        ["--message"], metavar="FILE", help="File with the message of the squashed commit."
    ),
    click.Option(["--template"], metavar="NAME", help="Template to fill in, if there are several."),
    click.Option(
        ["--tested"],
        metavar="TEXT",
        multiple=True,
        help="Test command that was run, with its result (repeatable).",
    ),
    click.Option(["--draft", "is_draft"], is_flag=True, help="Open it as a draft."),
    click.Option(
        ["--rewrite"],
        is_flag=True,
        help="Fetch the base and squash the branch onto it.",
    ),
    click.Option(
        ["--push"], is_flag=True, help="Push, then open or update the pull request with gh."
    ),
    click.Option(
        ["--force-with-lease", "may_force"],
        is_flag=True,
        help="With --push: replace commits that only the remote has, if it is as last fetched.",
    ),
    click.Option(["--no-verify"], is_flag=True, help="Do not run the pre-push hook."),
    click.Option(["--yes", "agreed"], is_flag=True, help="Confirm the plan."),
    click.Option(["--no-input"], is_flag=True, help="Never ask; implied without a terminal."),
    click.Option(["--dry-run"], is_flag=True, help="Change nothing, locally or remotely."),
]


def pr(no_input: bool, target: str | None, as_json: bool, **values: Any) -> Report:
    """Check, describe and open a pull request.

    Without --rewrite and --push it only reads. With them, a failure leaves branch, index and files
    as they were; a backup of the branch is printed.
    """
    from scaffold.vcs.pull_request.command import Options, pull_request
    from scaffold.vcs.review.domains import surroundings_of

    ask = _agree if may_ask(no_input, as_json) else None
    options = Options(**values, look_around=surroundings_of)
    return pull_request(start_folder(target), options, ask)


def _agree(plan: str) -> bool:
    click.echo(plan, err=True, nl=False)
    return click.confirm("Do this?", err=True)

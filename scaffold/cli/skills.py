"""The commands of skills: they parse, call one function and return its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import FORMAT, may_ask
from scaffold.cli.working_folder import start_folder, working_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaffold.report import Report


def add_skill_commands(
    group: click.Group, target: click.Option, json: click.Option, dry_run: click.Option
) -> None:
    """Add every command of ``scaffold skills`` to its group.

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
    add("report", skills_report, _REPORT, writes=True)
    add("list", skills_list, [], writes=False)
    add("new", skills_new, _NEW, writes=True)
    add("sync", skills_sync, _SYNC, writes=True)
    add("install", skills_install, _INSTALL, writes=True)


_CHECK: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, metavar="[PATH]..."),
    FORMAT,
    click.Option(["--show-undecided"], is_flag=True, help="Also show undecided claims."),
    click.Option(["--fix"], is_flag=True, help="Apply fixes that are certain."),
    click.Option(
        ["--select"], multiple=True, metavar="RULE", help="Check this rule only (repeatable)."
    ),
    click.Option(["--ignore"], multiple=True, metavar="RULE", help="Skip this rule (repeatable)."),
    click.Option(
        ["--exclude"], multiple=True, metavar="GLOB", help="Skip these documents (repeatable)."
    ),
    click.Option(["--baseline"], metavar="FILE", help="Ignore the findings listed in FILE."),
    click.Option(["--write-baseline"], metavar="FILE", help="Write all current findings to FILE."),
    click.Option(["--since"], metavar="REV", help="Report only what changes since REV broke."),
    click.Option(
        ["--python"],
        metavar="EXE",
        help="Python whose installed packages are used to check third-party names.",
    ),
    click.Option(
        ["--cache/--no-cache"], default=True, help="Reuse results of earlier checks. [default: yes]"
    ),
]


def skills_check(**values: Any) -> Report:
    """Check skills and other guidance for agents against the repository.

    PATH is a skill, a folder or a Markdown file. [default: all guidance of the repository] Nothing
    is imported or run.
    """
    from scaffold.skills.check.command import CheckWish, check_skills

    given = {key: value for key, value in values.items() if key not in ("target", "as_json")}
    return check_skills(CheckWish(start_folder(values["target"]), **given))


_REPORT: list[click.Parameter] = [
    click.Argument(["path"], required=False),
    click.Option(
        ["--format", "form"],
        type=click.Choice(["html", "markdown"]),
        default="html",
        show_default=True,
        help="Output format: a self-contained page, or the text of an issue.",
    ),
    click.Option(["--output"], metavar="FILE", help="Output file. [default: skills-report.html]"),
    click.Option(
        ["--cache/--no-cache"], default=True, help="Reuse results of earlier checks. [default: yes]"
    ),
]


def skills_report(path: str | None, **values: Any) -> Report:
    """Write a report on errors in skills and other guidance for agents.

    PATH is a repository, or a part of one. The report is meant for maintainers: claims, evidence
    with links to lines and commits, fixes, and what was not judged.
    """
    from scaffold.skills.check.command import ReportWish, report_skills

    given = {key: value for key, value in values.items() if key not in ("target", "as_json")}
    return report_skills(ReportWish(start_folder(values["target"]), path, **given))


_SYNC: list[click.Parameter] = [
    click.Option(["--check"], is_flag=True, help="Write nothing; fail if anything is stale."),
    click.Option(
        ["--overwrite"],
        multiple=True,
        metavar="PATH",
        help="Overwrite edits in this rendered file or folder (repeatable).",
    ),
]
_NEW: list[click.Parameter] = [
    click.Argument(["name"]),
    click.Option(
        ["--description"], metavar="TEXT", help="What the skill does, and when to use it."
    ),
]


def skills_sync(check: bool, overwrite: tuple[str, ...], **values: Any) -> Report:
    """Render .agents for each client, and update generated blocks.

    Edited rendered files are reported and left alone. Only commands that [tool.scaffold.skills]
    allows are run, and none with --check or --dry-run.
    """
    from scaffold.skills.pack.sources import find_pack
    from scaffold.skills.pack.sync import overwritten, sync_skills

    root = find_pack(start_folder(values["target"]))
    named = overwritten(overwrite, working_folder().resolve(), root)
    return sync_skills(root, check=check, dry_run=values["dry_run"], overwrite=named)


def skills_list(**values: Any) -> Report:
    """List the skills and their cost in tokens."""
    from scaffold.skills.pack.list import list_skills
    from scaffold.skills.pack.sources import find_pack

    return list_skills(find_pack(start_folder(values["target"])))


def skills_new(name: str, description: str | None, **values: Any) -> Report:
    """Create a skill in .agents/skills, with its sections.

    NAME is a verb and a noun, for example add-metric.
    """
    from scaffold.skills.pack.new import new_skill

    return new_skill(start_folder(values["target"]), name, description, dry_run=values["dry_run"])


_INSTALL: list[click.Parameter] = [
    click.Argument(["words"], nargs=-1, metavar="[SOURCE] [SKILL]..."),
    click.Option(
        ["--update"], is_flag=True, help="Update the named skills, or all, from their sources."
    ),
    click.Option(["--remove"], is_flag=True, help="Delete the named skills."),
    click.Option(
        ["--check"], is_flag=True, help="Check that files are unchanged since installation."
    ),
    click.Option(["--user"], is_flag=True, help="Install into the home folder, not a repository."),
    click.Option(
        ["--client", "clients"],
        multiple=True,
        type=click.Choice(["claude", "codex", "opencode"]),
        help="Client to install for (repeatable). [default: all]",
    ),
    click.Option(["--prefix"], default="", metavar="WORD", help="Prefix for the names."),
    click.Option(
        ["--rev", "revision"], default="", metavar="REV", help="Branch, tag or commit of SOURCE."
    ),
    click.Option(
        ["--grant-tools"], is_flag=True, help="Keep the allowed-tools and hooks of skills."
    ),
    click.Option(
        ["--allow-hidden"],
        multiple=True,
        metavar="SKILL/FILE",
        help="Install this file even if it has hidden text (repeatable).",
    ),
    click.Option(
        ["--overwrite"],
        multiple=True,
        metavar="PATH",
        help="With --update: replace this edited file, after copying it (repeatable).",
    ),
    click.Option(
        ["--discard-edits", "discard"],
        multiple=True,
        metavar="SKILL",
        help="With --remove: delete its edited files too, after copying them (repeatable).",
    ),
    click.Option(["--yes"], is_flag=True, help="Accept the listed scripts and permissions."),
    click.Option(["--no-input"], is_flag=True, help="Never ask; implied without a terminal."),
]


def skills_install(words: tuple[str, ...], user: bool, **values: Any) -> Report:
    """Install skills and subagents, pinned by commit and hash.

    SOURCE is a folder or the address of a git repository (https, ssh or file), optionally with
    @REV, or builtin for the skills of this tool. SKILL is a name, agents/NAME for a subagent.
    [default: all] Scripts, permissions and hidden text are listed first; permissions are removed.
    --update, --remove and --check take no SOURCE.

    Args:
        words: The source and the skills, or the skills alone.
        user: Whether to install to the home folder.
        values: The options.
    """
    from scaffold.skills.install.command import (
        InstallOptions,
        check_skills,
        install_skills,
        remove_skills,
        update_skills,
    )
    from scaffold.skills.install.places import find_target
    from scaffold.skills.install.run import Options

    mode = _install_mode(words, user, values)
    # A folder that SOURCE names is relative to where the command runs, and not to --target.
    here = start_folder(None)
    options = Options(
        find_target(here, values["target"], user=user),
        user,
        values["dry_run"],
        values["yes"],
        _asks(values),
        lambda line: click.echo(line, err=True),
    )
    names = ("clients", "prefix", "revision", "grant_tools", "allow_hidden", "overwrite")
    how = InstallOptions(**{name: values[name] for name in names})
    if mode == "check":
        return check_skills(words, options)
    if mode == "remove":
        return remove_skills(words, values["discard"], options)
    if mode == "update":
        return update_skills(words, how, options)
    return install_skills(words[0], words[1:], here, how, options)


_INSTALL_MODES = {
    "": {"clients", "prefix", "revision", "grant_tools", "allow_hidden", "yes"},
    "update": {"clients", "revision", "grant_tools", "allow_hidden", "overwrite", "yes"},
    "remove": {"discard"},
    "check": {"dry_run"},
}
"""Which options mean something with which mode; one that means nothing is refused."""


def _install_mode(words: tuple[str, ...], user: bool, values: dict[str, Any]) -> str:
    """Return "", "update", "remove" or "check", once the options fit together."""
    modes = [mode for mode in _INSTALL_MODES if mode and values[mode]]
    if len(modes) > 1:
        raise click.UsageError(f"--{modes[0]} and --{modes[1]} exclude each other")
    mode = modes[0] if modes else ""
    if user and values["target"]:
        raise click.UsageError("--user and --target exclude each other")
    if not (mode or words):
        raise click.UsageError("SOURCE is missing: a folder, the address of a repository, builtin")
    # --dry-run fits every mode, so it is never refused.
    known = {name for names in _INSTALL_MODES.values() for name in names} - {"dry_run"}
    wrong = [name for name in sorted(known) if values[name] and name not in _INSTALL_MODES[mode]]
    if wrong:
        option = next(each.opts[0] for each in _INSTALL if each.name == wrong[0])
        raise click.UsageError(f"{option} means nothing {f'with --{mode}' if mode else 'here'}")
    return mode


def _asks(values: dict[str, Any]) -> Callable[[], bool] | None:
    """Return what asks the person at the terminal, or None where nobody can be asked."""
    if values["dry_run"] or not may_ask(values["no_input"], values["as_json"]):
        return None
    return lambda: click.confirm("Write this?", err=True)

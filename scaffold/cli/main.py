"""The command line: it parses, calls one function and prints the report; commands load lazily.

The commands of kinds (add-reward, new, ...), their options and choices are read from the manifests.
"""

from __future__ import annotations

import click

from scaffold import __version__
from scaffold.cli import units
from scaffold.cli.groups import Cli, KindGroup, LazyGroup
from scaffold.cli.options import DRY_RUN, JSON, TARGET
from scaffold.cli.vcs import add_vcs_commands

SHELLS = ("bash", "fish", "zsh")


@click.group(
    "scaffold",
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scaffold")
def main() -> None:
    """Scaffold, register, test and prove extensions of an LLM-RL training package.

    An extension is called a unit: a reward, dataset, workflow or model, its test and its registry
    entry.
    """


@click.command(
    "completion", params=[click.Argument(["shell"], type=click.Choice(SHELLS), metavar="SHELL")]
)
def completion(shell: str) -> int:
    """Print the completion script for bash, fish or zsh."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "SHELLS holds what click knows"
    click.echo(kind(main, {}, "scaffold", "_SCAFFOLD_COMPLETE").source())
    return 0


# The options of these groups take a tenth of the time of any other command to describe.


def _fill_skills(group: click.Group) -> None:
    from scaffold.cli.skills import add_skill_commands

    add_skill_commands(group, TARGET, JSON, DRY_RUN)


def _fill_debug(group: click.Group) -> None:
    from scaffold.cli.debug import add_debug_commands

    add_debug_commands(group, TARGET, JSON)


def _fill_docs(group: click.Group) -> None:
    from scaffold.cli.docs import add_docs_commands

    add_docs_commands(group, TARGET, JSON)


def _fill_deps(group: click.Group) -> None:
    from scaffold.cli.deps import add_deps_commands

    add_deps_commands(group, TARGET, JSON)


def _fill_archon(group: click.Group) -> None:
    from scaffold.cli.archon import COMMANDS

    for command in COMMANDS:
        group.add_command(command)


main.add_command(KindGroup("add", help="Add a unit of any kind, also of a repository's own."))
for each in units.COMMANDS:
    main.add_command(each)
main.add_command(completion)
for name, help_text, fill in (
    ("skills", "Check, render and install skills for agents.", _fill_skills),
    ("debug", "Diagnose a distributed job.", _fill_debug),
    ("docs", "Keep translations up to date with their sources.", _fill_docs),
    ("deps", "Upgrade dependencies, and check every use of them.", _fill_deps),
    ("archon", "Explain and prove Archon models.", _fill_archon),
):
    main.add_command(LazyGroup(name, help_text, fill))
add_vcs_commands(main, TARGET, JSON)

"""The command line: it parses, calls one function and prints the report; commands load lazily.

The commands of kinds (add-reward, new, ...), their options and choices are read from the manifests.
"""

from __future__ import annotations

import click

from scaffold import __version__
from scaffold.cli import archon, units
from scaffold.cli.debug import add_debug_commands
from scaffold.cli.deps import add_deps_commands
from scaffold.cli.docs import add_docs_commands
from scaffold.cli.groups import Cli, Commands, KindGroup
from scaffold.cli.options import DRY_RUN, JSON, TARGET
from scaffold.cli.skills import add_skill_commands
from scaffold.cli.vcs import add_vcs_commands

SHELLS = ("bash", "fish", "zsh")


@click.group(
    "scaffold",
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scaffold")
def main() -> None:
    """Scaffold, register, test and prove extensions of an LLM-RL training package."""


@click.command(
    "completion", params=[click.Argument(["shell"], type=click.Choice(SHELLS), metavar="SHELL")]
)
def completion(shell: str) -> int:
    """Print the completion script for bash, fish or zsh.

    For bash: eval "$(scaffold completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "SHELLS holds what click knows"
    click.echo(kind(main, {}, "scaffold", "_SCAFFOLD_COMPLETE").source())
    return 0


def _group(name: str, help: str) -> click.Group:
    group = Commands(name, help=help)
    main.add_command(group)
    return group


main.add_command(KindGroup("add", help="Add a unit of any kind, by the kind's name."))
for each in units.COMMANDS:
    main.add_command(each)
main.add_command(completion)
skills = _group("skills", "Check, render and install skills for agents.")
debug = _group("debug", "Diagnose a distributed job.")
docs = _group("docs", "Keep translations up to date with their sources.")
deps = _group("deps", "Upgrade dependencies, and check every use of them.")
models = _group("archon", "Explain and prove Archon models.")
for each in archon.COMMANDS:
    models.add_command(each)

add_skill_commands(skills, TARGET, JSON, DRY_RUN)
add_vcs_commands(main, TARGET, JSON)
add_debug_commands(debug, TARGET, JSON)
add_docs_commands(docs, TARGET, JSON)
add_deps_commands(deps, TARGET, JSON)

"""The groups of commands: fixed ones, one command for each kind, and where every error ends."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from scaffold.cli.examples import EXAMPLES
from scaffold.cli.options import (
    DRY_RUN,
    EXPLAIN,
    GIT,
    JSON,
    KEEP_UNPROVEN,
    NAME,
    NO_FORMAT,
    NO_INPUT,
    OVERWRITE,
    PROBE_TIMEOUT,
    PYTHON,
    SKIP_PROOF,
    TARGET,
    VERIFY,
    log,
    options_of,
)
from scaffold.cli.output import (
    asked_format,
    give_up_printing,
    mend_streams,
    print_error,
    print_report,
)
from scaffold.templating.sources import KindHead, kind_heads, own_root, template_sources

if TYPE_CHECKING:
    from scaffold.report import Report
    from scaffold.templating.manifests import Catalogue


class KindCommand(click.Command):
    """The command of one kind; its manifests are read when it is chosen, not when it is listed."""

    def __init__(self, head: KindHead, name: str) -> None:
        super().__init__(name, help=head.help, callback=self.make)
        self.kind_name = head.name

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, read from the manifests on first use."""
        # Once a run: click asks again when it prints a help or completes a word.
        if not self.params:
            from scaffold.cli.kinds import kind_params

            catalogue = catalogue_of(ctx)
            kind = catalogue.kind(self.kind_name)
            own = [GIT] if kind.new_folder else [OVERWRITE, NO_FORMAT, VERIFY]
            if kind.writer:  # whose units are proven before they are written
                own = [NAME, PYTHON, EXPLAIN, KEEP_UNPROVEN, SKIP_PROOF, PROBE_TIMEOUT, *own]
            common = [TARGET, DRY_RUN, JSON, NO_INPUT]
            self.params = [*kind_params(catalogue, kind), *common, *own]
        return super().get_params(ctx)

    def make(self, typed: str, chosen: Any, **values: Any) -> Report:
        """Make the unit that the command line asks for."""
        from scaffold.cli.kinds import make

        catalogue = catalogue_of(click.get_current_context())
        kind = catalogue.kind(self.kind_name)
        return make(catalogue, kind, typed, chosen, options_of(values), log, **values)


class Commands(click.Group):
    """A group that names the nearest of its commands where one is misspelled."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with, and the rest of them."""
        name = args[0]
        # Click itself refuses an option in this place; while a word is completed nothing may fail.
        is_known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not is_known and not ctx.resilient_parsing:
            from scaffold.errors import nearest

            ctx.fail(f"unknown command {name!r}{nearest(name, self.list_commands(ctx))}")
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            example = EXAMPLES.get(" ".join([*_words(ctx), args[0]]))
            command.epilog = example and f"\b\nExample: {example}"  # \b: do not wrap it
        return found, command, rest


def _words(ctx: click.Context) -> list[str]:
    """Return the words that lead to the group of a context, without the program's name."""
    return [] if ctx.parent is None else [*_words(ctx.parent), ctx.info_name or ""]


class LazyGroup(Commands):
    """A group whose commands are described in a module that is read when one of them is wanted."""

    def __init__(self, name: str, help: str, fill: Callable[[click.Group], None]) -> None:
        super().__init__(name, help=help)
        self._fill: Callable[[click.Group], None] | None = fill

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None."""
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)


class KindGroup(Commands):
    """One command per kind that is added to a target."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the kinds."""
        return [head.name for head in _heads(ctx).values() if not head.new_folder]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a kind, or None."""
        head = _heads(ctx).get(cmd_name)
        return KindCommand(head, cmd_name) if head and not head.new_folder else None


# In the help; what is not here creates something, as the commands of a repository's own kinds do.
SECTIONS = {
    "Maintain": (
        *("list", "status", "show", "update", "remove", "recover", "target", "trust", "uninstall"),
    ),
    "Prove": ("verify", "archon"),
    "Skills": ("skills",),
    "Chores": ("commit-msg", "pr", "review", "deps", "docs", "debug", "completion"),
}


class Cli(Commands):
    """The whole command line: fixed commands, and one alias per kind; errors end here."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for."""
        names = self.list_commands(ctx)
        elsewhere = {name for section in SECTIONS.values() for name in section}
        creating = tuple(name for name in names if name not in elsewhere)
        width = max(map(len, names))
        for title, section in {"Create": creating, **SECTIONS}.items():
            rows = [(name, self.get_command(ctx, name)) for name in section]
            with formatter.section(title):
                limit = formatter.width - width - 6
                formatter.write_dl(
                    [
                        (f"{name:{width}}", each.get_short_help_str(limit))
                        for name, each in rows
                        if each
                    ]
                )
        with formatter.section("Example"):
            formatter.write_text("scaffold add-reward math_answer --style math --verify")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the fixed commands and the kinds' own, in the order of the help."""
        return [*_aliases(ctx), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None."""
        fixed = super().get_command(ctx, cmd_name)
        # Templates of a repository cannot take the name of a fixed command.
        if fixed is not None:
            return fixed
        head = _aliases(ctx).get(cmd_name)
        return KindCommand(head, cmd_name) if head else None

    # Always exits with a status of our own, where click's returns in one of its modes.
    def main(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the command line and exit with a status.

        0 is done, 1 refused, 2 a wrong command line, 3 a fault, 130 Ctrl-C.
        """
        # A command makes many objects that live to its end; looking for cycles among them every 700
        # costs a tenth of a long one.
        gc.set_threshold(50_000, 20, 50)
        argv = list(sys.argv[1:] if args is None else args)
        mend_streams()
        try:
            status = self._run(argv, prog_name or "scaffold", extra)
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except OSError as error:  # of the printing alone; what was to be done is done
            status = give_up_printing(error)
        sys.exit(status)

    def _run(self, argv: list[str], prog_name: str, extra: dict[str, Any]) -> int:
        # Behind `--` are the words of another program: `scaffold debug run -- torchrun --json`.
        words = argv[: argv.index("--") if "--" in argv else None]
        as_json = "--json" in words
        try:
            # Standalone, click would print errors itself and drop what the command returns.
            extra.pop("standalone_mode", None)
            # Found before anything is parsed, as templates of this folder add commands.
            extra.setdefault("obj", own_root(argv))
            outcome = super().main(argv, prog_name, standalone_mode=False, **extra)
        except (Exception, KeyboardInterrupt) as error:
            form = "json" if as_json else asked_format(words)
            return print_error(self._command_name(argv), error, form)
        # `--help`, `--version` and `completion` print for themselves and end with a status.
        return outcome if isinstance(outcome, int) else print_report(outcome, as_json)

    def _command_name(self, argv: list[str]) -> str:
        """Return the command that a line means, as the report of one that runs names it."""
        words = [word for word in argv if not word.startswith("-")]
        if words[:1] == ["add"] and len(words) > 1:
            heads = kind_heads(folder for _, folder in template_sources(own_root(argv) or None))
            return heads[words[1]].command or f"add {words[1]}" if words[1] in heads else "add"
        group = self.commands.get(words[0]) if words else None
        if isinstance(group, LazyGroup) and set(words[1:2]) & set(
            group.list_commands(click.Context(group))
        ):
            return " ".join(words[:2])
        return " ".join(words[:1])


def _root(ctx: click.Context) -> str | None:
    """Return the folder whose own templates count; completion comes without `Cli.main`."""
    top = ctx.find_root()
    if top.obj is None:
        top.obj = own_root(sys.argv[1:])
    return top.obj or None


def _heads(ctx: click.Context) -> dict[str, KindHead]:
    meta = ctx.find_root().meta
    # All contexts of a run share `meta`, so the manifests are listed once.
    if "scaffold.heads" not in meta:
        folders = [folder for _, folder in template_sources(_root(ctx))]
        meta["scaffold.heads"] = kind_heads(folders)
    return meta["scaffold.heads"]


def _aliases(ctx: click.Context) -> dict[str, KindHead]:
    """Return the kinds that have a command of their own; `add KIND` knows all."""
    # Kinds of whole folders, such as `new`, come first in the help.
    ordered = sorted(_heads(ctx).values(), key=lambda head: not head.new_folder)
    return {head.command: head for head in ordered if head.command}


def catalogue_of(ctx: click.Context) -> Catalogue:
    """Return what can be made where a command line is run."""
    from scaffold.templating.manifests import catalogue_for

    return catalogue_for(_root(ctx))

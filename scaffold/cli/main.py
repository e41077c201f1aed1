"""The command line: it parses, calls one function and prints the report; commands load lazily.

The commands of kinds (add-reward, new, ...), their options and choices are read from the manifests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from scaffold import __version__
from scaffold.cli.debug import add_debug_commands
from scaffold.cli.deps import add_deps_commands
from scaffold.cli.docs import add_docs_commands
from scaffold.cli.output import (
    give_up_printing,
    mend_streams,
    print_error,
    print_report,
)
from scaffold.cli.skills import add_skill_commands
from scaffold.cli.vcs import add_vcs_commands
from scaffold.cli.working_folder import working_folder
from scaffold.templating.sources import KindHead, kind_heads, made_ids, own_root, template_sources

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from scaffold.report import Report
    from scaffold.templating.manifests import Catalogue
    from scaffold.units.context import Options

SHELLS = ("bash", "fish", "zsh")
TARGET = click.Option(
    ["--target"], metavar="DIR", help="The target's folder (default: the nearest one upwards)."
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object on stdout.")
DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Print the unified diff, write nothing.")
NO_INPUT = click.Option(["--no-input"], is_flag=True, help="Never ask; implied without a terminal.")
OVERWRITE = click.Option(
    ["--overwrite"],
    multiple=True,
    metavar="PATH",
    help="Replace this file, or what stands in this folder (repeatable).",
)
NO_FORMAT = click.Option(
    ["--no-format"], is_flag=True, help="Do not run the target's formatters on what is written."
)
VERIFY = click.Option(["--verify"], is_flag=True, help="Verify the unit once it is written.")
NAME = click.Option(["--name"], metavar="NAME", help="What to call it. [default: its model_type]")
PYTHON = click.Option(
    ["--python"], metavar="EXE", help="The interpreter to run the target's code in."
)
EXPLAIN = click.Option(["--explain"], is_flag=True, help="Tell each decision with its evidence.")
KEEP_UNPROVEN = click.Option(
    ["--keep-unproven"], is_flag=True, help="Register it even if its proof fails; it is marked."
)
SKIP_PROOF = click.Option(
    ["--skip-proof"],
    is_flag=True,
    help="With --dry-run: do without the proof, which takes longest.",
)
PROBE_TIMEOUT = click.Option(
    ["--timeout", "timeout_s"],
    type=click.FloatRange(min=1),
    default=1800.0,
    metavar="SECONDS",
    help="Limit of the measuring and of the proof, each. [default: 1800]",
)
GIT = click.Option(["--git"], is_flag=True, help="Make the new folder a git repository.")


def _complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    target = ctx.params.get("target")
    ids = made_ids(["--target", target] if target else [])
    return [CompletionItem(each) for each in ids if each.startswith(incomplete)]


def _complete_template(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    catalogue = _catalogue(ctx)
    kinds = catalogue.kind_names()
    found = [
        *kinds,
        *(f"{kind}/{style}" for kind in kinds for style in catalogue.style_names(kind)),
    ]
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]


class KindCommand(click.Command):
    """Makes one kind of unit; its manifests are read when it is chosen, not when it is listed."""

    def __init__(self, head: KindHead, name: str) -> None:
        super().__init__(name, help=head.help, callback=self.make)
        self.kind_name = head.name

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Returns the parameters, read from the manifests on first use."""
        if not self.params:
            from scaffold.cli.kinds import kind_params

            catalogue = _catalogue(ctx)
            kind = catalogue.kind(self.kind_name)
            own = [GIT] if kind.new_folder else [OVERWRITE, NO_FORMAT, VERIFY]
            if kind.writer:  # whose units are proven before they are written
                own = [NAME, PYTHON, EXPLAIN, KEEP_UNPROVEN, SKIP_PROOF, PROBE_TIMEOUT, *own]
            common = [TARGET, DRY_RUN, JSON, NO_INPUT]
            self.params = [*kind_params(catalogue, kind), *common, *own]
        return super().get_params(ctx)

    def make(self, typed: str, chosen: Any, **values: Any) -> Report:
        """Makes the unit that the command line asks for."""
        from scaffold.cli.kinds import make

        catalogue = _catalogue(click.get_current_context())
        kind = catalogue.kind(self.kind_name)
        return make(catalogue, kind, typed, chosen, _options(values), _log, **values)


class Commands(click.Group):
    """Is a group that names the nearest of its commands where one is misspelled."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that the arguments begin with, and the rest of them."""
        name = args[0]
        is_known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not is_known and not ctx.resilient_parsing:
            from scaffold.errors import nearest

            ctx.fail(f"unknown command {name!r}{nearest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


class KindGroup(Commands):
    """Holds one command per kind that is added to a target."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the kinds."""
        return [head.name for head in _heads(ctx).values() if not head.new_folder]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of a kind, or None."""
        head = _heads(ctx).get(cmd_name)
        return KindCommand(head, cmd_name) if head and not head.new_folder else None


class Cli(Commands):
    """Is the whole command line: fixed commands, and one alias per kind; errors end here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the fixed commands and the kinds' own, in the order of the help."""
        return [*_aliases(ctx), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns a command by its name, or None."""
        fixed = super().get_command(ctx, cmd_name)
        if fixed is not None:
            return fixed
        head = _aliases(ctx).get(cmd_name)
        return KindCommand(head, cmd_name) if head else None

    # Always exits with a status of our own, where click's returns in one of its modes.
    def main(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Runs the command line and exits with 0 (done), 1 (refused), 2 (usage) or 3 (a fault)."""
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
        as_json = "--json" in argv[: argv.index("--") if "--" in argv else None]
        try:
            extra.pop("standalone_mode", None)
            extra.setdefault("obj", own_root(argv))
            outcome = super().main(argv, prog_name, standalone_mode=False, **extra)
        except (Exception, KeyboardInterrupt) as error:
            return print_error(argv, error, as_json)
        return outcome if isinstance(outcome, int) else print_report(outcome, as_json)


@click.group(
    "scaffold",
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scaffold")
def main() -> None:
    """Scaffolds, registers, tests and proves extensions of an LLM-RL training package."""


main.add_command(KindGroup("add", help="Adds a unit of any kind, by the kind's name."))


def _command(name: str, *params: click.Parameter) -> Callable[[Callable[..., Any]], click.Command]:
    def register(function: Callable[..., Any]) -> click.Command:
        command = click.Command(
            name, callback=function, params=[*params, TARGET, JSON], help=function.__doc__
        )
        main.add_command(command)
        return command

    return register


@_command(
    "init",
    click.Option(["--like"], metavar="PATH_OR_NAME", help="An existing unit to make a kind of."),
    click.Option(["--kind"], default="", metavar="KIND", help="What the kind is to be called."),
    click.Option(["--yes"], is_flag=True, help="Write what is proposed without asking."),
    DRY_RUN,
    NO_INPUT,
    NO_FORMAT,
)
def init(like: str | None, kind: str, yes: bool, **values: Any) -> Report:
    """Teaches it this repository, by an example.

    It proposes a configuration and, with --like, a kind made of a unit that exists: it shows the
    files and registry lines in which the unit occurs, and the templates made of them.
    """
    from scaffold.units.init import command as initiate

    ask = _agree if _may_ask(values) else None
    return initiate.init_repository(initiate.Wish(like, kind, yes, ask), _options(values))


@_command("list")
def list_(**values: Any) -> Report:
    """Lists what can be made, and what was made here."""
    from scaffold.units import show as views

    return views.list_templates(_options(values))


@_command("target")
def target(**values: Any) -> Report:
    """Explains where things go in this repository."""
    from scaffold.units import show as views

    return views.explain_target(_options(values))


@_command(
    "status",
    click.Option(["--fix"], is_flag=True, help="Add lost registry lines again."),
    DRY_RUN,
)
def status(fix: bool, **values: Any) -> Report:
    """Compares what was made with what is there."""
    from scaffold.units import show as views

    if fix:
        from scaffold.units import maintain as upkeep

        return upkeep.fix_registries(_options(values))
    return views.show_status(_options(values))


@_command("show", click.Argument(["id"], shell_complete=_complete_id))
def show(id: str, **values: Any) -> Report:
    """Shows everything about one unit.

    ID is kind/name, or a name that is unique.
    """
    from scaffold.units import show as views

    return views.show_unit(id, _options(values))


@_command(
    "verify",
    click.Argument(["ids"], nargs=-1, metavar="[ID]...", shell_complete=_complete_id),
    PYTHON,
    click.Option(["--allow-stub"], is_flag=True, help="Accept places left to the author."),
    click.Option(["--data"], metavar="PATH", help="Rows of your own to try it on (JSONL)."),
    click.Option(
        ["--timeout"],
        type=click.FloatRange(min=1),
        default=300.0,
        metavar="SECONDS",
        help="Limit of the tests and of the episodes of each unit. [default: 300]",
    ),
)
def verify(ids: tuple[str, ...], **values: Any) -> Report:
    """Runs what was made and gives a verdict.

    It runs the static contract, the generated tests and real episodes of every ID, or of all that
    was made. This executes the target's code.
    """
    from scaffold.archon.update import verify_and_register
    from scaffold.units import add as commands

    how = commands.Trial(values["python"], values["allow_stub"], values["data"], values["timeout"])
    return verify_and_register(ids, how, _log, _options(values))


@_command(
    "remove",
    click.Argument(["id"], shell_complete=_complete_id),
    click.Option(
        ["--discard-edits", "discard"],
        multiple=True,
        metavar="ID",
        help="Delete the edited files of this unit too, after copying them.",
    ),
    DRY_RUN,
)
def remove(id: str, discard: tuple[str, ...], **values: Any) -> Report:
    """Takes back what was made; edited files stay.

    ID is kind/name, or a name that is unique.
    """
    from scaffold.units import maintain as upkeep

    return upkeep.remove_unit(id, discard, _options(values))


@_command(
    "update",
    click.Argument(["ids"], nargs=-1, metavar="[ID]...", shell_complete=_complete_id),
    click.Option(
        ["--set", "settings"],
        multiple=True,
        metavar="NAME=VALUE",
        help="Another answer, for one unit (repeatable).",
    ),
    NO_FORMAT,
    DRY_RUN,
)
def update(ids: tuple[str, ...], settings: tuple[str, ...], **values: Any) -> Report:
    """Merges what the templates say by now into what was made.

    A conflict is marked in the file and reported; the exit status is 1 then.
    """
    from scaffold.units import maintain as upkeep

    return upkeep.update_units(ids, settings, _options(values))


@_command("eject", click.Argument(["template"], shell_complete=_complete_template), DRY_RUN)
def eject(template: str, **values: Any) -> Report:
    """Copies a template into the repository, to change it.

    TEMPLATE is kind/style, or a kind for what its styles share.
    """
    from scaffold.units import maintain as upkeep

    return upkeep.eject_template(template, _options(values))


@_command(
    "recover",
    click.Option(["--keep-edited"], is_flag=True, help="Leave files alone that changed since."),
    DRY_RUN,
)
def recover(keep_edited: bool, **values: Any) -> Report:
    """Finishes or undoes a command that was cut short."""
    from scaffold.units import maintain as upkeep

    return upkeep.recover_target(keep_edited, _options(values))


@_command("uninstall", DRY_RUN)
def uninstall(**values: Any) -> Report:
    """Forgets all that was made, and leaves the code."""
    from scaffold.units import maintain as upkeep

    return upkeep.uninstall(_options(values))


@main.command(
    "completion", params=[click.Argument(["shell"], type=click.Choice(SHELLS), metavar="SHELL")]
)
def completion(shell: str) -> int:
    """Prints the script that completes commands in a shell.

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


skills = _group("skills", "Keeps skills for agents in step with their source.")
debug = _group("debug", "Finds out what is wrong with a distributed job.")
docs = _group("docs", "Keeps the Chinese pages in step with the English ones.")
deps = _group("deps", "Moves dependencies to new releases.")
archon = _group("archon", "Tells what is known and proven of models.")

add_skill_commands(skills, TARGET, JSON, DRY_RUN)
add_vcs_commands(main, TARGET, JSON)
add_debug_commands(debug, TARGET, JSON)
add_docs_commands(docs, TARGET, JSON)
add_deps_commands(deps, TARGET, JSON)

MODEL_PARAMS = [
    click.Option(["--text-only"], is_flag=True, help="Take the language model of a larger one."),
    click.Option(["--trust-remote-code"], is_flag=True, help="Run code of the checkpoint."),
    PYTHON,
    PROBE_TIMEOUT,
    TARGET,
    JSON,
]


@archon.command("explain", params=[click.Argument(["typed"], metavar="MODEL"), *MODEL_PARAMS])
def archon_explain(
    typed: str, text_only: bool, trust_remote_code: bool, timeout_s: float, **values: Any
) -> Report:
    """Tells each decision about a model with its evidence; writes nothing.

    MODEL is a model_type of transformers, a config.json or a checkpoint folder.
    """
    from scaffold.archon.add import Wish, explain_model

    given = {"text_only": text_only, "trust_remote_code": trust_remote_code}
    wish = Wish(python=values["python"], timeout_s=timeout_s)
    return explain_model(typed, given, wish, _options(values), _log)


@archon.command(
    "coverage",
    params=[
        click.Option(["--types"], metavar="A,B", help="Only these model_types. [default: all]"),
        click.Option(
            ["--jobs"], type=click.IntRange(min=1), default=2, metavar="N", help="How many at once."
        ),
        click.Option(["--resume"], is_flag=True, help="Take what is known of unchanged sources."),
        click.Option(["--fast"], is_flag=True, help="Few configurations, and no processes."),
        click.Option(
            ["--split/--no-split"], default=True, help="Also split each model over two processes."
        ),
        PYTHON,
        PROBE_TIMEOUT,
        TARGET,
        JSON,
        DRY_RUN,
    ],
)
def archon_coverage(
    types: str | None,
    jobs: int,
    resume: bool,
    fast: bool,
    split: bool,
    timeout_s: float,
    **values: Any,
) -> Report:
    """Proves every model that transformers has, and writes docs/en/archon-coverage.md.

    What was proven of the same sources before is not run again with --resume.
    """
    from scaffold.archon import coverage as survey

    names = tuple(filter(None, (types or "").split(",")))
    wish = survey.SurveyWish(names, jobs, resume, fast, split, values["python"], timeout_s)
    return survey.survey_models(wish, _options(values), _log)


def _root(ctx: click.Context) -> str | None:
    """Returns the folder whose own templates count; completion comes without `Cli.main`."""
    top = ctx.find_root()
    if top.obj is None:
        top.obj = own_root(sys.argv[1:])
    return top.obj or None


def _heads(ctx: click.Context) -> dict[str, KindHead]:
    meta = ctx.find_root().meta
    if "scaffold.heads" not in meta:
        folders = [folder for _, folder in template_sources(_root(ctx))]
        meta["scaffold.heads"] = kind_heads(folders)
    return meta["scaffold.heads"]


def _aliases(ctx: click.Context) -> dict[str, KindHead]:
    """Returns the kinds that have a command of their own; `add KIND` knows all."""
    ordered = sorted(_heads(ctx).values(), key=lambda head: not head.new_folder)
    return {head.command: head for head in ordered if head.command}


def _catalogue(ctx: click.Context) -> Catalogue:
    from scaffold.templating.manifests import catalogue_for

    return catalogue_for(_root(ctx))


def _options(values: dict[str, Any]) -> Options:
    from scaffold.units.context import Options

    return Options(
        working_folder(),
        values["target"],
        values.get("dry_run", False),
        values.get("overwrite", ()),
        with_format=not values.get("no_format", False),
        sample=values.get("sample"),
    )


def _may_ask(values: dict[str, Any]) -> bool:
    return not (values["no_input"] or values["as_json"] or values["dry_run"]) and sys.stdin.isatty()


def _agree(proposal: str) -> bool:
    click.echo(proposal, err=True, nl=False)
    return click.confirm("Write this?", err=True)


def _log(line: str) -> None:
    click.echo(line, err=True)

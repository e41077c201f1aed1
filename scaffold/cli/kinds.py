"""The commands of kinds: options from the manifests of a kind and its styles, and what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import may_ask
from scaffold.templating.manifests import Catalogue
from scaffold.templating.spec import Answer, Kind

if TYPE_CHECKING:
    from scaffold.report import Report
    from scaffold.units.context import Options

SAMPLE = click.Option(
    ["--from", "sample"],
    metavar="PATH",
    help="Your data, to find columns in: JSONL, JSON, CSV, Parquet or a folder.",
)


# Takes a type since click 8.2, and none before.
class Choice(click.Choice):  # pyright: ignore[reportMissingTypeArgument]
    """A choice that names the nearest where one is misspelled."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the choice."""
        own: Any = self
        known = [str(choice) for choice in own.choices]
        if value in known:
            return value
        from scaffold.errors import nearest

        return self.fail(f"unknown {str(value)!r}{nearest(str(value), known)}", param, ctx)


USE = click.Option(
    ["--use", "use"],
    multiple=True,
    metavar="YAML",
    help="Set this run's configuration to use it (repeatable). [default: those of `scaffold new`]",
)
NO_USE = click.Option(["--no-use"], is_flag=True, help="Leave configurations as they are.")


def kind_params(catalogue: Catalogue, kind: Kind) -> list[click.Parameter]:
    """Return the parameters of a kind's command that its manifests ask for."""
    return [
        click.Argument(["typed"], metavar=_metavar(kind)),
        _style_option(catalogue, kind),
        *_answer_options(catalogue, kind),
        *[SAMPLE] * _takes_sample(catalogue, kind),
        *[USE, NO_USE] * bool(kind.use),
    ]


def make(
    catalogue: Catalogue,
    kind: Kind,
    typed: str,
    chosen: Any,
    options: Options,
    log: Callable[[str], None],
    **values: Any,
) -> Report:
    """Make the unit that a command line asks for.

    Args:
        catalogue: What can be made.
        kind: What is made.
        typed: The name as typed; a module for a kind with a subject, a model for one
            with a writer.
        chosen: The style, or the styles of a kind that takes several.
        options: What every command accepts.
        log: Takes the progress of a verification, line by line.
        **values: The answers, and the options of the kind's command.
    """
    names = tuple(answer.name for answer, _ in _questions(catalogue, kind))
    # Answers leave `values`, in which the options of all kinds stay.
    # What may be repeated and was not given is an empty tuple.
    given = {key: None if (value := values.pop(key)) == () else value for key in names}
    styles = tuple(chosen) if kind.multiple else (chosen,) * bool(chosen)
    # A writer works its answers out of the model's configuration.
    if not kind.writer and may_ask(values["no_input"], values["as_json"]):
        given |= _ask(catalogue, kind, styles, given)
    if may_ask(values["no_input"], values["as_json"]):
        options = options._replace(agree=_agree)
    if kind.use:
        options = options._replace(use=_use(values))
    if kind.new_folder:
        from scaffold.units.project import new_project

        return new_project(kind, typed, styles, given, options, with_git=values["git"])
    if kind.writer:
        from scaffold.archon.add import add_model
        from scaffold.archon.pipeline import ModelOptions

        how = ModelOptions(*(values[field] for field in ModelOptions._fields))
        report = add_model(kind, typed, given, how, options, log)
    else:
        report = _add(kind, typed, chosen, styles, given, options)
    # Kinds that make a new folder have returned above: they have no --verify.
    if values["verify"] and report.ok and not options.dry_run:
        from scaffold.verify.command import verify_added

        verify_added(report, log, options)
    return report


def _use(values: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the configurations that are to use the unit; None for those of the project."""
    if values["use"] and values["no_use"]:
        raise click.UsageError("--use and --no-use exclude each other")
    return () if values["no_use"] else values["use"] or None


def _agree(text: str) -> bool:
    # On stderr, as stdout is for the report.
    return click.confirm(text, default=True, err=True)


def _add(
    kind: Kind,
    typed: str,
    style: str | None,
    styles: tuple[str, ...],
    given: dict[str, Any],
    options: Options,
) -> Report:
    if kind.subject:
        from scaffold.units.subject import prepare_tests

        prepared = prepare_tests(kind, typed, style, given["to"], options)
    else:
        from scaffold.units.prepare import prepare

        prepared = prepare(kind, typed, styles, given, options)
    # The same unit, made with the same answers, is there already.
    if prepared.is_made and not options.use:
        return prepared.report
    from scaffold.units.add import add_prepared  # brings Jinja and the editors of registries

    return add_prepared(prepared, options)


def _metavar(kind: Kind) -> str:
    """Return the placeholder for what the command makes, or makes it from."""
    return "MODEL" if kind.writer else (kind.subject or "name").upper()


def _questions(catalogue: Catalogue, kind: Kind) -> list[tuple[Answer, list[str]]]:
    """Return every question of the kind, with the styles that ask it (none: all of them do).

    An answer without an option is worked out and never asked.
    """
    found: dict[str, tuple[Answer, list[str]]] = {
        name: (answer, []) for name, answer in kind.answers.items()
    }
    for style in catalogue.style_names(kind.name):
        for name, answer in catalogue.style(kind.name, style).answers.items():
            found.setdefault(name, (answer, []))[1].append(style)
    return [question for question in found.values() if question[0].option]


def _takes_sample(catalogue: Catalogue, kind: Kind) -> bool:
    """Return whether a sample of data can answer a question of the kind."""
    return any(
        answer.default_from.startswith("sample:") for answer, _ in _questions(catalogue, kind)
    )


def _style_option(catalogue: Catalogue, kind: Kind) -> click.Option:
    default = f" [default: {kind.default}]" if kind.default else ""
    names = catalogue.style_names(kind.name)
    titles = [f"{name} ({_lowered(catalogue.style(kind.name, name).title)})" for name in names]
    what = "Templates to use, repeatable" if kind.multiple else "Template to use"
    return click.Option(
        [f"--{kind.option}", "chosen"],
        type=Choice(names),
        multiple=kind.multiple,
        help=f"{what}: {', '.join(titles)}.{default}",
    )


def _lowered(title: str) -> str:
    """Return a title as it is written in a sentence; names and abbreviations stay."""
    inside = title.partition(" ")[0][1:]
    return title if inside != inside.lower() else title[:1].lower() + title[1:]


def _answer_options(catalogue: Catalogue, kind: Kind) -> list[click.Option]:
    types = {"str": click.STRING, "int": click.INT, "float": click.FLOAT, "bool": click.BOOL}
    options: list[click.Option] = []
    count = len(catalogue.style_names(kind.name))
    for answer, styles in _questions(catalogue, kind):
        # Styles may offer different choices for one question; the option takes all of them.
        rows = [catalogue.style(kind.name, style).answers[answer.name] for style in styles]
        asked = rows or [answer]
        choices = list(dict.fromkeys(choice for each in asked for choice in each.choices))
        name = answer.option
        flags = f"{name}/--no-{name[2:]}" if answer.type == "bool" else name
        only = f" ({', '.join(styles)})" if styles and count > 1 else ""
        default = "" if answer.default in (None, "") else f" [default: {answer.default}]"
        options.append(
            click.Option(
                [flags, answer.name],
                type=Choice(choices) if choices else types[answer.type],
                multiple=answer.multiple,
                # None marks what was not given, so that a manifest's default can come in later.
                default=None,
                help=f"{answer.help}{only}{default}",
            )
        )
    return options


def _ask(
    catalogue: Catalogue, kind: Kind, styles: tuple[str, ...], given: dict[str, Any]
) -> dict[str, Any]:
    from scaffold.templating.answers import missing_answers
    from scaffold.templating.spec import all_answers

    questions = all_answers(kind, catalogue.styles(kind, styles))
    types: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
    return {
        row.name: click.prompt(
            row.help,
            type=Choice(row.choices) if row.choices else types[row.type],
            # On stderr, as stdout is for the report.
            err=True,
        )
        for row in missing_answers(questions, given)
    }

"""The commands on models beside add-archon-model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scaffold.cli.options import DRY_RUN, PROBE_TIMEOUT, PYTHON, command, log, options_of

if TYPE_CHECKING:
    from scaffold.report import Report


@command(
    "explain",
    click.Argument(["typed"], metavar="MODEL"),
    click.Option(
        ["--text-only"], is_flag=True, help="Use the language model of a multimodal checkpoint."
    ),
    click.Option(["--trust-remote-code"], is_flag=True, help="Run the code in the checkpoint."),
    PYTHON,
    PROBE_TIMEOUT,
)
def explain(
    typed: str, text_only: bool, trust_remote_code: bool, timeout_s: float, **values: Any
) -> Report:
    """Explain each decision about a model with its evidence; write nothing.

    MODEL is a model_type of transformers, a config.json or a checkpoint folder.
    """
    from scaffold.archon.add import explain_model
    from scaffold.archon.pipeline import ModelOptions

    given = {"text_only": text_only, "trust_remote_code": trust_remote_code}
    how = ModelOptions(python=values["python"], timeout_s=timeout_s)
    return explain_model(typed, given, how, options_of(values), log)


@command(
    "coverage",
    click.Option(["--types"], metavar="A,B", help="model_types to prove. [default: all]"),
    click.Option(
        ["--jobs"],
        type=click.IntRange(min=1),
        default=2,
        metavar="N",
        help="Number of models to prove in parallel.",
    ),
    click.Option(["--resume"], is_flag=True, help="Reuse results for unchanged sources."),
    click.Option(["--fast"], is_flag=True, help="Try only a few configurations, in one process."),
    click.Option(
        ["--split/--no-split"], default=True, help="Also split each model over two processes."
    ),
    PYTHON,
    PROBE_TIMEOUT,
    DRY_RUN,
)
def coverage(
    types: str | None,
    jobs: int,
    resume: bool,
    fast: bool,
    split: bool,
    timeout_s: float,
    **values: Any,
) -> Report:
    """Prove every model that transformers has, and write docs/en/archon-coverage.md."""
    from scaffold.archon.coverage import SurveyOptions, survey_models

    # An empty word is no type: `--types llama,` or `--types ""`.
    names = tuple(filter(None, (types or "").split(",")))
    how = SurveyOptions(names, jobs, resume, fast, split, values["python"], timeout_s)
    return survey_models(how, options_of(values), log)


COMMANDS = (explain, coverage)

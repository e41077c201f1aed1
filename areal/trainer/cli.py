"""The command ``areal``."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from areal.api.errors import ArealError

SHELLS = ("bash", "fish", "zsh")


def _existing(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Refuse a configuration that is not there in one line, before anything is imported."""
    if path is not None and not ctx.resilient_parsing and not Path(path).is_file():
        click.echo(f"error: there is no configuration file {path!r}", err=True)
        ctx.exit(2)
    return path


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Read 1,5,10; each number counts once, in ascending order."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter("give whole numbers from 1 on, separated by commas: 1,5,10")
    return tuple(sorted({int(word) for word in words}))


def _example(line: str) -> str:
    """Return the end of a command's help; click does not wrap what follows \\b."""
    return f"\b\nExample: {line}"


def _config_option(text: str, *, required: bool = True) -> Callable[[Any], Any]:
    return click.option(
        "-c", "--config", required=required, type=click.Path(), callback=_existing, help=text
    )


class _Program(click.Group):
    def invoke(self, ctx: click.Context) -> None:
        """Run a command; Ctrl-C ends it as in any shell, also while it is imported."""
        try:
            super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_example("areal train -c grpo.yaml"),
)
@click.version_option(package_name="areal-lite", prog_name="areal")
def main() -> None:
    """Train language models with reinforcement learning, on a laptop or a cluster."""


@main.command(
    context_settings={"ignore_unknown_options": True},
    epilog=_example("areal train -c grpo.yaml actor.optimizer.lr=1e-4"),
)
@_config_option("YAML file.")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def train(config: str, overrides: tuple[str, ...]) -> None:
    """Train a model as configured in a YAML file.

    OVERRIDES have the form key=value and override the file: actor.optimizer.lr=1e-4. The kind of
    training follows from train_dataset.type (sft, rl, rw or dpo). The same command resumes a run
    that was interrupted.
    """
    # Dotted paths in the file (rewards, workflows, datasets of one's own) start from here.
    sys.path.insert(0, str(Path.cwd()))
    from areal.infra.launch import is_launched, report_to_launcher
    from areal.trainer.run import run_training

    try:
        run_training(["--config", config, *overrides])
    except ArealError as error:
        if not report_to_launcher(error):
            click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt as error:
        if not is_launched():  # else the launcher reports it, once
            click.echo("interrupted; the same command resumes from the last checkpoint", err=True)
        sys.exit(getattr(error, "status", 130))


@main.command(
    "eval",
    context_settings={"ignore_unknown_options": True},
    epilog=_example("areal eval -c grpo.yaml eval_gconfig.n_samples=8 --by topic"),
)
@_config_option("YAML file of the run.")
@click.option(
    "--threshold", default=1.0, show_default=True, help="Minimum reward of an episode that passes."
)
@click.option("--by", "column", help="Column to group the scores by.")
@click.option(
    "-k",
    "ks",
    callback=_numbers,
    metavar="K,...",
    help="Values of k for pass@k. [default: powers of two, and n_samples]",
)
@click.argument(
    "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[CHECKPOINT] [OVERRIDES]..."
)
def evaluate(
    arguments: tuple[str, ...],
    config: str,
    threshold: float,
    column: str | None,
    ks: tuple[int, ...],
) -> None:
    """Score a checkpoint on the validation set of a run.

    CHECKPOINT is a folder or a hub id. [default: the run's final model, else its newest checkpoint,
    else its initial model] Each row of valid_dataset gets eval_gconfig.n_samples episodes of the
    run's workflow. The command prints avg@k and pass@k by source, and writes a page of episodes.
    If AREAL_LLM_SERVER_ADDRS lists servers, it evaluates their weights.
    """
    sys.path.insert(0, str(Path.cwd()))
    from areal.trainer.evaluation import print_scores, run_evaluation

    named = [word for word in arguments if "=" not in word]
    overrides = [word for word in arguments if "=" in word]
    if len(named) > 1:
        raise click.UsageError(f"name one CHECKPOINT, not {len(named)}: {', '.join(named)}")
    checkpoint = named[0] if named else None
    try:
        found = run_evaluation(["--config", config, *overrides], checkpoint, threshold, column, ks)
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        sys.exit(130)
    print_scores(found)


@main.command(epilog=_example('areal generate runs/sums/grpo/model "12+34=" --plain'))
@click.argument("model")
@click.argument("prompt", required=False)
@click.option(
    "--max-new-tokens",
    default=256,
    show_default=True,
    help="Maximum number of tokens of an answer.",
)
@click.option(
    "--temperature", default=1.0, show_default=True, help="Sampling temperature; 0 is greedy."
)
@click.option("--samples", default=1, show_default=True, help="Number of answers.")
@click.option("--seed", type=int, help="Random seed. [default: a new one each time]")
@click.option("--plain", is_flag=True, help="Continue the text itself, without a chat template.")
def generate(
    model: str,
    prompt: str | None,
    max_new_tokens: int,
    temperature: float,
    samples: int,
    seed: int | None,
    plain: bool,
) -> None:
    """Print the answer of a model to a prompt.

    MODEL is a checkpoint folder, a hub id, or the folder or YAML file of a run, for its final model
    or else its newest checkpoint. PROMPT is read from standard input if it is not given.
    """
    from areal.api.cli_args import GenerationHyperparameters
    from areal.utils.hf_utils import check_model_name

    text = click.get_text_stream("stdin").read() if prompt is None else prompt
    try:
        if not model.endswith((".yaml", ".yml")):
            check_model_name(model)
        # What brings torch comes after what can be refused without it.
        from areal.trainer.generate import generate as answer

        gconfig = GenerationHyperparameters(
            n_samples=samples,
            max_new_tokens=max_new_tokens,
            temperature=temperature or 1.0,
            greedy=temperature == 0,
            seed=secrets.randbits(31) if seed is None else seed,
        )
        for found in answer(model, text, gconfig, is_plain=plain):
            click.echo(found)
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


@main.command(
    context_settings={"ignore_unknown_options": True},
    epilog=_example("areal serve -c grpo.yaml --port 8000"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[MODEL] [OVERRIDES]...")
@_config_option("YAML file whose model to serve.", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default="a free one", help="Port to listen on.")
@click.option("--backend", default="", help="Implementation: fsdp:d1 (transformers) or archon:d1.")
def serve(
    arguments: tuple[str, ...], config: str | None, host: str, port: int, backend: str
) -> None:
    """Serve a model over HTTP, until Ctrl-C.

    MODEL is a checkpoint folder or a hub id; with --config it is the model of a training run. The
    server implements SGLang's and OpenAI's APIs, and accepts new weights from a trainer. To listen
    on an address that other machines can reach, set a key in AREAL_SERVER_KEY.
    """
    sys.path.insert(0, str(Path.cwd()))
    from areal.trainer.serve import serve as run_server

    if config is None and len(arguments) != 1:
        raise click.UsageError("name one MODEL, or a configuration with --config")
    try:
        if config is None:
            run_server(host, port, model=arguments[0], backend=backend)
        else:
            run_server(host, port, argv=["--config", config, *arguments], backend=backend)
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


@main.command(epilog=_example('eval "$(areal completion bash)"'))
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
def completion(shell: str) -> None:
    """Print the completion script for bash, fish or zsh."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "SHELLS holds what click knows"
    click.echo(kind(main, {}, "areal", "_AREAL_COMPLETE").source())


@main.group(epilog=_example("areal trinity debug -c FILE --plugin-dir plugins"))
def trinity() -> None:
    """Run Trinity-RFT configurations and workflows."""


_TRINITY_CONFIG = _config_option("YAML file of Trinity-RFT.")
_PLUGIN_DIR = click.option(
    "--plugin-dir",
    type=click.Path(),
    envvar="TRINITY_PLUGIN_DIRS",
    help="Folder of plugin files. [TRINITY_PLUGIN_DIRS]",
)


@trinity.command(
    "run",
    context_settings={"ignore_unknown_options": True},
    epilog=_example("areal trinity run -c FILE --plugin-dir plugins buffer.total_steps=20"),
)
@_TRINITY_CONFIG
@_PLUGIN_DIR
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def run_trinity(config: str, plugin_dir: str | None, overrides: tuple[str, ...]) -> None:
    """Train as configured in a Trinity-RFT YAML file.

    OVERRIDES have the form key=value, with Trinity-RFT's keys. It prints how each key is used,
    and refuses a key that would change the algorithm. The areal configuration is written to the
    run's folder.
    """
    sys.path.insert(0, str(Path.cwd()))
    from areal.trainer.trinity.command import run

    try:
        run(config, overrides, plugin_dir)
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt as error:
        click.echo("interrupted; the same command resumes from the last checkpoint", err=True)
        sys.exit(getattr(error, "status", 130))


@trinity.command(
    "debug",
    context_settings={"ignore_unknown_options": True},
    epilog=_example("areal trinity debug -c FILE --plugin-dir plugins --index 3"),
)
@_TRINITY_CONFIG
@_PLUGIN_DIR
@click.option("--index", default=0, show_default=True, help="Row of the taskset.")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def debug_trinity(
    config: str, plugin_dir: str | None, index: int, overrides: tuple[str, ...]
) -> None:
    """Run one task, and show messages, tokens, masks and reward as a page.

    OVERRIDES have the form key=value, with Trinity-RFT's keys. Nothing is trained.
    """
    sys.path.insert(0, str(Path.cwd()))
    from areal.trainer.trinity.debugging import debug, summary

    try:
        task, page = debug(config, overrides, plugin_dir, index)
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo(summary(task))
    click.echo(f"page: {page}")
    if task.trajectory is None:
        sys.exit(1)


if __name__ == "__main__":  # torchrun -m areal.trainer.cli
    main()

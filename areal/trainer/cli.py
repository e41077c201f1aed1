"""The command ``areal``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from areal.api.errors import ArealError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="areal-lite", prog_name="areal")
def main() -> None:
    """Train language models with reinforcement learning, on a laptop or a GPU."""


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("-c", "--config", required=True, type=click.Path(), help="A YAML file.")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def train(config: str, overrides: tuple[str, ...]) -> None:
    """Run the training that a YAML file describes.

    OVERRIDES are written key=value and win over the file: actor.optimizer.lr=1e-4. The kind of
    training follows from train_dataset.type (sft or rl). The same command resumes a run that was
    interrupted.
    """
    # Dotted paths in the file (rewards, workflows, datasets of one's own) start from here.
    sys.path.insert(0, str(Path.cwd()))
    from areal.trainer.run import run_training

    try:
        run_training(["--config", config, *overrides])
    except ArealError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command resumes from the last checkpoint", err=True)
        sys.exit(130)


if __name__ == "__main__":  # torchrun -m areal.trainer.cli
    main()

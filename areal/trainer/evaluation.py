"""Evaluates a checkpoint: episodes over the validation set, their scores, and a page of them."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import PPOConfig, choose_config_class, load_expr_config
from areal.api.errors import ConfigError, EpisodeFailureError
from areal.engine.model.lora import ADAPTER_CONFIG
from areal.infra.launch import SERVERS_VARIABLE
from areal.trainer.base import CHECKPOINT_FOLDER, MODEL_FOLDER
from areal.trainer.ppo import PPOTrainer
from areal.trainer.report.eval_page import score_table, write_eval_page
from areal.trainer.report.records import (
    EpisodeSample,
    JsonLines,
    episode_row,
    plain_stats,
    write_json,
)
from areal.trainer.runtime import check_row, load_rows, make_processor, make_tokenizer, run_folder
from areal.trainer.scores import RowScore, by_source, source_of, summarize

logger = logging.getLogger("Evaluation")

SCORES_FILE = "scores.json"
EPISODES_FILE = "episodes.jsonl"
# Episodes at once, where rollout.max_concurrent_rollouts leaves it open.
_CONCURRENCY = 64
PAGE_FILE = "index.html"


@dataclass
class Evaluation:
    """What an evaluation found.

    Attributes:
        title: What was evaluated: a folder or hub id, or in words.
        facts: On what, in words.
        num_samples: Episodes that each row was given.
        threshold: An episode passes with at least this reward.
        scores: ``scores.summarize`` of all rows.
        sources: The same for each source, where there are several.
        folder: Where scores, episodes and the page lie.
    """

    title: str
    facts: list[str]
    num_samples: int
    threshold: float
    scores: dict[str, float]
    sources: dict[str, dict[str, float]]
    folder: Path


def run_evaluation(
    argv: Sequence[str],
    checkpoint: str | None = None,
    threshold: float = 1.0,
    source_column: str | None = None,
    ks: Sequence[int] = (),
) -> Evaluation:
    """Evaluate a checkpoint with the workflow of a run, and train nothing.

    The validation set of the configuration is run through ``run.eval_workflow`` (else
    ``run.workflow``) with the sampling of ``eval_gconfig``, ``n_samples`` episodes a row. All of it
    happens in this process; where ``AREAL_LLM_SERVER_ADDRS`` names servers, their weights are
    evaluated.

    Args:
        argv: ``--config FILE key=value ...``.
        checkpoint: A folder or hub id; None takes the run's final model, else its newest
            checkpoint, else the model that it begins with.
        threshold: An episode passes with at least this reward.
        source_column: Of the rows; None takes a usual one where there is one.
        ks: For which pass@k is given; empty takes the powers of two and ``n_samples``.

    Raises:
        ConfigError: The configuration is wrong or has no validation set, or the rows lack the
            column; the threshold is not finite, or a k exceeds ``n_samples``.
        EpisodeFailureError: Most episodes fail, or all of a few.
    """
    kind = choose_config_class(argv)
    if not issubclass(kind, PPOConfig):
        raise ConfigError(
            "areal eval runs episodes, and this configuration is for another kind of training; "
            "areal train reports its loss on valid_dataset"
        )
    config = load_expr_config(argv, kind)[0]
    assert config.eval_gconfig is not None
    if not math.isfinite(threshold):
        raise ConfigError(f"--threshold must be a finite number, found {threshold}")
    if max(ks, default=0) > config.eval_gconfig.n_samples:
        raise ConfigError(
            f"pass@{max(ks)} needs {max(ks)} episodes of a row: set "
            f"eval_gconfig.n_samples={max(ks)}, which is {config.eval_gconfig.n_samples}"
        )
    if config.valid_dataset is None:
        raise ConfigError(
            "there is nothing to evaluate on: describe valid_dataset in the configuration, or set "
            "valid_dataset.path and valid_dataset.type behind it"
        )
    asks_servers = bool(os.environ.get(SERVERS_VARIABLE))
    if asks_servers and checkpoint is not None:
        raise ConfigError(
            f"{SERVERS_VARIABLE} names servers, whose weights are evaluated; leave the checkpoint "
            "out, or unset the variable"
        )
    run = run_folder(config)
    found = "" if asks_servers else checkpoint or find_checkpoint(run)
    config = _without_training(config, found, asks_servers)
    tokenizer = make_tokenizer(config, config.actor)
    rows = load_rows(
        config.valid_dataset, tokenizer, lambda: make_processor(config, config.actor, tokenizer)
    )
    sources = _sources(rows, source_column)
    with PPOTrainer(config, train_dataset=rows, valid_dataset=rows) as trainer:
        scores, episodes = trainer.evaluate()
    if not episodes:
        raise EpisodeFailureError(
            f"none of {sum(score.num_failed for score in scores)} episodes ended with a reward; "
            "what the first one failed with is above"
        )
    for score in scores:
        score.source = sources[score.index]
    data = config.valid_dataset
    assert config.eval_gconfig is not None
    facts = [f"{config.experiment_name}/{config.trial_name}", data.path, f"split {data.split}"]
    result = Evaluation(
        title=found or ("what the servers hold" if asks_servers else "the model before training"),
        facts=[fact for fact in facts if fact != "split None"],
        num_samples=config.eval_gconfig.n_samples,
        threshold=threshold,
        scores=summarize(scores, threshold, ks),
        sources=by_source(scores, threshold, ks),
        folder=run
        / "eval"
        / (_folder_name(found, run) or ("servers" if asks_servers else "start")),
    )
    _write(result, scores, episodes)
    return result


def print_scores(result: Evaluation) -> None:
    """Print the table of scores, and where the page is."""
    names, rows = score_table(result.scores, result.sources, result.num_samples)
    table = Table("source", box=None, pad_edge=False, header_style="")
    for name in names:
        table.add_column(name, justify="right")
    for source, cells in rows:
        table.add_row(source, *cells)
    # A narrow terminal breaks the lines; shortened names of columns would say nothing.
    console = Console(highlight=False, soft_wrap=True, width=200)
    console.print(f"{result.title} ({', '.join(result.facts)})")
    console.print(table)
    console.print(f"episodes: {result.folder / PAGE_FILE}")


def find_checkpoint(run: Path) -> str:
    """Return the final model of a run, else its newest checkpoint; "" where there is none."""
    if (run / MODEL_FOLDER / "config.json").is_file():
        return str(run / MODEL_FOLDER)
    names = ("config.json", ADAPTER_CONFIG)
    folders = [path.parent for name in names for path in (run / CHECKPOINT_FOLDER).rglob(name)]
    # Beside them lie critics, and what a killed run has written in part.
    kept = [folder for folder in folders if re.fullmatch(r"step_\d+", folder.name)]
    newest = max(kept, key=lambda folder: folder.stat().st_mtime, default=None)
    return "" if newest is None else str(newest)


def _without_training(config: PPOConfig, checkpoint: str, asks_servers: bool) -> PPOConfig:
    """Return the configuration of one process that holds the evaluated model and nothing else."""
    name = ModelAllocation.from_str(config.actor.backend).backend
    actor = dataclasses.replace(config.actor, backend=f"{name}:d1", kl_ctl=0.0)
    if checkpoint:
        # An adapter is evaluated merged.
        actor = dataclasses.replace(actor, path=checkpoint, init_from_scratch=False, use_lora=False)
    # The same checkpoint gets the same answers again, whatever else the machine does.
    rollout = dataclasses.replace(
        config.rollout,
        deterministic_sampling=True,
        max_concurrent_rollouts=config.rollout.max_concurrent_rollouts or _CONCURRENCY,
    )
    if not asks_servers:
        rollout = dataclasses.replace(rollout, backend="local:d1")
    return dataclasses.replace(
        config,
        # Nothing is trained, so no row is too few for a batch.
        train_dataset=dataclasses.replace(config.train_dataset, batch_size=1),
        actor=actor,
        ref=None,
        critic=None,
        rollout=rollout,
        tokenizer_path=config.tokenizer_path or checkpoint,
    )


def _folder_name(checkpoint: str, run: Path) -> str:
    """Return a name that other checkpoints do not have: the path in the run, or the whole one."""
    path = Path(checkpoint)
    if path.resolve().is_relative_to(run.resolve()):
        path = path.resolve().relative_to(run.resolve())
    return "-".join(part for part in path.parts if part not in ("/", ".", ".."))


def _sources(rows: Sequence[dict[str, object]], column: str | None) -> list[str]:
    found = []
    for i in range(len(rows)):
        check_row(rows[i], f"row {i} of valid_dataset")
        try:
            found.append(source_of(rows[i], column))
        except KeyError as error:
            raise ConfigError(
                f"row {i} of valid_dataset has no column {column!r}; it has: {', '.join(rows[i])}"
            ) from error
    return found


def _write(result: Evaluation, rows: list[RowScore], episodes: list[EpisodeSample]) -> None:
    folder = result.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EPISODES_FILE).unlink(missing_ok=True)
    lines = JsonLines(folder / EPISODES_FILE)
    lines.append(episode_row(episode) for episode in episodes)
    lines.close()
    write_json(
        folder / SCORES_FILE,
        {
            "checkpoint": result.title,
            "threshold": result.threshold,
            "scores": plain_stats(result.scores),
            "sources": {name: plain_stats(found) for name, found in result.sources.items()},
            "rows": [dataclasses.asdict(row) for row in rows],
        },
    )
    table = score_table(result.scores, result.sources, result.num_samples)
    write_eval_page(
        result.title, result.facts, table, episodes, result.threshold, folder / PAGE_FILE
    )

"""One task of a Trinity-RFT YAML, run where a person can look at it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from areal.api.cli_args import InferenceEngineConfig, PPOConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.engine.local.engine import LocalInferenceEngine
from areal.experimental.trinity.model import EpisodeModel
from areal.experimental.trinity.workflow import TrinityWorkflow
from areal.infra.trajectory import check_trajectory
from areal.trainer.report.page import load_template, write_html
from areal.trainer.runtime import load_rows, run_folder
from areal.trainer.serve import load_from_config
from areal.trainer.trinity.command import translated, write_config

PAGE_FILE = "debug.html"


@dataclasses.dataclass
class DebuggedTask:
    """What one task did.

    Attributes:
        trajectory: What training would see; None where the episode failed.
        failure: Why it did, in words.
        answers: Of the model, in their order.
    """

    row: dict[str, Any]
    workflow: str
    trajectory: dict[str, Any] | None
    failure: str
    answers: Sequence[Any]
    tokenizer: Any


class _ObservedWorkflow(TrinityWorkflow):
    """Keeps the models that its episodes ask."""

    models: list[EpisodeModel]

    def _make_model(self, is_eval: bool) -> EpisodeModel:
        model = super()._make_model(is_eval)
        self.models = [*getattr(self, "models", []), model]
        return model


def debug(
    path: str, overrides: Sequence[str], plugin_dir: str | None, index: int = 0
) -> tuple[DebuggedTask, Path]:
    """Run one row of the taskset once, and write a page of it.

    Args:
        path: The YAML.
        overrides: ``key=value`` words.
        plugin_dir: A folder of plugins.
        index: Which row.

    Returns:
        What happened, and where the page lies.

    Raises:
        ConfigError: The YAML asks for what there is not, or there is no such row.
    """
    argv = ["--config", str(write_config(translated(path, overrides, plugin_dir)))]
    weights, tokenizer, seed = load_from_config(argv)
    config = load_expr_config(argv, PPOConfig)[0]
    rows = load_rows(config.train_dataset, tokenizer)
    if not 0 <= index < len(rows):
        raise ConfigError(f"the taskset has {len(rows)} rows, from 0 on; there is no row {index}")
    engine = LocalInferenceEngine(InferenceEngineConfig(backend="local:d1"), weights, seed)
    engine.initialize()
    try:
        task = run_task(config.run.workflow_kwargs, config.gconfig, tokenizer, engine, rows[index])
    finally:
        engine.destroy()
    page = run_folder(config) / PAGE_FILE
    write_html(load_template("trinity_debug.html.jinja").render(page_content(task)), page)
    return task, page


def run_task(
    workflow_kwargs: Mapping[str, Any], gconfig: Any, tokenizer: Any, engine: Any, row: Any
) -> DebuggedTask:
    """Run a workflow once on a row; what it raises is part of what is found."""
    workflow = _ObservedWorkflow(gconfig=gconfig, tokenizer=tokenizer, **workflow_kwargs)
    workflow.models = []
    trajectory, failure = None, ""
    try:
        trajectory = asyncio.run(workflow.arun_episode(engine, dict(row)))
        check_trajectory(trajectory, workflow.name_in_messages)
    except Exception as error:  # of a workflow, which may raise what it likes
        trajectory, failure = None, f"{type(error).__name__}: {error}"
    answers = [answer for model in workflow.models for answer in model.book.answers]
    name = workflow.name_in_messages
    return DebuggedTask(dict(row), name, trajectory, failure, answers, tokenizer)


def page_content(task: DebuggedTask) -> dict[str, Any]:
    """Return what the page's template shows."""
    sequences = []
    if task.trajectory is not None:
        found = task.trajectory
        paid = found.get("token_rewards")
        for i in range(len(found["input_ids"])):
            length = int(found["attention_mask"][i].sum())
            sequences.append(
                {
                    "reward": f"{float(found['rewards'][i]):g}",
                    "info": found["info"][i],
                    "num_trained": int(found["loss_mask"][i].sum()),
                    "tokens": [
                        {
                            "id": int(found["input_ids"][i, j]),
                            "text": task.tokenizer.decode([int(found["input_ids"][i, j])]),
                            "is_trained": bool(found["loss_mask"][i, j]),
                            "logprob": f"{float(found['logprobs'][i, j]):.4f}",
                            "version": int(found["versions"][i, j]),
                            "reward": "" if paid is None else f"{float(paid[i, j]):g}",
                        }
                        for j in range(length)
                    ],
                }
            )
    return {
        "workflow": task.workflow,
        "row": task.row,
        "failure": task.failure,
        "answers": [
            {
                "messages": list(answer.messages),
                "text": answer.text,
                "counts": f"{len(answer.prompt)} tokens asked, {len(answer.output)} answered",
            }
            for answer in task.answers
        ],
        "sequences": sequences,
    }


def summary(task: DebuggedTask) -> str:
    """Return what happened in a few lines of text."""
    lines = [f"workflow {task.workflow}, {len(task.answers)} answers of the model"]
    for answer in task.answers:
        lines += [f"  {m['role']}: {m['content']}" for m in answer.messages]
        lines.append(f"  -> {answer.text!r} ({len(answer.output)} tokens)")
    if task.trajectory is None:
        return "\n".join([*lines, f"failed: {task.failure}"])
    for i, reward in enumerate(task.trajectory["rewards"].tolist()):
        length = int(task.trajectory["attention_mask"][i].sum())
        trained = int(task.trajectory["loss_mask"][i].sum())
        lines.append(f"sequence {i}: {length} tokens, {trained} trained on, reward {reward:g}")
    return "\n".join(lines)

"""The agents that ship train a tiny model, each through its own SDK."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest

from areal.trainer.run import run_training
from tests.tiny_runs import MODEL, rl_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")


def get_problems(path: str, **options: Any) -> list[dict[str, Any]]:
    return [
        {"messages": [{"role": "user", "content": f"{i % 10}="}], "answer": "7"} for i in range(8)
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "path",
    [
        "areal.workflow.openai.math_agent.MathAgent",
        "areal.workflow.langchain.math_agent.MathToolAgent",
        pytest.param("areal.workflow.openai.math_agent.MathToolAgent", marks=pytest.mark.slow),
        pytest.param("areal.workflow.langchain.math_agent.MathAgent", marks=pytest.mark.slow),
        "areal.workflow.anthropic.math_agent.MathAgent",
    ],
)
def test_a_tiny_model_trains_on_them(tmp_path: Path, path: str) -> None:
    model = {**MODEL, "characters": string.printable, "max_position_embeddings": 4096}
    config = rl_yaml(
        tmp_path,
        run={"workflow": path, "workflow_kwargs": {"max_completion_tokens": 3}, "model": model},
        train_dataset={"path": f"{__name__}.get_problems"},
        total_train_steps=2,
    )
    run_training(["--config", str(config)])
    for stats in train_stats(tmp_path):
        assert stats["n_seqs"] == 16
        assert stats["logp_abs_diff"] < 1e-5

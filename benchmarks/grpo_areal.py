"""Runs PPOTrainer as ``areal train`` does and writes CPU seconds a step and peak memory as JSON.

``python -m benchmarks.grpo_areal RESULT MODEL CONFIG WARMUP_STEPS STEPS``
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.trainer.ppo import PPOTrainer
from benchmarks.clock import peak_memory_mb, use_one_thread
from benchmarks.warm_model import run_place


class _TimedTrainer(PPOTrainer):
    """Notes CPU time where each step begins, so that its logs and checkpoints count too."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.marks: list[float] = []
        self.answer_tokens: list[float] = []

    def _train_step(self) -> Any:
        self.marks.append(time.process_time())
        stats, episodes = super()._train_step()
        self.answer_tokens.append(stats["gen_len"])
        return stats, episodes


def main(result: str, model: str, config: str, warmup_steps: str, steps: str) -> None:
    """Train and writes what was measured."""
    use_one_thread()
    num_warmup, num_steps = int(warmup_steps), int(steps)
    folder = Path(result).parent
    overrides = {
        **run_place(folder, "grpo"),
        "actor.path": model,
        # One step more: the last one counted ends where it begins.
        "total_train_steps": num_warmup + num_steps + 1,
        "run.stop_at_reward": "null",
    }
    argv = ["--config", config, *(f"{key}={value}" for key, value in overrides.items())]
    settings, _ = load_expr_config(argv, GRPOConfig)
    with _TimedTrainer(settings) as trainer:
        trainer.train()
    ends, begins = trainer.marks[1:], trainer.marks[:-1]
    seconds = [end - begin for end, begin in zip(ends, begins, strict=True)]
    found = {
        "trainer": "areal",
        "cpu_seconds": seconds[num_warmup:],
        "peak_memory_mb": peak_memory_mb(),
        "mean_answer_tokens": sum(trainer.answer_tokens) / len(trainer.answer_tokens),
    }
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

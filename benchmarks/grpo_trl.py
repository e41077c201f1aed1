"""Runs TRL's GRPOTrainer on the task of a configuration; writes what ``grpo_areal`` writes.

``python -m benchmarks.grpo_trl RESULT MODEL CONFIG WARMUP_STEPS STEPS``

TRL is set up to its advantage: fp32 without autocast, no checkpoints, no logs, no progress bar, no
reference model, no gradient checkpointing; its own defaults for everything else.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from areal.api import cli_args
from areal.api.registry import resolve
from areal.dataset.arithmetic import get_arithmetic_rl_dataset
from areal.reward import REWARDS
from benchmarks.clock import peak_memory_mb, use_one_thread


class _Clock(TrainerCallback):
    """Notes CPU time where each step ends."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.marks.append(time.process_time())


class _Reward:
    """The configuration's reward in TRL's form; counts the tokens that it sees."""

    __name__ = "reward"

    def __init__(self, reward_fn: Any) -> None:
        self.reward_fn = reward_fn
        self.num_answers = self.num_tokens = 0

    def __call__(
        self,
        prompts: list[str],
        completions: list[str],
        completion_ids: list[list[int]],
        answer: list[str],
        **_: Any,
    ) -> list[float]:
        self.num_answers += len(completions)
        self.num_tokens += sum(map(len, completion_ids))
        return [
            self.reward_fn(prompt, completion, None, ids, answer=gold)
            for prompt, completion, ids, gold in zip(
                prompts, completions, completion_ids, answer, strict=True
            )
        ]


def main(result: str, model: str, config: str, warmup_steps: str, steps: str) -> None:
    """Train and writes what was measured."""
    use_one_thread()
    num_warmup, num_steps = int(warmup_steps), int(steps)
    task, _ = cli_args.load_expr_config(["--config", config], cli_args.GRPOConfig)
    clock, reward = _Clock(), _Reward(resolve(REWARDS, "reward", task.run.reward_fn))
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=reward,
        args=_arguments(task, Path(result).parent, num_warmup + num_steps),
        train_dataset=_problems(task),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[clock],
    )
    trainer.train()
    ends, begins = clock.marks[1:], clock.marks[:-1]
    seconds = [end - begin for end, begin in zip(ends, begins, strict=True)]
    found = {
        "trainer": "TRL",
        "cpu_seconds": seconds[num_warmup - 1 :],
        "peak_memory_mb": peak_memory_mb(),
        "mean_answer_tokens": reward.num_tokens / reward.num_answers,
    }
    Path(result).write_text(json.dumps(found))


def _problems(task: Any) -> Dataset:
    rows = get_arithmetic_rl_dataset(split="train", **task.train_dataset.dataset_kwargs)
    columns = [(row["messages"][0]["content"], row["answer"]) for row in rows]
    return Dataset.from_list([{"prompt": prompt, "answer": answer} for prompt, answer in columns])


def _arguments(task: Any, folder: Path, num_steps: int) -> GRPOConfig:
    optimizer, gconfig = task.actor.optimizer, task.gconfig
    return GRPOConfig(
        output_dir=str(folder / "out"),
        max_steps=num_steps,
        per_device_train_batch_size=task.train_dataset.batch_size * gconfig.n_samples,
        gradient_accumulation_steps=1,
        num_generations=gconfig.n_samples,
        max_completion_length=gconfig.max_new_tokens,
        temperature=gconfig.temperature,
        beta=0.0,
        epsilon=task.actor.eps_clip,
        learning_rate=optimizer.lr,
        weight_decay=optimizer.weight_decay,
        lr_scheduler_type=optimizer.lr_scheduler_type,
        warmup_steps=optimizer.warmup_steps or 0,
        max_grad_norm=optimizer.gradient_clipping,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=task.seed,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Configurations of training runs that take a second: a tiny model that learns to say one digit."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import torch

from areal.api import ModelRequest, RolloutWorkflow
from areal.api.reward_api import inline_reward
from areal.infra import workflow_context

CHARACTERS = "0123456789="
MODEL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 32,
    "characters": CHARACTERS,
}


def rl_yaml(folder: Path, algorithm: str = "grpo", **sections: Any) -> Path:
    """Writes the configuration of a run of policy optimisation and returns its path.

    Args:
        folder: Gets the file, and the run's own folder ``e/t``.
        algorithm: A preset.
        **sections: Merged into the file's, one level deep.
    """
    content: dict[str, Any] = {
        "experiment_name": "e",
        "trial_name": "t",
        "cluster": {"fileroot": str(folder)},
        "total_train_epochs": 1000,
        "total_train_steps": 3,
        "run": {"algorithm": algorithm, "reward_fn": "tests.tiny_runs.sevens", "model": MODEL},
        "gconfig": {"n_samples": 4, "max_new_tokens": 4},
        "actor": {"optimizer": {"lr": 0.01, "warmup_steps": 0}},
        "train_dataset": {"path": "tests.tiny_runs.get_digits_rl_dataset", "type": "rl"},
        "stats_logger": {"tensorboard": {"path": None}},
    }
    content["train_dataset"]["batch_size"] = 4
    return _write(folder, content, sections)


def sft_yaml(folder: Path, **sections: Any) -> Path:
    """Writes the configuration of a supervised run and returns its path."""
    return _given_rows_yaml(folder, "sft", sections)


def pairs_yaml(folder: Path, kind: str, **sections: Any) -> Path:
    """Writes the configuration of a run of type "dpo" or "rw" and returns its path."""
    return _given_rows_yaml(folder, kind, sections)


def _given_rows_yaml(folder: Path, kind: str, sections: dict[str, Any]) -> Path:
    content: dict[str, Any] = {
        "experiment_name": "e",
        "trial_name": "t",
        "cluster": {"fileroot": str(folder)},
        "total_train_epochs": 1000,
        "total_train_steps": 3,
        "run": {"model": MODEL},
        "actor": {"optimizer": {"lr": 0.01, "warmup_steps": 0}},
        "train_dataset": {"path": f"tests.tiny_runs.get_digits_{kind}_dataset", "type": kind},
        "stats_logger": {"tensorboard": {"path": None}},
    }
    content["train_dataset"]["batch_size"] = 4
    if kind == "rw":
        content["actor"]["is_critic"] = True
    return _write(folder, content, sections)


def _write(folder: Path, content: dict[str, Any], sections: dict[str, Any]) -> Path:
    for name, value in sections.items():
        both = isinstance(value, dict) and isinstance(content.get(name), dict)
        content[name] = {**content[name], **value} if both else value
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def train_stats(folder: Path) -> list[dict[str, Any]]:
    """Returns the statistics of each step of the run ``e/t``; none is missing or there twice."""
    lines = (folder / "e" / "t" / "stats.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["stats"] for row in rows]


def get_digits_rl_dataset(
    path: str, split: str | None = None, size: int = 40, **_: Any
) -> list[dict[str, Any]]:
    """Returns prompts such as "3=" with a row number of their own."""
    return [
        {"row": i, "messages": [{"role": "user", "content": f"{i % 10}="}]} for i in range(size)
    ]


def get_digits_sft_dataset(
    path: str, split: str | None = None, tokenizer: Any = None, size: int = 40
) -> list[dict[str, Any]]:
    """Returns prompts such as "3=" with the answer "7777"."""
    rows = []
    for i in range(size):
        prompt = tokenizer.encode(f"{i % 10}=")
        answer = [*tokenizer.encode("7" * (1 + i % 4)), tokenizer.eos_token_id]
        mask = [0] * len(prompt) + [1] * len(answer)
        rows.append({"input_ids": prompt + answer, "loss_mask": mask})
    return rows


def get_digits_rw_dataset(
    path: str, split: str | None = None, tokenizer: Any = None, size: int = 40
) -> list[dict[str, Any]]:
    """Returns pairs such as "3=777" and "3=71": of an answer all should be sevens."""
    rng = random.Random(f"{split}/{size}")
    rows = []
    for i in range(size):
        right = "7" * rng.randint(1, 4)
        wrong = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 3)))
        answers = {"chosen": right, "rejected": wrong + rng.choice("012345689")}
        rows.append(
            {
                f"{side}_ids": [*tokenizer.encode(f"{i % 10}={answer}"), tokenizer.eos_token_id]
                for side, answer in answers.items()
            }
        )
    return rows


def get_digits_dpo_dataset(
    path: str, split: str | None = None, tokenizer: Any = None, size: int = 40
) -> list[dict[str, Any]]:
    """Returns the same pairs; of each side the answer and its end carry loss."""
    return [
        {**row, **{f"{side[:-4]}_loss_mask": [0, 0] + [1] * (len(row[side]) - 2) for side in row}}
        for row in get_digits_rw_dataset(path, split, tokenizer, size)
    ]


@inline_reward
def sevens(prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, **_: Any) -> float:
    """Returns the share of sevens in an answer of four characters."""
    return completions.count("7") / 4


class DigitWorkflow(RolloutWorkflow):
    """Asks once, and lets subclasses spoil the result.

    Args:
        gconfig: How to sample.
        tokenizer: Of the model.
    """

    def __init__(self, gconfig: Any, tokenizer: Any) -> None:
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(tokenizer).new(n_samples=1)
        self.tokenizer = tokenizer

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        prompt = self.tokenizer.encode(data["messages"][0]["content"])
        answer = await engine.agenerate(ModelRequest(input_ids=prompt, gconfig=self.gconfig))
        num_prompt, num_output = len(prompt), answer.output_len
        text = self.tokenizer.decode(answer.output_tokens)
        return self.finish(
            data,
            {
                "input_ids": torch.tensor([prompt + answer.output_tokens], dtype=torch.int32),
                "attention_mask": torch.ones(1, num_prompt + num_output, dtype=torch.bool),
                "loss_mask": torch.tensor([[0] * num_prompt + [1] * num_output]),
                "logprobs": torch.tensor([[0.0] * num_prompt + answer.output_logprobs]),
                "versions": torch.tensor([[-1] * num_prompt + answer.output_versions]),
                "rewards": torch.tensor([text.count("7") / 4]),
            },
        )

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        """Returns the episode's result."""
        return trajectory

    def is_bad(self, data: dict[str, Any]) -> bool:
        """Return whether an episode is one of the few that go wrong."""
        return data["row"] % 4 == 0 and workflow_context.get().sample_idx == 0


# --- rewards that go wrong on one row in four, in a worker of the pool ----------------------------


def _is_unlucky(row: int) -> bool:
    return row % 4 == 1


def raising_reward(*sample: Any, row: int, **_: Any) -> float:
    """Raises."""
    if _is_unlucky(row):
        raise KeyError("gold")
    return sevens(*sample)


def hanging_reward(*sample: Any, row: int, **_: Any) -> float:
    """Never returns."""
    while _is_unlucky(row):
        time.sleep(1)
    return sevens(*sample)


def exiting_reward(*sample: Any, row: int, **_: Any) -> float:
    """Ends its process."""
    if _is_unlucky(row):
        os._exit(3)
    return sevens(*sample)


def nan_reward(*sample: Any, row: int, **_: Any) -> float:
    """Returns no number."""
    return float("nan") if _is_unlucky(row) else sevens(*sample)

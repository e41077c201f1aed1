"""Trains with AReaL's own interfaces over the same YAML that ``areal train`` reads.

    python train.py --config grpo.yaml [key=value ...]

Everything that ``areal train`` decides from the block ``run:`` is written out here, so this is the
place for what a configuration cannot say. Only AReaL's public names are used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from areal import PPOTrainer
from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.dataset import get_custom_dataset
from areal.utils.hf_utils import load_hf_tokenizer
from omegaconf import OmegaConf


def read_run(config: Any, path: str) -> dict[str, Any]:
    """Returns the block ``run:``, from the file beside where the configuration's class has none."""
    if hasattr(config, "run"):
        return vars(config.run)
    return OmegaConf.to_container(OmegaConf.load(Path(path).with_suffix(".run.yaml")))["run"]


def main(argv: Sequence[str]) -> None:
    """Trains as configured."""
    config, path = load_expr_config(argv, GRPOConfig)
    run = read_run(config, path)
    tokenizer = load_hf_tokenizer(config.tokenizer_path)
    train_dataset = get_custom_dataset(dataset_config=config.train_dataset, tokenizer=tokenizer)
    valid_dataset = None
    if config.valid_dataset is not None:
        valid_dataset = get_custom_dataset(dataset_config=config.valid_dataset, tokenizer=tokenizer)
    workflow_kwargs = {
        "reward_fn": run["reward_fn"],
        "gconfig": config.gconfig,
        "tokenizer": config.tokenizer_path,
        **(run.get("workflow_kwargs") or {}),
    }
    eval_workflow_kwargs = {**workflow_kwargs, "gconfig": config.eval_gconfig}
    with PPOTrainer(config, train_dataset=train_dataset, valid_dataset=valid_dataset) as trainer:
        trainer.train(
            workflow=run["workflow"],
            eval_workflow=run["workflow"],
            workflow_kwargs=workflow_kwargs,
            eval_workflow_kwargs=eval_workflow_kwargs,
        )


if __name__ == "__main__":
    main(sys.argv[1:])

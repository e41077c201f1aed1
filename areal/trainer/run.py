"""From a configuration file to a finished run."""

from __future__ import annotations

from collections.abc import Sequence

from areal.api.cli_args import PPOConfig, SFTConfig, choose_config_class, load_expr_config
from areal.api.errors import ConfigError
from areal.trainer.report import ReportPaths


def run_training(argv: Sequence[str]) -> ReportPaths | None:
    """Run the training of ``--config FILE key=value ...`` to its end.

    Returns:
        Where the report lies.

    Raises:
        ConfigError: The configuration is wrong, or needs a trainer that does not exist.
    """
    kind = choose_config_class(argv)
    if issubclass(kind, PPOConfig):
        from areal.trainer.ppo import PPOTrainer

        with PPOTrainer(load_expr_config(argv, kind)[0]) as rl_trainer:
            rl_trainer.train()
        return rl_trainer.report
    if issubclass(kind, SFTConfig):
        from areal.trainer.sft import SFTTrainer

        with SFTTrainer(load_expr_config(argv, kind)[0]) as sft_trainer:
            sft_trainer.train()
        return sft_trainer.report
    raise ConfigError(
        f"train_dataset.type asks for a {kind.__name__}, which has no trainer yet; sft and rl have"
    )

"""From a configuration file to a finished run."""

from __future__ import annotations

from collections.abc import Sequence

from areal.api.cli_args import (
    BaseExperimentConfig,
    PPOConfig,
    SFTConfig,
    choose_config_class,
    load_expr_config,
)
from areal.api.errors import ConfigError
from areal.infra.launch import is_launched
from areal.trainer.fit import refuse_misfit
from areal.trainer.launching import launch
from areal.trainer.report import ReportPaths
from areal.trainer.runtime import load_rows, make_tokenizer


def run_training(argv: Sequence[str]) -> ReportPaths | None:
    """Run the training of ``--config FILE key=value ...`` to its end.

    A configuration that needs servers or several processes has them started by this one, unless
    this one was started so itself.

    Returns:
        Where the report lies; None where other processes wrote it.

    Raises:
        ConfigError: The configuration is wrong, or needs a trainer that does not exist.
        KeyboardInterrupt: Ctrl-C ended the processes that were started.
        SystemExit: They failed.
    """
    kind = choose_config_class(argv)
    if not issubclass(kind, (PPOConfig, SFTConfig)):
        raise ConfigError(
            f"train_dataset.type asks for a {kind.__name__}, which has no trainer yet; sft and rl "
            "have"
        )
    config = load_expr_config(argv, kind)[0]
    if not is_launched():
        refuse_misfit(config, argv)
    if launch(config, ["-m", "areal.trainer.cli", "train", *argv], _check):
        return None
    # Before rows are loaded: what is refused needs none.
    _check(config)
    valid_dataset = None
    if config.valid_dataset is not None:
        tokenizer = make_tokenizer(config, config.actor)
        valid_dataset = load_rows(config.valid_dataset, tokenizer)
    if isinstance(config, PPOConfig):
        from areal.trainer.ppo import PPOTrainer

        with PPOTrainer(config, valid_dataset=valid_dataset) as rl_trainer:
            rl_trainer.train()
        return rl_trainer.report
    from areal.trainer.sft import SFTTrainer

    with SFTTrainer(config, valid_dataset=valid_dataset) as sft_trainer:
        sft_trainer.train()
    return sft_trainer.report


def _check(config: BaseExperimentConfig) -> None:
    if isinstance(config, PPOConfig):
        from areal.trainer.ppo.checks import check_ppo_config

        check_ppo_config(config)
    else:
        from areal.trainer.base import check_actor

        check_actor(config)

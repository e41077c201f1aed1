"""From a configuration file to a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from areal.api.cli_args import (
    BaseExperimentConfig,
    DPOConfig,
    PPOConfig,
    RWConfig,
    SFTConfig,
    choose_config_class,
    load_expr_config,
)
from areal.api.registry import import_from_string
from areal.infra.launch import is_launched
from areal.trainer.fit import refuse_misfit
from areal.trainer.launching import launch
from areal.trainer.report import ReportPaths
from areal.trainer.runtime import load_rows, make_processor, make_tokenizer


class _Training(NamedTuple):
    """Import paths, as a run needs one trainer only."""

    trainer: str
    check: str


_TRAININGS: dict[type[BaseExperimentConfig], _Training] = {
    DPOConfig: _Training("areal.trainer.dpo:DPOTrainer", "areal.trainer.dpo:check_dpo_config"),
    PPOConfig: _Training(
        "areal.trainer.ppo:PPOTrainer", "areal.trainer.ppo.checks:check_ppo_config"
    ),
    RWConfig: _Training("areal.trainer.rw:RWTrainer", "areal.trainer.rw:check_rw_config"),
    SFTConfig: _Training(
        "areal.trainer.sft:SFTTrainer", "areal.trainer.supervised:check_supervised_config"
    ),
}


def run_training(argv: Sequence[str]) -> ReportPaths | None:
    """Run the training of ``--config FILE key=value ...`` to its end.

    A configuration that needs servers or several processes has them started by this one, unless
    this one was started so itself.

    Returns:
        Where the report lies; None where other processes wrote it.

    Raises:
        ConfigError: The configuration is wrong.
        KeyboardInterrupt: Ctrl-C ended the processes that were started.
        SystemExit: They failed.
    """
    kind = choose_config_class(argv)
    training = next(found for cls, found in _TRAININGS.items() if issubclass(kind, cls))
    config = load_expr_config(argv, kind)[0]
    if not is_launched():
        refuse_misfit(config, argv)
    command = ["-m", "areal.trainer.cli", "train", *argv]
    check = import_from_string(training.check)
    if launch(config, command, check):
        return None
    # Before rows are loaded: what is refused needs none.
    check(config)
    valid_dataset = None
    if config.valid_dataset is not None:
        tokenizer = make_tokenizer(config, config.actor)
        valid_dataset = load_rows(
            config.valid_dataset,
            tokenizer,
            lambda: make_processor(config, config.actor, tokenizer),
        )
    with import_from_string(training.trainer)(config, valid_dataset=valid_dataset) as trainer:
        trainer.train()
    report: ReportPaths | None = trainer.report
    return report

"""Checkpoints of a loop of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import (
    BaseExperimentConfig,
    EvaluatorConfig,
    OptimizerConfig,
    RecoverConfig,
    SaverConfig,
    StatsLoggerConfig,
    TrainEngineConfig,
)
from areal.api.io_struct import FinetuneSpec, StepInfo
from areal.engine.fsdp_engine import FSDPEngine
from areal.utils.evaluator import Evaluator
from areal.utils.recover import InValidRecoverInfo, RecoverHandler, check_if_recover
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger
from tests.tiny_models import tiny_model

SPEC = FinetuneSpec(total_train_epochs=2, dataset_size=20, train_batch_size=4)


class Position:
    """A dataloader of which the position alone matters."""

    def __init__(self, place: int = 0) -> None:
        self.place = place

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class Loop:
    """All that a checkpoint covers."""

    def __init__(self, folder: Path, *names: str, **recover: Any) -> None:
        trial = {"experiment_name": "e", "trial_name": "t", "fileroot": str(folder)}
        model = folder / "model"
        if not model.exists():
            tiny_model("qwen3").save_pretrained(model)
        config = TrainEngineConfig(
            "e", "t", path=str(model), backend="fsdp:d1", optimizer=OptimizerConfig(lr=0.1)
        )
        self.engines = {name: FSDPEngine(config) for name in names or ("default",)}
        for engine in self.engines.values():
            engine.initialize(None, SPEC)
        experiment = BaseExperimentConfig(stats_logger=StatsLoggerConfig(**trial))
        self.config = RecoverConfig(**trial, mode="on", freq_steps=2, **recover)
        self.handler = RecoverHandler(self.config, SPEC)
        self.parts = (
            Saver(SaverConfig(**trial, freq_steps=3), SPEC),
            Evaluator(EvaluatorConfig(**trial), SPEC),
            StatsLogger(experiment, SPEC),
        )
        self.dataloader = Position()

    def dump(self, step: int) -> None:
        place = StepInfo(step // 5, step % 5, step, 5)
        self.dataloader.place = 10 * step
        self.handler.dump(self.engines, place, *self.parts, self.dataloader)

    def load(self) -> Any:
        return self.handler.load(self.engines, *self.parts, self.dataloader)


def test_all_engines_come_back_with_their_schedules(tmp_path: Path) -> None:
    first = Loop(tmp_path, "default", "critic")
    assert first.load() is None
    assert not check_if_recover(first.config)
    for step in range(4):
        for engine in first.engines.values():
            for parameter in engine.module.parameters():
                parameter.grad = torch.ones_like(parameter)
            engine.optimizer_step()
            engine.step_lr_scheduler()
            engine.set_version(step + 1)
        first.dump(step)
    assert check_if_recover(first.config)
    second = Loop(tmp_path, "default", "critic")
    found = second.load()
    assert found.last_step_info == StepInfo(0, 3, 3, 5)
    assert found.last_step_info.next().global_step == 4
    assert second.dataloader.place == 30
    for name, engine in second.engines.items():
        assert engine.get_version() == 4
        assert engine.lr_scheduler.state_dict() == first.engines[name].lr_scheduler.state_dict()
        for one, other in zip(
            engine.module.parameters(), first.engines[name].module.parameters(), strict=True
        ):
            assert one.equal(other)


def test_a_checkpoint_of_other_models_is_refused(tmp_path: Path) -> None:
    first = Loop(tmp_path, "default", "critic")
    first.dump(0)
    assert first.load() is None  # not due
    first.dump(1)
    with pytest.raises(InValidRecoverInfo, match="critic"):
        Loop(tmp_path).load()


def test_nothing_is_written_or_read_where_it_is_off(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.config.mode = "disabled"
    loop.dump(1)
    assert not (tmp_path / "checkpoints").exists()
    loop.config.mode = "auto"
    loop.dump(1)
    loop.config.mode = "off"
    assert loop.load() is None
    assert not check_if_recover(loop.config, run_id=1)

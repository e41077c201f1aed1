"""Checkpoints of a loop of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import (
    BaseExperimentConfig,
    EvaluatorConfig,
    InferenceEngineConfig,
    OptimizerConfig,
    RecoverConfig,
    SaverConfig,
    StatsLoggerConfig,
    TrainDatasetConfig,
    TrainEngineConfig,
)
from areal.api.io_struct import FinetuneSpec, StepInfo
from areal.api.workflow_api import RolloutWorkflow
from areal.engine.fsdp_engine import FSDPEngine
from areal.infra import WorkflowExecutor
from areal.utils.dataloader import create_dataloader
from areal.utils.evaluator import Evaluator
from areal.utils.recover import InValidRecoverInfo, RecoverHandler, check_if_recover
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger
from tests.fakes import InstantEngine, trajectory
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
        self.dataloader: Any = Position()

    def dump(self, step: int) -> None:
        place = StepInfo(step // 5, step % 5, step, 5)
        if isinstance(self.dataloader, Position):
            self.dataloader.place = 10 * step
        self.handler.dump(self.engines, place, *self.parts, self.dataloader)

    def load(self, **options: Any) -> Any:
        return self.handler.load(self.engines, *self.parts, self.dataloader, **options)


class Numbered(RolloutWorkflow):
    """Names its row by the reward."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, torch.Tensor]:
        return trajectory(reward=float(data["row"]))


@contextmanager
def rolling_out() -> Iterator[Any]:
    """Gives an engine whose rows run ahead of training by two batches of two."""
    settings = {"consumer_batch_size": 2, "max_concurrent_rollouts": 6}
    config = InferenceEngineConfig(backend="local:d1", max_head_offpolicyness=2, **settings)
    engine = InstantEngine(lambda _: [1])
    executor = WorkflowExecutor(config, engine)
    executor.initialize()
    engine.workflow_executor = executor  # type: ignore[attr-defined]  # as an inference engine has
    yield engine
    executor.destroy()


@pytest.mark.parametrize("is_given", [True, False])
def test_rows_that_are_under_way_come_back(tmp_path: Path, is_given: bool) -> None:
    dataset = [{"row": i} for i in range(12)]
    trained: list[int] = []

    def train(loop: Loop, rollout: Any, steps: range) -> None:
        for step in steps:
            batch = rollout.workflow_executor.prepare_batch(loop.dataloader, Numbered())
            trained.extend(int(each["rewards"]) for each in batch)
            rollout.version = step + 1
            rollout.workflow_executor.notify_version_changed()
            loop.dump(step)

    def loop() -> Loop:
        made = Loop(tmp_path)
        config = TrainDatasetConfig(path="", type="rl", batch_size=2)
        made.dataloader = create_dataloader(dataset, 0, 1, config)
        return made

    with rolling_out() as rollout:
        first = loop()
        first.engines["default"].connect_engine(rollout)
        assert first.load() is None
        train(first, rollout, range(2))
    with rolling_out() as rollout:
        second = loop()
        rollout.version = 2
        if not is_given:
            second.engines["default"].connect_engine(rollout)
        second.load(inference_engine=rollout if is_given else None)
        train(second, rollout, range(2, 6))
    assert sorted(trained) == list(range(12))


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

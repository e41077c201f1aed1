"""Statistics of a loop of one's own."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import BaseExperimentConfig, StatsLoggerConfig, TensorBoardConfig
from areal.api.io_struct import FinetuneSpec
from areal.trainer.report import stats_logger as module
from areal.utils.stats_logger import StatsLogger

SPEC = FinetuneSpec(total_train_epochs=2, dataset_size=20, train_batch_size=4)


class Tracker:
    """Keeps the rows that it gets."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.is_closed = False

    def log(self, step: int, stats: dict[str, Any]) -> None:
        self.rows.append((step, stats))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Tracker]]:
    """The trackers that were opened, with the step after which they go on."""
    found: list[tuple[int, Tracker]] = []

    def open_trackers(*arguments: Any) -> list[Tracker]:
        found.append((arguments[-1], Tracker()))
        return [found[-1][1]]

    monkeypatch.setattr(module, "open_trackers", open_trackers)
    return found


def experiment(folder: Path) -> BaseExperimentConfig:
    where = StatsLoggerConfig("e", "t", str(folder), tensorboard=TensorBoardConfig(path=None))
    return BaseExperimentConfig(experiment_name="e", trial_name="t", stats_logger=where)


def test_every_dict_has_a_step_of_its_own(
    tmp_path: Path, opened: list[tuple[int, Tracker]], capsys: pytest.CaptureFixture[str]
) -> None:
    logger = StatsLogger(experiment(tmp_path), SPEC)
    logger.commit(0, 0, 0, {"loss": 1.0, "bad": float("nan")})
    logger.commit(0, 1, 1, [{"loss": 2.0}, {"loss": 3.0}])
    logger.commit(0, 2, 2, {"loss": 4.0})
    logger.close()
    ((resumed_at, tracker),) = opened
    assert resumed_at == -1
    assert tracker.rows == [
        (0, {"loss": 1.0, "bad": None}),
        (1, {"loss": 2.0}),
        (2, {"loss": 3.0}),
        (3, {"loss": 4.0}),
    ]
    assert tracker.is_closed
    printed = capsys.readouterr().err
    assert "epoch 1/2, step 2/5, 2/10 in all" in printed
    assert "nan" in printed

    later = StatsLogger(experiment(tmp_path), SPEC)
    later.load_state_dict(logger.state_dict())
    later.commit(0, 3, 3, {"loss": 5.0})
    assert opened[1][0] == 3
    assert opened[1][1].rows == [(4, {"loss": 5.0})]


def test_other_ranks_say_nothing(
    tmp_path: Path,
    opened: list[tuple[int, Tracker]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RANK", "1")
    logger = StatsLogger(experiment(tmp_path), SPEC)
    logger.commit(0, 0, 0, {"loss": 1.0})
    logger.close()
    assert not opened
    assert capsys.readouterr().err == ""


def test_logs_lie_where_the_contract_has_them(tmp_path: Path) -> None:
    path = StatsLogger.get_log_path(experiment(tmp_path).stats_logger)
    assert path == f"{tmp_path}/logs/{getpass.getuser()}/e/t"
    assert Path(path).is_dir()

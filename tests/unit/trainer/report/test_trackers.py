from __future__ import annotations

import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from areal.api.config.experiment import BaseExperimentConfig
from areal.api.config.logging import (
    StatsLoggerConfig,
    SwanlabConfig,
    TensorBoardConfig,
    TrackioConfig,
    WandBConfig,
)
from areal.api.errors import ConfigError
from areal.trainer.report.trackers import TensorBoardTracker, open_trackers

BLOCKS = {"wandb": WandBConfig, "swanlab": SwanlabConfig, "trackio": TrackioConfig}


def experiment(tensorboard: str | None = None, **blocks: Any) -> BaseExperimentConfig:
    """Returns a configuration that logs to the given places only."""
    names = {"experiment_name": "addition", "trial_name": "t1"}
    stats_logger = StatsLoggerConfig(
        **names, fileroot="", tensorboard=TensorBoardConfig(tensorboard), **blocks
    )
    return BaseExperimentConfig(**names, stats_logger=stats_logger)


class RecordingModule(types.ModuleType):
    """Stands for a tracker's package: remembers the calls of its three functions."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def init(self, **kwargs: Any) -> None:
        self.calls.append(("init", kwargs))

    def log(self, stats: dict[str, float], step: int) -> None:
        self.calls.append(("log", {"stats": stats, "step": step}))

    def finish(self) -> None:
        self.calls.append(("finish", {}))

    def login(self, api_key: str) -> None:
        self.calls.append(("login", {"api_key": api_key}))


def test_tensorboard_reads_what_was_written(tmp_path: Path):
    tracker = TensorBoardTracker(tmp_path, resume_step=0)
    for step in range(1, 4):
        tracker.log(step, {"reward": step / 10, "rollout/accepted": 16, "kl": None})
    tracker.close()
    tracker.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["reward", "rollout/accepted", "kl"]
    assert [e.step for e in events.Scalars("reward")] == [1, 2, 3]
    # Event files hold float32.
    assert [e.value for e in events.Scalars("reward")] == pytest.approx([0.1, 0.2, 0.3], abs=1e-7)
    assert math.isnan(events.Scalars("kl")[0].value)


def test_tensorboard_forgets_the_steps_that_a_resumed_run_makes_again(tmp_path: Path):
    first = TensorBoardTracker(tmp_path, resume_step=0, clock=lambda: 1000.0)
    for step in range(1, 6):
        first.log(step, {"reward": 0.0})
    first.close()
    second = TensorBoardTracker(tmp_path, resume_step=3, clock=lambda: 2000.0)
    for step in range(4, 7):
        second.log(step, {"reward": 1.0})
    second.close()
    scalars = EventAccumulator(str(tmp_path)).Reload().Scalars("reward")
    assert [(e.step, e.value) for e in scalars] == [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 1)]


def test_tensorboard_is_imported_at_the_first_row_and_never_brings_tensorflow(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path\n"
        "from areal.trainer.report.trackers import TensorBoardTracker\n"
        "tracker = TensorBoardTracker(Path(sys.argv[1]), 0)\n"
        "assert 'tensorboard' not in sys.modules\n"
        "tracker.log(1, {'reward': 0.5}); tracker.close()\n"
        "assert 'tensorboard' in sys.modules\n"
        "loaded = {'tensorflow', 'torch', 'tensorboard.compat.tensorflow_stub.io.gfile'}\n"
        "print(sorted(loaded.intersection(sys.modules)))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "tensorflow'" not in result.stdout
    assert "'torch'" not in result.stdout


@pytest.mark.parametrize(
    ("path", "folder"),
    [("auto", "tensorboard"), (None, None), ("", None), ("elsewhere", "elsewhere")],
)
def test_tensorboard_writes_where_its_path_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None, folder: str | None
):
    monkeypatch.chdir(tmp_path)
    trackers = open_trackers(experiment(path), {}, tmp_path, 0)
    for tracker in trackers:
        tracker.log(1, {"reward": 1.0})
        tracker.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ([folder] if folder else [])


def test_a_config_without_a_stats_logger_gets_tensorboard(tmp_path: Path):
    assert len(open_trackers({}, {}, tmp_path, 0)) == 1


@pytest.mark.parametrize("service", ["wandb", "swanlab", "trackio"])
def test_a_service_whose_package_is_missing_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
):
    # Absent from every folder on the path, whatever this environment has.
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" not in p])
    monkeypatch.delitem(sys.modules, service, raising=False)
    config = experiment(**{service: BLOCKS[service](mode="offline")})
    with pytest.raises(ConfigError, match=f"pip install {service}, or set stats_logger.{service}"):
        open_trackers(config, {}, tmp_path, 0)


def open_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service: str, block: Any
) -> RecordingModule:
    """Runs one row through a service and returns what its package was told."""
    module = RecordingModule(service)
    module.__spec__ = types.SimpleNamespace(name=service)  # type: ignore[assignment]  # find_spec asks
    monkeypatch.setitem(sys.modules, service, module)
    (tracker,) = open_trackers(experiment(**{service: block}), {"seed": 1}, tmp_path, 0)
    tracker.log(7, {"reward": 0.5, "kl": None})
    tracker.close()
    tracker.close()
    return module


@pytest.mark.parametrize("service", ["wandb", "swanlab", "trackio"])
def test_a_service_gets_names_config_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
):
    module = open_with(monkeypatch, tmp_path, service, BLOCKS[service](mode="offline"))
    assert [name for name, _ in module.calls] == ["init", "log", "finish"]
    init = module.calls[0][1]
    assert init["project"] == "addition"
    assert init["config"] == {"seed": 1}
    assert "addition_t1" in init.values()
    assert None not in init.values()
    assert module.calls[1][1] == {"stats": {"reward": 0.5}, "step": 7}


def test_a_resumed_wandb_run_continues_under_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_API_KEY", "")  # so that the key is taken out again afterwards
    block = WandBConfig(mode="online", wandb_api_key="k", project="p", name="n")
    init = open_with(monkeypatch, tmp_path, "wandb", block).calls[0][1]
    assert (init["id"], init["resume"]) == ("addition_t1_train", "allow")
    assert (init["project"], init["name"], init["mode"]) == ("p", "n", "online")


def test_swanlab_logs_in_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = open_with(monkeypatch, tmp_path, "swanlab", SwanlabConfig(mode="cloud", api_key="k"))
    assert module.calls[0] == ("login", {"api_key": "k"})

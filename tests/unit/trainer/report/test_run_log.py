from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from areal.trainer.report import EpisodeSample, RunLog, render_report
from areal.trainer.report.records import read_rows
from areal.trainer.report.run_log import batch_text


@dataclass
class Dataset:
    batch_size: int = 16


@dataclass
class Generation:
    n_samples: int = 8


@dataclass
class Run:
    algorithm: str = "grpo"
    stop_at_reward: float | None = 0.95


@dataclass
class Experiment:
    experiment_name: str = "???"
    trial_name: str = "t1"
    train_dataset: Dataset = field(default_factory=Dataset)
    gconfig: Generation = field(default_factory=Generation)
    run: Run = field(default_factory=Run)
    hub_token: str = ""


def episode(step: int, text: str = "2+2=", reward: float = 1.0) -> EpisodeSample:
    return EpisodeSample(step, f"row-{step}", text, "4", reward, step - 1, "stop", "4")


def open_log(folder: Path, steps: int = 10, **kwargs: Any) -> RunLog:
    kwargs.setdefault("console", False)
    return RunLog(folder, Experiment("addition"), steps, **kwargs)


def rows_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in read_rows(folder / "stats.jsonl") if row["kind"] == kind]


KILLED_RUN = """
import os, signal, sys
from areal.trainer.report import EpisodeSample, RunLog
log = RunLog(sys.argv[1], {"experiment_name": "addition"}, 10, console=False)
for step in range(1, int(sys.argv[2]) + 1):
    sample = EpisodeSample(step, f"row-{step}", "2+2=", "4", 1.0, step - 1, "stop")
    log.step(step, {"reward": step / 10}, [sample])
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_and_kill(folder: Path, last_step: int) -> None:
    """Runs some steps in a process that then kills itself."""
    argv = [sys.executable, "-c", KILLED_RUN, str(folder), str(last_step)]
    assert subprocess.run(argv, check=False).returncode == -9


def test_a_run_leaves_statistics_episodes_curve_and_page(tmp_path: Path):
    log = open_log(tmp_path)
    log.eval(0, {"reward": 0.1})
    for step in range(1, 11):
        log.step(step, {"reward": step / 10, "loss": 0.1}, [episode(step)])
    paths = log.close("completed")
    assert [row["step"] for row in rows_of(tmp_path, "train")] == list(range(1, 11))
    assert rows_of(tmp_path, "eval")[0]["stats"] == {"reward": 0.1}
    assert len(read_rows(paths.episodes_jsonl)) == 10
    assert paths.reward_png == tmp_path / "reward.png"
    with Image.open(paths.reward_png) as picture:
        assert picture.size == (1350, 750)
    assert "addition / t1" in paths.html.read_text(encoding="utf-8")
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "completed"
    assert log.close("failed: late") == paths


def test_sft_is_shown_by_its_loss(tmp_path: Path):
    log = open_log(tmp_path)
    for step in range(1, 4):
        log.step(step, {"loss": 1 / step})
    paths = log.close()
    assert paths.reward_png == tmp_path / "loss.png"
    assert paths.reward_png.exists()


def test_a_run_without_a_step_has_a_page_and_no_curve(tmp_path: Path):
    paths = open_log(tmp_path).close("failed: no data")
    assert paths.reward_png is None
    page = paths.html.read_text(encoding="utf-8")
    assert "ended before its first step" in page
    assert "no data" in page


def test_a_resumed_run_has_each_step_once_and_goes_on_with_the_time(tmp_path: Path):
    run_and_kill(tmp_path, last_step=7)
    log = open_log(tmp_path, resume_step=5)
    for step in range(6, 11):
        log.step(step, {"reward": 1.0}, [episode(step)])
    log.close()
    assert [row["step"] for row in rows_of(tmp_path, "train")] == list(range(1, 11))
    assert [row["stats"]["reward"] for row in rows_of(tmp_path, "train")][4:6] == [0.5, 1.0]
    assert [row["step"] for row in read_rows(tmp_path / "episodes.jsonl")] == list(range(1, 11))
    assert [row["step"] for row in rows_of(tmp_path, "resume")] == [5]
    times = [row["time_s"] for row in rows_of(tmp_path, "train")]
    assert times == sorted(times)


def test_a_second_run_from_the_start_keeps_the_first_ones_files(tmp_path: Path):
    run_and_kill(tmp_path, last_step=3)
    log = open_log(tmp_path)
    log.step(1, {"reward": 0.5})
    log.close()
    kinds = [row["kind"] for row in read_rows(tmp_path / "stats.1.jsonl")]
    assert kinds == ["start", *["train"] * 3]
    assert len(read_rows(tmp_path / "episodes.1.jsonl")) == 3
    assert len(rows_of(tmp_path, "train")) == 1


def test_a_killed_run_can_be_reported_from_its_files(tmp_path: Path):
    run_and_kill(tmp_path, last_step=7)
    with (tmp_path / "stats.jsonl").open("ab") as file:
        file.write(b'{"kind": "tra')
    paths = render_report(tmp_path)
    assert paths.reward_png is not None
    assert '<span class="badge info">running</span>' in paths.html.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (ValueError("bad <row>"), "failed: ValueError: bad <row>"),
    ],
)
def test_a_run_that_ends_early_is_reported_with_the_cause(
    tmp_path: Path, error: BaseException, status: str
):
    def train() -> None:
        with open_log(tmp_path) as log:
            log.step(1, {"reward": 0.5})
            raise error

    with pytest.raises(type(error)):
        train()
    assert json.loads((tmp_path / "run.json").read_text())["status"] == status
    assert "bad <row>" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_does_not_hide_the_runs_own_error(tmp_path: Path):
    def train() -> None:
        with open_log(tmp_path) as log:
            log.step(1, {"reward": 0.5})
            (tmp_path / "report.html").mkdir()
            raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"):
        train()


def test_a_warning_is_shown_recorded_and_not_repeated_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = open_log(tmp_path, steps=300, console=True)
    for step in range(1, 251):
        log.step(step, {"loss": 0.1, "truncated_ratio": 1.0})
    log.warn("own", "said by the trainer")
    log.close()
    found = [(row["code"], row["step"]) for row in rows_of(tmp_path, "warning")]
    assert found == [
        ("all_truncated", 3),
        ("all_truncated", 103),
        ("all_truncated", 203),
        ("own", 250),
    ]
    assert "warning (all_truncated) at step 3" in capsys.readouterr().err


def test_the_console_says_rows_and_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    open_log(tmp_path, console=True).close()
    assert "16 rows x 8 samples = 128 sequences a step" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"train_dataset": {"batch_size": 4}}, "4 sequences a step"),
        ({"train_dataset": {"batch_size": 4, "type": "dpo"}}, "4 pairs a step"),
        ({"train_dataset": {"batch_size": 4}, "gconfig": {"n_samples": 2}},
         "4 rows x 2 samples = 8 sequences a step"),
        ({}, ""),
    ],
)  # fmt: skip
def test_batch_text(config: dict[str, Any], text: str):
    assert batch_text(config) == text


def test_nan_is_written_as_null_and_named(tmp_path: Path):
    log = open_log(tmp_path)
    log.step(1, {"loss": float("nan"), "reward": 0.5})
    log.close()
    assert rows_of(tmp_path, "train")[0]["stats"]["loss"] is None
    assert [row["code"] for row in rows_of(tmp_path, "warning")] == ["not_finite"]


def test_starting_a_run_imports_no_drawing_and_no_training_library(tmp_path: Path):
    code = (
        "import sys; from areal.trainer.report import RunLog\n"
        "log = RunLog(sys.argv[1], {}, 10)\n"
        "heavy = {'matplotlib', 'tensorboard', 'torch', 'transformers', 'pandas', 'tensorflow'}\n"
        "print(sorted(heavy.intersection(sys.modules)))\n"
        "log.step(1, {'reward': 0.5}); print('matplotlib' in sys.modules)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["[]", "False"]


def page_of(folder: Path, fill: Callable[[RunLog], None]) -> str:
    with open_log(folder) as log:
        fill(log)
    return log.close().html.read_text(encoding="utf-8")


def test_the_page_needs_nothing_from_outside(tmp_path: Path):
    def fill(log: RunLog) -> None:
        for step in range(1, 11):
            log.step(step, {"reward": step / 10, "loss": 1 / step}, [episode(step)])
        log.eval(10, {"reward": 1.0})

    page = page_of(tmp_path, fill)
    outside = re.findall(r"""(?:src|href|action|srcset)=["'](?!data:)[^"']*""", page)
    assert outside == []
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|\bimport\(", page)
    assert set(re.findall(r"https?://[^\"' )<]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert page.count("<svg") == 2
    assert "prefers-color-scheme: dark" in page


def test_episode_texts_are_escaped_and_long_ones_cut(tmp_path: Path):
    def fill(log: RunLog) -> None:
        texts = ['<script>alert(1)</script> & "quoted"', "x" * 5000, "lone \udc80 surrogate"]
        log.step(1, {"reward": 0.5}, [episode(1, text, i) for i, text in enumerate(texts)])

    page = page_of(tmp_path, fill)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in page
    assert "[1,000 characters more in episodes.jsonl]" in page


def test_episodes_come_from_the_whole_run(tmp_path: Path):
    def fill(log: RunLog) -> None:
        for step in range(1, 101):
            log.step(step, {"reward": 0.5}, [episode(step, reward=i) for i in range(8)])

    page = page_of(tmp_path, fill)
    assert re.findall(r"<summary>Step (\d+)", page) == ["1", "21", "41", "60", "80", "100"]
    assert page.count("4 of 8") == 6
    assert "reward 0<" in page
    assert "reward 7<" in page


def test_the_page_shows_what_was_configured_and_no_secret(tmp_path: Path):
    config = Experiment("addition", train_dataset=Dataset(4), hub_token="s3cret")
    page = RunLog(tmp_path, config, 5, console=False).close().html.read_text(encoding="utf-8")
    assert "train_dataset.batch_size" in page
    assert "<code>run.algorithm" not in page
    everything = page + (tmp_path / "run.json").read_text()
    assert "s3cret" not in everything


def test_statistics_that_never_change_get_a_line_instead_of_a_chart(tmp_path: Path):
    def fill(log: RunLog) -> None:
        for step in range(1, 4):
            log.step(step, {"reward": step / 4, "lr": 0.25, "kl": None})

    page = page_of(tmp_path, fill)
    assert "The same in every step: lr 0.25." in page
    assert page.count("<svg") == 1


def test_a_step_costs_less_than_a_millisecond_of_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    log = open_log(tmp_path, steps=400, console=True)
    stats = {f"group/stat_{i}": i * 0.37 for i in range(40)}
    names = (
        "reward",
        "loss",
        "truncated_ratio",
        "logp_abs_diff",
        "flat_group_ratio",
        "tokens_per_s",
    )
    log.step(1, stats)  # TensorBoard is imported here
    start_s = time.process_time()
    for step in range(2, 302):
        log.step(step, stats | dict.fromkeys(names, step / 1000))
    cost_s = (time.process_time() - start_s) / 300
    # Measured 0.3 ms; CPU time, not wall time, so that a busy machine cannot fail it.
    assert cost_s < 1e-3
    log.close()


def test_console_page_and_curve_have_one_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(tmp_path, steps=20, console=True)
    for step in range(1, 21):
        log.step(step, {"reward": step / 20})
    log.close()
    # Of the last ten steps, which run.stop_at_reward is compared with.
    assert "step 20/20  reward 0.775" in capsys.readouterr().err
    page = (tmp_path / "report.html").read_text()
    assert "mean of 10 steps 0.775" in page
    assert "mean of 10 steps, from 0.275" in page


def test_a_page_of_pairs_leads_with_their_accuracy_and_its_goal(tmp_path: Path) -> None:
    config = {"run": {"algorithm": "dpo", "stop_at_accuracy": 0.75}}
    log = RunLog(tmp_path, config, 20, console=False)
    for step in range(1, 11):
        log.step(step, {"loss": 0.3 + 0.01 * step, "accuracy": step / 20})
    paths = log.close()
    page = paths.html.read_text()
    assert page.count('class="goal"') == 1
    assert page.index("goal 0.75") > page.index("Chosen preferred")
    assert "mean of 10 steps 0.275" in page
    assert paths.reward_png == tmp_path / "accuracy.png"


def test_turns_of_an_episode_are_shown_apart(tmp_path: Path) -> None:
    turns = [{"sampled": i % 2 == 0, "text": text} for i, text in enumerate(["5", "no!", "4"])]
    log = open_log(tmp_path)
    log.step(1, {"reward": 1.0}, [replace(episode(1), turns=turns)])
    log.close()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", (tmp_path / "report.html").read_text()))
    assert "Prompt 2+2= Completion 5 Feedback no! Completion 4 Gold answer 4" in text

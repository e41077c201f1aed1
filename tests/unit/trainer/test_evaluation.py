"""`areal eval`: checkpoints of a run, scored on its validation set, without training."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from areal.api.errors import ConfigError, DatasetError, EpisodeFailureError
from areal.api.reward_api import inline_reward
from areal.trainer.cli import main
from areal.trainer.evaluation import find_checkpoint, run_evaluation
from areal.trainer.run import run_training
from areal.trainer.scores import RowScore
from areal.workflow.rlvr import RLVRWorkflow
from tests.tiny_runs import get_digits_rl_dataset, rl_yaml

pytestmark = pytest.mark.usefixtures("short_runs")
HERE = __name__


def get_labelled_rl_dataset(path: str, **options: Any) -> list[dict[str, Any]]:
    rows = get_digits_rl_dataset(path, size=6)
    return [row | {"topic": ["even", "odd"][row["row"] % 2]} for row in rows]


@inline_reward
def even_rows(
    prompt: Any, completions: str, prompt_ids: Any, ids: Any, row: int, **_: Any
) -> float:
    return float(row % 2 == 0)


class Rejecting(RLVRWorkflow):
    """Rejects what is asked in the third row."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        found = await super().arun_episode(engine, data)
        return None if data["row"] == 2 else found


def configuration(folder: Path, **run: Any) -> Path:
    return rl_yaml(
        folder,
        run=run,
        eval_gconfig={"n_samples": 2, "max_new_tokens": 4},
        valid_dataset={"path": f"{HERE}.get_labelled_rl_dataset", "type": "rl", "batch_size": 4},
        total_train_steps=1,
    )


def test_every_source_has_its_scores_and_every_episode_is_kept(tmp_path: Path) -> None:
    path = configuration(tmp_path, reward_fn=f"{HERE}.even_rows", workflow=f"{HERE}.Rejecting")
    found = run_evaluation(["--config", str(path)], source_column="topic")
    assert found.title == "the model before training"
    # Of six rows the third, an even one, is rejected twice.
    assert found.scores["reward"] == pytest.approx(2 / 5)
    assert (found.scores["n_rows"], found.scores["n_seqs"], found.scores["n_failed"]) == (5, 10, 2)
    assert found.scores["pass@2"] == pytest.approx(2 / 5)
    assert {name: each["reward"] for name, each in found.sources.items()} == {"even": 1, "odd": 0}
    written = json.loads((found.folder / "scores.json").read_text())
    assert [RowScore(**row).rewards for row in written["rows"][:3]] == [[1, 1], [0, 0], []]
    episodes = [
        json.loads(row) for row in (found.folder / "episodes.jsonl").read_text().splitlines()
    ]
    assert [each["task_id"] for each in episodes[:3]] == ["0/0", "0/1", "1/0"]
    assert [each["prompt"] for each in episodes[:3]] == ["0=", "0=", "1="]
    assert all(each["completion"] for each in episodes)
    page = (found.folder / "index.html").read_text()
    assert "<td>even</td>" in page
    assert "1.000" in page


def test_the_newest_model_of_a_run_is_taken_and_nothing_of_the_run_changes(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    run_training(["--config", str(path)])
    run = tmp_path / "e/t"
    before = {each: each.read_bytes() for each in run.rglob("*") if each.is_file()}
    found = run_evaluation(["--config", str(path)])
    assert found.title == str(run / "model")
    for each, content in before.items():
        assert each.read_bytes() == content
    named = run_evaluation(["--config", str(path), "eval_gconfig.greedy=true"], str(run / "model"))
    again = run_evaluation(["--config", str(path), "eval_gconfig.greedy=true"])
    assert named.scores == again.scores


def test_only_whole_models_of_the_policy_are_found(tmp_path: Path) -> None:
    for name in ("step_00000001", "step_00000002_critic", ".step_00000002.staged-7"):
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
        os.utime(folder, (len(name), len(name)))  # in this order
    assert find_checkpoint(tmp_path) == str(tmp_path / "checkpoints/step_00000001")


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    path = configuration(tmp_path, reward_fn=f"{HERE}.even_rows")
    done = CliRunner().invoke(main, ["eval", "-c", str(path), "--by", "topic", "seed=3"])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert rows[1] == ["source", "rows", "avg@2", "±", "pass@1", "pass@2", "failed"]
    assert rows[3] == ["even", "3", "1.000", "0.000", "1.000", "1.000", "0"]
    assert rows[-1][0] == "episodes:"
    chosen = ["eval", "-c", str(path), "-k", "2,3,2", "eval_gconfig.n_samples=3"]
    done = CliRunner().invoke(main, chosen)
    assert done.exit_code == 0, done.output
    header = done.output.splitlines()[1].split()
    assert header == ["source", "rows", "avg@3", "±", "pass@2", "pass@3", "failed"]


@pytest.mark.parametrize("text", ["0", "2,x", ""])
def test_what_is_no_list_of_ks_is_refused(tmp_path: Path, text: str) -> None:
    path = configuration(tmp_path)
    done = CliRunner().invoke(main, ["eval", "-c", str(path), "-k", text])
    assert done.exit_code == 2
    assert "whole numbers from 1 on, separated by commas" in done.output


def get_holed_rl_dataset(path: str, **options: Any) -> list[Any]:
    return [*get_digits_rl_dataset(path, size=1), None]


def test_a_row_that_is_none_is_named(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    rows = f"valid_dataset.path={HERE}.get_holed_rl_dataset"
    with pytest.raises(DatasetError, match="row 1 of valid_dataset is None, and no mapping of col"):
        run_evaluation(["--config", str(path), rows])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such/folder"], "no/such/folder"),
        (["valid_dataset=null"], "there is nothing to evaluate on"),
        (["--by", "subject"], "row 0 of valid_dataset has no column 'subject'; it has: row,"),
        (["seeed=1"], "seeed"),
        (["--threshold", "nan"], "--threshold must be a finite number, found nan"),
        (["-k", "1,3"], "pass@3 needs 3 episodes of a row: set eval_gconfig.n_samples=3"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = configuration(tmp_path)
    done = CliRunner().invoke(main, ["eval", "-c", str(path), *arguments])
    assert done.exit_code == 1
    assert done.output.startswith("error: ")
    assert words in done.output
    assert not (tmp_path / "e/t/eval").exists()


def test_a_checkpoint_beside_named_servers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AREAL_LLM_SERVER_ADDRS", "127.0.0.1:9")
    with pytest.raises(ConfigError, match="leave the checkpoint out"):
        run_evaluation(["--config", str(configuration(tmp_path))], "model")


class Failing(RLVRWorkflow):
    """Ends without a reward."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        raise KeyError("gold")


def test_an_evaluation_without_any_reward_is_an_error(tmp_path: Path) -> None:
    path = configuration(tmp_path, workflow=f"{HERE}.Failing")
    with pytest.raises(EpisodeFailureError, match="none of 12 episodes ended with a reward"):
        run_evaluation(["--config", str(path)])
    assert not (tmp_path / "e/t/eval").exists()


def test_fewer_rows_than_a_training_batch_are_evaluated_alike_each_time(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    found = [
        run_evaluation(["--config", str(path), f"train_dataset.batch_size={size}"])
        for size in (8, 50)
    ]
    episodes = [(each.folder / "episodes.jsonl").read_text() for each in found]
    assert found[0].scores["n_rows"] == 6
    assert episodes[0] == episodes[1]


def test_every_checkpoint_has_a_folder_of_its_own(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    run_training(["--config", str(path)])
    other = shutil.copytree(tmp_path / "e/t/model", tmp_path / "other/model")
    own = run_evaluation(["--config", str(path)])
    theirs = run_evaluation(["--config", str(path)], str(other))
    assert own.folder == tmp_path / "e/t/eval/model"
    assert theirs.folder.name.endswith("other-model")

"""`areal trinity` as a person runs it, with a YAML and two plugins, one of them broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.areal.conftest import Areal, command, environment

pytestmark = pytest.mark.heavy

PLUGIN = """
from trinity.common.workflows import WORKFLOWS, Workflow


@WORKFLOWS.register_module("sevens")
class Sevens(Workflow):
    can_reset = True

    def reset(self, task):
        self.task = task

    def run(self):
        question = [{"role": "user", "content": self.task.task_desc}]
        answer = self.model.chat(question)[0]
        answer.reward = answer.response_text.count("7") / 4
        answer.info = {"asked": self.task.task_desc}
        return [answer]
"""


def written(folder: Path, model: Path) -> Path:
    """Writes a taskset, a plugin folder with a broken neighbour, and the YAML of a short run."""
    (folder / "plugins").mkdir()
    (folder / "plugins" / "sevens.py").write_text(PLUGIN)
    (folder / "plugins" / "broken.py").write_text("import a_module_that_is_not_there\n")
    (folder / "rows").mkdir()
    rows = [{"question": f"{i % 10}="} for i in range(8)]
    (folder / "rows" / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    taskset = {"path": "rows", "format": {"prompt_key": "question"}}
    content: dict[str, Any] = {
        "project": "p",
        "name": "n",
        "checkpoint_root_dir": "out",
        "algorithm": {"algorithm_type": "grpo", "repeat_times": 2, "kl_loss_fn": "none"},
        "model": {"model_path": str(model), "max_prompt_tokens": 4, "max_response_tokens": 4},
        "buffer": {
            "batch_size": 4,
            "total_steps": 1,
            "explorer_input": {"taskset": taskset, "default_workflow_type": "sevens"},
        },
        "explorer": {"concurrent_mode": "multi-threading"},
    }
    path = folder / "trinity.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, warm_model: Path, areal: Areal) -> Any:
    folder = tmp_path_factory.mktemp("trinity")
    config = written(folder, warm_model)
    words = ("-c", config, "--plugin-dir", "plugins", "buffer.total_steps=2")
    return folder, areal("trinity", "run", *words, cwd=folder)


def test_a_trinity_yaml_trains_with_its_plugin_and_every_key_has_its_word(finished: Any) -> None:
    folder, done = finished
    assert done.returncode == 0, done.stderr
    assert "broken.py raises on import: ModuleNotFoundError" in done.stderr
    uses = [line.split()[0] for line in done.stdout.splitlines() if line.count("  ") > 2]
    assert {"mapped", "defaulted", "ignored"} <= set(uses)
    assert "the same as: areal train -c out/p/n/areal.yaml" in done.stdout
    lines = (folder / "out/p/n/stats.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    stats = [row["stats"] for row in rows if row["kind"] == "train"]
    steps = [each for each in stats if "logp_abs_diff" in each]
    assert len(steps) == 2
    assert all(each["logp_abs_diff"] < 1e-5 for each in steps)
    samples = (folder / "out/p/n/episodes.jsonl").read_text().splitlines()
    assert all(json.loads(line)["info"]["asked"] for line in samples)


def test_one_task_is_run_and_shown(
    finished: Any, areal: Areal, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = finished
    monkeypatch.setenv("TRINITY_PLUGIN_DIRS", "plugins")
    words = ("-c", "trinity.yaml", "--index", "3", "name=d")
    done = areal("trinity", "debug", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "user: 3=" in done.stdout
    assert 'class="trained"' in (folder / "out/p/d/debug.html").read_text()


@pytest.mark.slow  # the run that it becomes is resumed by tests/unit/trainer/test_recover.py
def test_a_killed_run_goes_on_from_the_step_that_the_yaml_has_saved(
    areal: Areal, warm_model: Path, tmp_path: Path
) -> None:
    written(tmp_path, warm_model)
    sizes = ["buffer.batch_size=1", "buffer.total_steps=8", "trainer.save_interval=1"]
    words = ["trinity", "run", "-c", "trinity.yaml", "--plugin-dir", "plugins", *sizes]
    run = tmp_path / "out/p/n"
    with (tmp_path / "printed").open("wb") as printed:
        process = subprocess.Popen(
            command(*words),
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and process.poll() is None:
            if any(path.name >= "step_00000003" for path in run.glob("recover/step_*")):
                break
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    assert process.returncode == -signal.SIGKILL, (tmp_path / "printed").read_text()
    done = areal(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming from step" in done.stderr
    lines = map(json.loads, (run / "stats.jsonl").read_text().splitlines())
    assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 9))
    samples = map(json.loads, (run / "episodes.jsonl").read_text().splitlines())
    asked = {line["step"]: line["info"]["asked"] for line in samples}
    assert [asked[step] for step in range(1, 9)] == [f"{row}=" for row in range(8)]

"""Every example: a step or two of each configuration in this process, and whole runs when slow."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from areal.trainer.cli import main as areal_main
from scaffold.cli.main import main as scaffold_main
from tests.integration.areal.conftest import ROOT, Areal

EXAMPLES = ROOT / "examples"

# What runs before what, in each folder; and where the last ten steps of a whole run lie.
WAYS: dict[str, tuple[str, ...]] = {
    "agent": ("sft", "grpo"),
    "arithmetic": ("sft", "grpo", "ppo"),
    "code": ("warm_up", "code"),
    "gsm8k": ("sft", "grpo"),
    "multi_turn": ("grpo",),
    "own_dataset": ("sft", "grpo"),
    "preferences": ("rw", "dpo"),
    "shapes": ("grpo",),
}
# Of a whole run: the mean of the first three steps is below the first number, that of the last ten
# above the second.
LEARNT: dict[str, dict[tuple[str, str], tuple[float, float]]] = {
    "agent": {("agent/grpo", "reward"): (0.5, 0.55)},
    "arithmetic": {
        ("arithmetic/grpo", "reward"): (0.6, 0.9),
        ("arithmetic/ppo", "reward"): (0.6, 0.9),
    },
    "code": {("code/grpo", "reward"): (0.4, 0.6)},
    "gsm8k": {("gsm8k/grpo", "reward"): (0.55, 0.6)},
    "multi_turn": {("multi_turn/grpo", "reward"): (0.35, 0.7)},
    "own_dataset": {("own_dataset/grpo", "reward"): (0.65, 0.68)},
    "preferences": {
        ("preferences/rw", "accuracy"): (0.7, 0.9),
        ("preferences/dpo", "accuracy"): (0.75, 0.95),
    },
    "shapes": {("shapes/grpo", "reward"): (0.35, 0.9)},
}
FEW = [
    "total_train_steps=1",
    "train_dataset.batch_size=2",
    "stats_logger.tensorboard.path=null",
    "recover.mode=disabled",
]


def overrides(example: str, text: str) -> list[str]:
    """Returns what makes a run of a configuration a matter of moments."""
    found = list(FEW)
    if "valid_dataset:" in text:
        found += ["valid_dataset=null"]
    if "n_samples: 8" in text:
        found += ["gconfig.n_samples=2"]
    if example not in ("gsm8k", "own_dataset"):
        found += ["train_dataset.dataset_kwargs.size=8"]
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples, where one finds the model that another has left."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(EXAMPLES)
    return folder


def enter(example: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Enters the folder in which an example runs; returns where its configurations are there."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    if example != "code":
        return f"examples/{example}/"
    # Its reward is what the toolkit makes today.
    for argv in (
        ["new", "coder"],
        ["add-reward", "passes_tests", "--style", "code", "--test-form", "asserts"],
    ):
        with pytest.raises(SystemExit, match="0"):
            scaffold_main([*argv, "--no-input"])
        monkeypatch.chdir(folder / "coder")
    monkeypatch.syspath_prepend(str(folder / "coder"))
    for file in (EXAMPLES / example).iterdir():
        if file.is_file():
            shutil.copy(file, folder / "coder")
    return ""


def test_each_is_listed_short_and_shown() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"}
    assert there == set(WAYS)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in WAYS:
        files = [path for path in (EXAMPLES / name).iterdir() if path.is_file()]
        assert len(files) <= 4, f"{name}: {files}"
        assert {path.stem for path in files if path.suffix == ".yaml"} == set(WAYS[name])
        assert f"](../docs/en/images/example-{name}.png)" in page
    for image in re.findall(r"\]\(([^)]+\.png)\)", page):
        assert (EXAMPLES / image).is_file(), image


@pytest.mark.heavy
@pytest.mark.parametrize("example", WAYS)
def test_a_step_of_each(example: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = enter(example, runs, monkeypatch)
    for name in WAYS[example]:
        text = Path(f"{place}{name}.yaml").read_text("utf-8")
        argv = ["train", "-c", f"{place}{name}.yaml", *overrides(example, text)]
        done = CliRunner().invoke(areal_main, argv)
        assert done.exit_code == 0, f"{name}: {done.output[-2000:]} {done.exception!r}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", WAYS)
def test_each_learns(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    areal: Areal,
) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    place = enter(example, tmp_path, monkeypatch)
    before = ["examples/arithmetic/sft"] if example == "preferences" else []
    for path in [*before, *(place + name for name in WAYS[example])]:
        done = areal("train", "-c", f"{path}.yaml", cwd=Path.cwd())
        assert done.returncode == 0, done.stderr
    for (trial, statistic), (first, last) in LEARNT[example].items():
        lines = Path("runs", *trial.split("/"), "stats.jsonl").read_text().splitlines()
        rows = [row["stats"] for row in map(json.loads, lines) if row["kind"] == "train"]
        values = [row[statistic] for row in rows]
        assert sum(values[:3]) / 3 < first, f"{trial}: {values[:3]}"
        assert sum(values[-10:]) / 10 > last, f"{trial}: {values[-10:]}"

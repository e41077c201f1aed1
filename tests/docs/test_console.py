"""Do the console blocks of the README and the tutorial run, and print what they show?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from areal.trainer.cli import main as areal_main
from tests.docs.test_claims import blocks_and_prose

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/en/tutorial.md")
QUICK = [
    "total_train_steps=2",
    "train_dataset.batch_size=4",
    "train_dataset.dataset_kwargs.size=16",
    "stats_logger.tensorboard.path=null",
]
SMALL = ["run.model.hidden_size=32", "run.model.num_hidden_layers=1"]
# What differs from run to run: ids, numbers, the time left, and an evaluation now and then.
VARIES = [
    (r"\b[0-9a-f]{12}\b", "ID"),
    (r" \(eval [\d.]+\)", ""),
    (r"  [\dhmins ]+ left$", ""),
    (r"\d[\d,.]*", "N"),
]


class Command(NamedTuple):
    """Is a line behind a prompt, with the lines that the page shows below it."""

    line: str
    shown: list[str]


def commands_of(block: str) -> list[Command]:
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.strip():
            found[-1].shown.append(line.rstrip())
    return found


def general(lines: list[str]) -> list[str]:
    """Returns lines without what varies, each kind of line once in a row."""
    kept: list[str] = []
    for line in lines:
        for pattern, replacement in VARIES:
            line = re.sub(pattern, replacement, line.rstrip())
        if line and kept[-1:] != [line]:
            kept.append(line)
    return kept


def train(words: list[str], folder: Path) -> list[str]:
    """Runs `areal` in this process, as importing torch once more takes seconds."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        small = SMALL if "sft.yaml" in words else ["valid_dataset=null"]
        done = CliRunner().invoke(areal_main, [*words, *QUICK, *small])
    finally:
        os.chdir(before)
    assert done.exit_code == 0, f"{words}: {done.output[-2000:]} {done.exception!r}"
    return done.output.splitlines()


def scaffold(line: str, folder: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        ["bash", "-c", re.sub(r"\bscaffold (?=[a-z])", '"$PY" -m scaffold ', line)],
        cwd=folder,
        env={**os.environ, "PY": sys.executable, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_and_print_what_they_show(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, _ = blocks_and_prose((ROOT / page).read_text(encoding="utf-8"))
    folder = tmp_path
    for block in blocks:
        file = re.match(r"# (\S+\.py)\n", block.text)
        if block.language == "python" and file:  # the reader writes it
            (folder / file[1]).write_text(block.text.removeprefix(file[0]), encoding="utf-8")
        if block.language != "console":
            continue
        for command in commands_of(block.text):
            if command.line.startswith("areal train"):
                monkeypatch.syspath_prepend(str(folder))
                printed = general(train(command.line.split()[1:], folder))
                place = iter(printed)
                lacking = [line for line in general(command.shown) if line not in place]
                assert not lacking, f"{page}: {command.line} printed {printed}"
                continue
            status, printed = scaffold(command.line, folder)
            verdict = next((row.split()[1] for row in command.shown if "verdict" in row), "ok")
            assert (status == 0) == (verdict == "ok"), f"{page}: {command.line}: {printed}"
            if command.shown:
                same = [line for line in printed if not line.startswith(("python ", "running "))]
                assert [line.rstrip() for line in same] == command.shown
            moved = re.search(r"&& cd (\S+)$", command.line)
            folder = folder / moved[1] if moved else folder


def test_a_block_that_shows_something_else_is_found() -> None:
    shown = ["fresh run 3c1f0a9be2d4, 400 steps", "step 1/400  reward 0.4  5 min 05 s left"]
    assert general(shown) == general(
        ["fresh run aaaaaaaaaaaa, 2 steps", "step 1/2  reward 0.1", "step 2/2  reward 0.3"]
    )
    assert general(shown) != general(["fresh run aaaaaaaaaaaa, 2 steps", "step 1/2  score 0.1"])

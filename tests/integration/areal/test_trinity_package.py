"""Trinity-RFT itself, in a virtual environment of its own, beside what we say and do of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from areal.trainer.trinity.keys import KEYS, MAPPED, is_free
from areal.trainer.trinity.kinds import kind_of
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.project import new_project
from scaffold.units.remove import remove_unit
from scaffold.verify.command import Trial, run_verify

pytestmark = [pytest.mark.network, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
PACKAGE = "trinity-rft==0.6.0"
# What the package asks for, without vllm and verl, which generate and train on GPUs.
NEEDS = [
    "ray",
    "openai",
    "httpx",
    "omegaconf",
    "pybase64",
    "math_verify",
    "latex2sympy2_extended",
    "word2number",
    "tensorboard",
    "sqlalchemy",
    "aiosqlite",
    "sortedcontainers",
    "jsonlines",
]
OURS = [
    "datasets",
    "torchdata",
    "safetensors",
    "numpy",
    "pillow",
    "matplotlib",
    "rich",
    "jinja2",
    "click",
    "aiohttp",
]
TENSORDICT = ("tensordict", "pyvers", "cloudpickle", "orjson", "packaging")

STEPS = '''
from trinity.common.workflows.step_wise_workflow import RewardPropagationWorkflow


class Steps(RewardPropagationWorkflow):
    """Asks at most twice."""

    max_step_num = 2

    def step(self, step_num):
        asked = [{"role": "user", "content": self.task.raw_task["question"]}]
        answer = self.client.chat.completions.create(model=self.client.model_path, messages=asked)
        self.said = answer.choices[0].message.content
        return self.said != self.task.raw_task["answer"]

    def reward(self, exps):
        return float(self.said == self.task.raw_task["answer"])
'''

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Makes the environment, or takes the interpreter of AREAL_TRINITY_PYTHON."""
    if given := os.environ.get("AREAL_TRINITY_PYTHON"):
        return given
    folder = tmp_path_factory.mktemp("trinity") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    found = str(folder / "bin" / "python")
    pins = folder / "constraints.txt"
    names = ("torch", "transformers", "numpy")
    pins.write_text("".join(f"{name}=={version(name).partition('+')[0]}\n" for name in names))
    pip = [found, "-m", "pip", "install", "-q", "-c", str(pins)]
    for words in (
        ["torch", "transformers", "pytest", *OURS, *NEEDS],
        ["--no-deps", *TENSORDICT, PACKAGE],
    ):
        subprocess.run([*pip, *words], check=True, timeout=900)
    return found


@pytest.fixture(scope="session")
def run(python: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a module in the environment, from a home of its own: Ray leaves a token there."""
    home = tmp_path_factory.mktemp("home")

    def start(*words: Any, cwd: Path = home) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", *map(str, words)],
            cwd=cwd,
            env={
                **{key: value for key, value in os.environ.items() if "PYTEST" not in key},
                "HOME": str(home),
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return start


@pytest.fixture(scope="session")
def script(run: Run) -> Run:
    """Runs one of the scripts and returns what it prints."""

    def start(*words: Any) -> Any:
        done = run("tests.integration.areal.trinity_scripts", *words)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return start


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """Trains the arithmetic model for a while, and returns the folder with it and with rows."""
    folder = tmp_path_factory.mktemp("arithmetic")
    config = ROOT / "examples/arithmetic/sft.yaml"
    words = ["train", "-c", config, f"cluster.fileroot={folder}", "total_train_steps=300"]
    done = run("areal.trainer.cli", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "rows").mkdir()
    # Few enough that every step sees half of them, so that rewards can be compared.
    pairs = [(a, b) for a in range(20) for b in range(20)]
    rows = [
        {"question": f"{a}+{b}=", "answer": str(a + b)}
        for a, b in random.Random(1).sample(pairs, 32)
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "rows" / "train.jsonl").write_text(text)
    return folder


def test_the_table_has_a_word_on_every_key_of_the_package(script: Run) -> None:
    keys = script("keys")
    sections = {key.rsplit(".", depth)[0] for key in KEYS for depth in range(1, key.count(".") + 1)}
    free = tuple(key for key in KEYS if is_free(key))
    known = {*KEYS, *sections}
    unknown = [
        key
        for key in keys
        if key not in known
        and f"{key}[]" not in known
        and not key.startswith(tuple(f"{each}{end}" for each in free for end in (".", "[")))
    ]
    assert unknown == []
    assert sorted(KEYS.keys() - set(keys)) == []
    mapped = [key for key in KEYS if KEYS[key].use == MAPPED]
    assert {key: kind_of(key).__name__ for key in mapped} == {key: keys[key] for key in mapped}


def with_stand_ins(name: str) -> Any:
    """Runs one of the scripts where the package is not installed."""
    argv = [sys.executable, "-m", "tests.integration.areal.trinity_scripts", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, env=environment, capture_output=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_stand_ins_give_the_packages_trajectories_token_for_token(script: Run) -> None:
    real, ours = script("trajectories"), with_stand_ins("trajectories")
    assert (real["version"], ours["version"]) == ("0.6.0", "")
    assert real["found"] == ours["found"]


def test_the_stand_ins_score_and_call_as_the_package_does(script: Run) -> None:
    assert with_stand_ins("contracts") == script("contracts")


def test_the_guides_workflow_gives_n_squared_and_the_mended_one_n(script: Run) -> None:
    assert script("squares") == {"guide": 9, "ours": 3}


def test_a_workflow_of_ours_gives_the_same_tokens_and_rewards_in_the_runner(
    script: Run, warm: Path
) -> None:
    found = script("ours_there", warm / "arithmetic/sft/model")
    for mode, experiences in found["there"].items():
        assert experiences == [found["here"]] * 3, mode


def test_areal_serve_is_an_engine_of_the_type_external(script: Run, warm: Path) -> None:
    found = script("external", warm / "arithmetic/sft/model")
    assert found["recorded"] == found["ran"] == found["here"]
    assert found["reward"] == found["here_reward"]
    for logprobs in found["logprobs"]:
        assert logprobs == pytest.approx(found["here_logprobs"], abs=1e-5)


def test_the_runner_works_in_an_actor_of_ray(script: Run) -> None:
    assert script("on_ray") == [0, 1, 2]


@pytest.mark.parametrize("kind", ["math_workflow", "async_math_workflow", "steps.py:Steps"])
def test_a_workflow_of_the_package_trains_here(run: Run, warm: Path, kind: str) -> None:
    name = kind.partition(".")[0]
    (warm / "steps.py").write_text(STEPS)
    row_format = {"prompt_key": "question", "response_key": "answer", "system_prompt": " "}
    content = {
        "project": "p",
        "name": name,
        "checkpoint_root_dir": str(warm / "runs"),
        "algorithm": {
            "algorithm_type": "grpo",
            "repeat_times": 8,
            "kl_loss_fn": "none",
            "optimizer": {"lr": 1.0e-4},
        },
        "model": {
            "model_path": str(warm / "arithmetic/sft/model"),
            "max_prompt_tokens": 16,
            "max_response_tokens": 8,
        },
        "buffer": {
            "batch_size": 16,
            "total_steps": 20,
            "explorer_input": {
                "taskset": {"path": str(warm / "rows"), "format": row_format},
                "default_workflow_type": kind,
            },
        },
    }
    (warm / f"{name}.yaml").write_text(yaml.safe_dump(content))
    done = run("areal.trainer.cli", "trinity", "run", "-c", f"{name}.yaml", cwd=warm)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (warm / "runs/p" / name / "stats.jsonl").read_text().splitlines()
    stats = [row["stats"] for row in map(json.loads, lines) if row["kind"] == "train"]
    rewards = [each["reward"] for each in stats]
    assert len(rewards) == 20
    assert sum(rewards[-5:]) > sum(rewards[:5])
    assert max(each["logp_abs_diff"] for each in stats) < 1e-5


def make_checkout(folder: Path, python: str) -> Path:
    """Copies the installed package to where a checkout has it."""
    code = "import trinity, pathlib; print(pathlib.Path(trinity.__file__).parent)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    shutil.copytree(done.stdout.strip(), folder / "checkout" / "trinity")
    return folder / "checkout"


def make_plugins(folder: Path, python: str) -> Path:
    """Makes a project of plugins."""
    new_project(load_kind("project"), "guests", ["trinity"], {"areal_source": ""}, Options(folder))
    return folder / "guests"


def make_project(folder: Path, python: str) -> Path:
    """Makes a project of areal's kind."""
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(folder))
    return folder / "my_rl"


@pytest.mark.parametrize("make", [make_checkout, make_plugins, make_project])
def test_units_are_proven_with_the_package_and_taken_back(
    make: Any, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path, python)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = Options(root, target=str(root), with_format=False)
    registries = [root / f"trinity/common/{room}/__init__.py" for room in ("workflows", "rewards")]
    before = [path.read_bytes() for path in registries if path.exists()]
    scored = {"reward_fn": "math_boxed_reward"}
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "once": ("workflow", {**scored}),
        "awaited": ("workflow", {**scored, "is_async": True}),
        "at_once": ("workflow", {**scored, "repeat": True}),
        "turns": ("workflow", {**scored, "multi_turn": True, "is_async": True}),
        "stepping": ("workflow", {**scored, "step_wise": True, "aux": 1}),
        "last": ("reward", {"take": "last_number"}),
    }
    for name, (kind, answers) in cases.items():
        add_unit(load_kind(kind), name, ("trinity",), answers, options)
    ids = [f"{kind}/{name}" for name, (kind, _) in cases.items()]
    report = run_verify(ids, Trial(python=python, allow_stub=True), lambda _: None, options)
    assert report.ok, report.text
    assert report.text.count("trinity-rft 0.6.0: registry, config and runner") == 5
    for name in cases:
        remove_unit(name, (), options)
    assert [path.read_bytes() for path in registries if path.exists()] == before

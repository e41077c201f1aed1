"""Runs the reviewed workflows of the styles vision, env and tools, sound and with faults put in."""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
reward_api = pytest.importorskip("areal.api.reward_api")

ROOT = Path(__file__).parents[5]
PROJECT = ROOT / "tests" / "golden" / "trees" / "project"
REVIEWED = PROJECT / "my_rl" / "workflow"
RUNNERS = ROOT / "scaffold" / "runners"
CLASSES = {
    "plain_calls": "PlainCallsWorkflow",
    "plain_sight": "PlainSightWorkflow",
    "plain_play": "PlainPlayWorkflow",
    "paid_play": "PaidPlayWorkflow",
    "frozen_lake": "FrozenLakeWorkflow",
}

Finding = dict[str, str]
Episodes = Callable[..., list[Finding]]

IMAGE_DATA = 'image_data=[base64.b64encode(image).decode("ascii") for image in data["images"]]'
TYPES = "[token_types + [0] * response.output_len]"
NEXT = "trajectory.add_prompt(ids)"
LAST = "start=len(trajectory) - 1, end=len(trajectory), logprobs=[0.0], versions=[-1]"
TRAINED = f"{NEXT}; trajectory._turns.append(trajectory._turns[-1]._replace({LAST}))"
AGAIN = "self.tokenizer.encode(self.tokenizer.decode(trajectory.input_ids))[: len(trajectory)]"
# What the workflow holds, what takes its place, and the check that must see it.
FAULTS: dict[str, tuple[str, str, str, str, str]] = {
    "a prompt without its images": (
        "plain_sight",
        IMAGE_DATA,
        "image_data=[]",
        "episode",
        "image_data holds 0 images of 0 patches; input_ids has 2 image tokens",
    ),
    "images in another order": (
        "plain_sight",
        IMAGE_DATA,
        IMAGE_DATA.replace('data["images"]', 'data["images"][::-1]'),
        "logprobs",
        "the model computes other log-probabilities for the trained tokens",
    ),
    "no pixels": (
        "plain_sight",
        '"multi_modal_input": [features],',
        "",
        "vision",
        "the trajectory lacks multi_modal_input",
    ),
    "other pixels": (
        "plain_sight",
        "[features],",
        '[{"pixel_values": features["pixel_values"] * 0.5}],',
        "logprobs",
        "the model computes other log-probabilities for the trained tokens",
    ),
    "fewer pixels": (
        "plain_sight",
        "[features],",
        '[{"pixel_values": features["pixel_values"][1:]}],',
        "vision",
        "pixel_values has 1 patches for 2 tokens",
    ),
    "pixels without the places of their patches": (
        "plain_sight",
        "[features],",
        '[{n: x for n, x in features.items() if n != "image_grid_thw"}],',
        "training",
        "gave a trajectory to train on",
    ),
    "images called text": (
        "plain_sight",
        TYPES,
        "[[0] * len(trajectory)]",
        "vision",
        "mm_token_type_ids must be 1 on the prompt's image tokens",
    ),
    "words called images": (
        "plain_sight",
        TYPES,
        "[token_types + [1] * response.output_len]",
        "vision",
        "mm_token_type_ids must be 0 after the prompt",
    ),
    "narrow tokens": (
        "plain_sight",
        'tensors["input_ids"].long()',
        'tensors["input_ids"]',
        "vision",
        "input_ids is int32; a vision model takes int64",
    ),
    "an environment left open": (
        "plain_play",
        "await asyncio.to_thread((await making).close)",
        "pass",
        "environment",
        "3 of 3 environments were never closed",
    ),
    "a seed ignored": (
        "plain_play",
        'seed=data["seed"]',
        "seed=None",
        "environment",
        "reset did not get the row's seed",
    ),
    "a reward ignored": (
        "plain_play",
        "trajectory.to_tensors(reward)",
        "trajectory.to_tensors(1.0)",
        "rewards",
        "whatever the environment returns",
    ),
    "observations trained on": (
        "plain_play",
        NEXT,
        TRAINED,
        "loss_mask",
        "tokens the engine did not generate there",
    ),
    "tokens made of text again": (
        "plain_play",
        NEXT,
        f"{NEXT}; trajectory.input_ids[:] = {AGAIN}",
        "loss_mask",
        "tokens the engine did not generate there",
    ),
    "results trained on": (
        "plain_calls",
        NEXT,
        TRAINED,
        "loss_mask",
        "tokens the engine did not generate there",
    ),
    "results of nothing": (
        "plain_calls",
        "self.toolbox.run(calls,",
        "self.toolbox.run(['{}'] * len(calls),",
        "tools",
        "which lacks its result",
    ),
    "an environment of another kind": (
        "plain_play",
        "return str(observation)",
        'return observation["board"]',
        "episode",
        "verify used its own text environment: give `env` a default to use yours",
    ),
}


@pytest.fixture(scope="module")
def runner() -> Iterator[ModuleType]:
    """Imports the runner as its process does, by its folder; rewards stay in this process."""
    before = set(sys.modules)
    places = str(RUNNERS), str(PROJECT)
    sys.path[:0] = places
    try:
        probes = importlib.import_module("unit_probe.probe_rewards")
        for probe in (probes.right, probes.wrong, probes.mixed):
            reward_api.inline_reward(probe)
        yield importlib.import_module("unit_probe.workflow")
    finally:
        for place in places:
            sys.path.remove(place)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if (file or "").startswith(places):
                del sys.modules[name]


@pytest.fixture
def episodes(runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Episodes:
    """Gives what runs a reviewed workflow in which one piece of text was replaced."""

    def run(
        style: str,
        was: str = "",
        now: str = "",
        rows: list[dict[str, Any]] | None = None,
        engine: str = "own",
    ) -> list[Finding]:
        text = (REVIEWED / f"{style}.py").read_text(encoding="utf-8")
        assert was in text
        module = ModuleType("under_test")
        monkeypatch.setitem(sys.modules, "under_test", module)
        exec(compile(text.replace(was, now), f"{style}.py", "exec"), module.__dict__)
        result = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        findings = runner.kit.Findings(str(result))
        request = {
            "symbol": f"under_test:{CLASSES[style]}",
            "rows": rows,
            "completions": [],
            "completions_file": "",
            "engine": engine,
        }
        with contextlib.suppress(runner.kit.Stop):
            runner.main({**request, "episode_timeout_s": 20}, findings)
        findings.done()
        lines = map(json.loads, result.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["event"] == "check"]

    return run


@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["own", "target"])
@pytest.mark.parametrize("style", CLASSES)
def test_a_sound_workflow_passes(episodes: Episodes, style: str, engine: str) -> None:
    found = episodes(style, engine=engine)
    assert {row["status"] for row in found} <= {"passed", "warning"}, found
    assert found[-1]["message"] == "9 trajectories, every tensor checked"


@pytest.mark.parametrize(
    ("style", "was", "now", "check", "message"),
    # A training step that gets nothing to train on takes a thousand rows to give up.
    [pytest.param(*f, marks=[pytest.mark.slow] * (f[3] == "training")) for f in FAULTS.values()],
    ids=FAULTS,
)
def test_a_fault_is_seen(
    episodes: Episodes, style: str, was: str, now: str, check: str, message: str
) -> None:
    failed = [row for row in episodes(style, was, now) if row["status"] == "failed"]
    assert {row["check"] for row in failed} == {check}, failed
    assert message in failed[0]["message"]


def test_a_sequence_for_each_completion_is_sound(episodes: Episodes) -> None:
    rewards = "trajectory.to_tensors_per_turn([reward] * trajectory.num_turns)"
    found = episodes("plain_play", "trajectory.to_tensors(reward)", rewards, engine="target")
    assert [row for row in found if row["status"] != "passed"] == []


def test_the_tiny_model_calls_tools(episodes: Episodes) -> None:
    found = episodes("plain_calls", engine="target")
    assert "tools" not in {row["check"] for row in found}
    # Of one turn, no call is run.
    once = ("plain_calls", "self.max_turns = max_turns", "self.max_turns = 1")
    found = episodes(*once, engine="target")
    assert "tools" in {row["check"] for row in found if row["status"] == "warning"}


def test_an_environment_in_the_event_loop_is_told(episodes: Episodes) -> None:
    found = episodes("plain_play", "await asyncio.to_thread(env.step, action)", "env.step(action)")
    assert "blocking" in {row["check"] for row in found if row["status"] == "warning"}
    assert "blocking" not in {row["check"] for row in episodes("plain_play")}


def test_rows_of_ones_own_bring_images_and_seeds(runner: ModuleType, episodes: Episodes) -> None:
    image = importlib.import_module("unit_probe.vision_setting").RED
    text = "<user><image>?<eos><assistant>"
    row = {"messages": text, "images": [base64.b64encode(image).decode()]}
    assert episodes("plain_sight", rows=[row])[-1]["status"] == "passed"
    assert episodes("plain_play", rows=[{"seed": 5}])[-1]["status"] == "passed"
    message = episodes("plain_play", rows=[{"level": 5}])[-1]["message"]
    assert "KeyError: 'seed'" in message
    assert "the row has the columns level" in message

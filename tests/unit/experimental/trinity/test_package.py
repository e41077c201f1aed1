from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from areal.api.errors import ConfigError
from areal.experimental.trinity.package import _is_installed, load_package

PACKAGE = load_package()


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_stand_ins_come_with_the_first_workflow_and_not_before() -> None:
    code = """
import sys, areal, areal.experimental.trinity
assert "trinity" not in sys.modules
from areal.experimental.trinity.package import load_package
print(repr(load_package().version), "trinity.common.workflows" in sys.modules)
from trinity.common.models.model import ModelWrapper
print(ModelWrapper.__name__)
for line in ("import trinity.explorer", "from trinity.common.workflows import GymWorkflow"):
    try:
        exec(line)
    except ImportError as error:
        print(error)
"""
    lines = run_python(code).splitlines()
    assert lines[:2] == ["'' True", "EpisodeModel"]
    assert lines[2] == (
        "the module trinity.explorer is not among the stand-ins for Trinity-RFT; install "
        "trinity-rft to use it"
    )
    assert "trinity.common.workflows.GymWorkflow is not among the stand-ins" in lines[3]
    assert "Task, WORKFLOWS, Workflow" in lines[3]


def test_another_package_of_this_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trinity").mkdir()
    (tmp_path / "trinity" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    # As in a process that has not loaded the stand-ins yet.
    finders = [each for each in sys.meta_path if not type(each).__module__.startswith("areal.")]
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.delitem(sys.modules, "trinity")
    with pytest.raises(ConfigError, match="is called trinity and is not Trinity-RFT"):
        _is_installed()


def test_a_task_is_falsy_as_a_dict_without_items() -> None:
    task = PACKAGE.Task(raw_task={"prompt": "1+1=", "response": "2"})
    assert not task
    assert (task.task_desc, task.truth) == ("1+1=", "2")
    assert task.to_dict() == {"prompt": "1+1=", "response": "2"}


def test_an_experience_needs_a_response_and_fills_its_mask() -> None:
    with pytest.raises(AssertionError, match="needs a response"):
        PACKAGE.Experience(tokens=[1, 2], prompt_length=2)
    with pytest.raises(AssertionError, match="needs a prompt"):
        PACKAGE.Experience(tokens=[1, 2], prompt_length=0)
    made = PACKAGE.Experience(tokens=[1, 2, 3], prompt_length=1, logprobs=[-1.0, -2.0])
    assert made.action_mask.tolist() == [True, True]
    assert (made.tokens.dtype, made.logprobs.dtype) == (torch.int32, torch.float32)


def test_an_experience_survives_the_way_to_bytes_and_back() -> None:
    made = PACKAGE.Experience(
        eid=PACKAGE.EID(batch=1, task=2, run=3, step=4),
        tokens=[1, 2, 3],
        reward=0.5,
        action_mask=[True, False],
        info={"note": "x"},
    )
    back = type(made).deserialize(made.serialize())
    assert back.eid == made.eid
    assert back.to_dict() == made.to_dict()
    assert back.action_mask.tolist() == [True, False]
    assert made.eid.tid == "1/2"
    assert made.eid.rid == "1/2/3"


def test_step_wise_workflows_reward_steps_or_runs() -> None:
    from trinity.common.workflows.step_wise_workflow import (  # the stand-ins are loaded above
        RewardPropagationWorkflow,
        StepWiseRewardWorkflow,
    )

    class Model:
        enable_history = True

        def __init__(self) -> None:
            self.history: list[object] = []

        def extract_experience_from_history(self) -> list[object]:
            found, self.history = self.history, []
            return found

    class TwoSteps:
        max_step_num = 5
        model: Model

        def step(self, step_num: int) -> bool:
            self.model.history.append(PACKAGE.Experience(tokens=[1, 2]))
            return step_num < 1

    class Each(TwoSteps, StepWiseRewardWorkflow):
        def reward(self, exps: list[object], step_num: int) -> float:
            return float(step_num)

    class Whole(TwoSteps, RewardPropagationWorkflow):
        def reward(self, exps: list[object]) -> float:
            return len(exps) / 4

    found = {}
    for kind in (Each, Whole):
        made = kind(task=PACKAGE.Task(), model=Model(), use_openai_client=False)
        found[kind.__name__] = [(each.eid.step, each.reward) for each in made.run()]
    assert found == {"Each": [(0, 0.0), (1, 1.0)], "Whole": [(0, 0.5), (1, 0.5)]}

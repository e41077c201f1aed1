"""Does every workflow that `--style trinity` can write keep Trinity-RFT's contract, and ours?"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import unittest
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from areal.api.cli_args import GenerationHyperparameters
from areal.experimental.trinity import TrinityWorkflow
from areal.experimental.trinity.package import load_package
from areal.infra import workflow_context
from areal.infra.grouped_rollout import GroupedRolloutWorkflow
from areal.infra.trajectory import check_trajectory
from areal.trainer.trinity.taskset import get_taskset_rl_dataset
from areal.trainer.trinity.translation import translate
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.verify.static import check_static
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
PACKAGE = load_package()
GROUP = 3
SHAPES = ({}, {"multi_turn": True}, {"step_wise": True})
CASES = [
    {"is_async": is_async, "repeat": repeat, "reward_fn": reward_fn, **shape}
    for shape, is_async, repeat, reward_fn in product(
        SHAPES, (False, True), (False, True), ("", "accuracy_reward")
    )
    if not (repeat and "step_wise" in shape)
]


class Equal(PACKAGE.RewardFn):
    """Compares texts, in the place of the reward that the YAML names."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def __call__(self, **kwargs: Any) -> dict[str, float]:
        return {"accuracy": float(kwargs["response"] == kwargs["truth"])}


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a plugin folder with a unit for every combination of options."""
    folder = tmp_path_factory.mktemp("plugins")
    first = "from trinity.common.workflows import WORKFLOWS\n"
    (folder / "first.py").write_text(f"{first}WORKFLOWS.register_module('first', object)\n")
    for number, answers in enumerate(CASES):
        options = Options(folder, with_format=False)
        add_unit(load_kind("workflow"), f"made_{number:02}", ("trinity",), answers, options)
    return folder


def every_case() -> Any:
    names = ["-".join(k for k, v in case.items() if v) or "plain" for case in CASES]
    return pytest.mark.parametrize("number", range(len(CASES)), ids=names)


def settings_of(plugins: Path, name: str) -> dict[str, Any]:
    """Returns what the YAML beside a unit comes to here."""
    content = yaml.safe_load((plugins / "examples" / name / f"{name}.yaml").read_text())
    content["model"]["model_path"] = "tiny"
    kwargs = translate(content, str(plugins)).config["run"]["workflow_kwargs"]
    return {**kwargs, "plugin_dir": None, "workflow_type": f"{plugins / name}.py:{class_of(name)}"}


def class_of(name: str) -> str:
    return f"{name.title().replace('_', '')}Workflow"


@every_case()
def test_the_text_keeps_the_contract(plugins: Path, number: int) -> None:
    target = find_target(plugins, exact=True)
    unit = find_unit(plugins, f"made_{number:02}")
    level = check_static(target, unit, "trinity-workflow")
    assert level.status == "passed", level.reason


@every_case()
def test_its_own_test_passes(plugins: Path, number: int) -> None:
    path = plugins / f"tests/workflow/test_made_{number:02}.py"
    spec = importlib.util.spec_from_file_location(f"generated_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TestResult()
    suite.run(result)
    assert suite.countTestCases() >= 3
    assert result.errors + result.failures == []


@every_case()
def test_a_group_gives_a_row_for_each_run_that_can_be_trained_on(
    plugins: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test above may have loaded the plugin, and a key is registered once.
    register = functools.partial(PACKAGE.workflows.register_module, force=True)
    monkeypatch.setattr(PACKAGE.workflows, "register_module", register)
    name = f"made_{number:02}"
    kwargs = settings_of(plugins, name)
    kwargs["reward_fn_type"] = Equal if CASES[number]["reward_fn"] else None
    (row, *_) = get_taskset_rl_dataset(str(plugins / "examples" / name / "tasks"))
    answer = [*TOKENIZER.encode(row["answer"]), TOKENIZER.eos_token_id]
    engine = InstantEngine(lambda _: answer, 4)
    workflow = TrinityWorkflow(
        gconfig=GenerationHyperparameters(max_new_tokens=8), tokenizer=TOKENIZER, **kwargs
    )

    async def grouped() -> Any:
        workflow_context.set(workflow_context.WorkflowContext(task_id=1))
        return await GroupedRolloutWorkflow(workflow, GROUP).arun_episode(engine, dict(row))

    found = asyncio.run(grouped())
    assert len(engine.requests) == GROUP
    assert found["rewards"].tolist() == [1.0] * GROUP
    found.pop("info")
    check_trajectory(found, name)
    assert (found["versions"][found["loss_mask"].bool()] == 4).all()

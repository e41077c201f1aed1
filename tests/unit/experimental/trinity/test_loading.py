from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from areal.api.errors import ConfigError
from areal.experimental.trinity.loading import load_plugins, load_reward_fn, load_workflow
from areal.experimental.trinity.package import load_package

PLUGIN = """
from trinity.common.workflows import WORKFLOWS, Workflow

@WORKFLOWS.register_module("{name}")
class Plugin(Workflow):
    pass
"""


def test_a_workflow_is_found_by_key_path_file_and_class(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(PLUGIN.format(name="found_by_key"))
    by_file = load_workflow(f"{tmp_path / 'one.py'}:Plugin")
    assert load_workflow("found_by_key") is by_file
    assert load_workflow(by_file) is by_file
    by_path = load_workflow("trinity.common.workflows.workflow.MathWorkflow")
    assert by_path is load_workflow("math_workflow")
    assert load_workflow("trinity.common.workflows.workflow:MathWorkflow") is by_path


def test_a_plugin_that_raises_costs_itself_and_is_named_where_its_key_is_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "good.py").write_text(PLUGIN.format(name="good_plugin"))
    (tmp_path / "bad.py").write_text("import a_module_that_is_not_there")
    failures = load_plugins(str(tmp_path))
    assert list(failures) == [str(tmp_path / "bad.py")]
    assert load_workflow("good_plugin", str(tmp_path)).__name__ == "Plugin"
    with pytest.raises(ConfigError, match=r"bad\.py raises on import: ModuleNotFoundError"):
        load_workflow("bad_plugin", str(tmp_path))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("no_such_key", "not a registered key, a dotted path"),
        ("no.such.path", "not a registered key, a dotted path"),
        ("missing.py:Name", "is not a Python file"),
        ("json.JSONDecoder", "no subclass of trinity.common.workflows.Workflow"),
        (dict, "no subclass of trinity.common.workflows.Workflow"),
    ],
)
def test_what_is_no_workflow_is_refused_by_name(named: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_workflow(named)


def test_a_name_that_a_file_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text("X = 1")
    with pytest.raises(ConfigError, match=r"two\.py has no Missing"):
        load_workflow(f"{tmp_path / 'two.py'}:Missing")


def test_a_script_among_the_plugins_ends_nothing_but_itself(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(5)\n")
    (tmp_path / "folder.py").mkdir()
    assert load_plugins(str(tmp_path)) == {str(tmp_path / "script.py"): "SystemExit: 5"}


def test_a_folder_of_plugins_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        load_plugins(str(tmp_path / "plugins"))


def test_rewards_are_scores_by_name() -> None:
    assert load_reward_fn(None) is None
    score = load_reward_fn("math_reward")()
    formed = "<think>1</think>\n<answer>\\boxed{4}</answer>"
    assert score(response=formed, truth="4") == {"accuracy": 1.0, "format_score": 0.1}
    assert score(response="\\boxed{5}", truth="4") == {"accuracy": 0.0, "format_score": -0.1}
    assert load_reward_fn("accuracy_reward")()(response="4", truth="4") == {"accuracy": 0.0}
    with pytest.raises(ConfigError, match=r"no subclass of trinity\.common\.rewards\.RewardFn"):
        load_reward_fn("json.JSONDecoder")


@pytest.mark.parametrize(
    ("response", "accuracy"),
    [
        ("<think>5</think><answer>4</answer>", 1.0),
        ("<think>\\boxed{4}</think><answer>5</answer>", 0.0),
        ("<answer>the result is 4</answer> or 5", 1.0),
        ("first 5, then 4", 1.0),
        ("<answer>4", 0.0),
    ],
)
def test_the_answer_is_what_its_tags_enclose(response: str, accuracy: float) -> None:
    score = load_reward_fn("math_reward")()
    assert score(response=response, truth="4")["accuracy"] == accuracy


@pytest.mark.parametrize("name", ["math_reward", "math_boxed_reward", "accuracy_reward"])
def test_a_task_without_a_truth_is_an_error_and_no_zero(name: str) -> None:
    with pytest.raises(ValueError, match=r"no truth to compare with; set format\.response_key"):
        load_reward_fn(name)()(response="\\boxed{4}", truth=None)


def test_a_key_is_registered_once_unless_forced() -> None:
    registry = load_package().workflows

    class Mine(load_package().Workflow):
        pass

    registry.register_module("registered_once", Mine)
    with pytest.raises(KeyError, match="already registered"):
        registry.register_module("registered_once", Mine)
    registry.register_module("registered_once", Mine, force=True)
    # One of the default mapping is taken over without a word, as in the package.
    assert registry.register_module("async_simple_workflow")(Mine) is Mine
    assert registry.get("async_simple_workflow") is Mine
    with pytest.raises(ValueError, match="Invalid module key: nothing"):
        registry.get("nothing")

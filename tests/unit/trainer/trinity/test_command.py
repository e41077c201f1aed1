from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from areal.api.errors import ConfigError
from areal.trainer.trinity.command import run
from areal.trainer.trinity.debugging import debug

PLUGIN = """
from trinity.common.workflows import WORKFLOWS, Workflow


@WORKFLOWS.register_module("of_a_plugin_folder")
class Plugin(Workflow):
    def run(self):
        return []
"""
TASKSETS = "buffer.explorer_input"
EVALUATION = f"{TASKSETS}.eval_tasksets=[{{path: rows, format: {{prompt_key: question}}}}]"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes to a folder with rows, plugins and a YAML, whose model is not there."""
    monkeypatch.chdir(tmp_path)
    for folder in ("plugins", "rows"):
        Path(folder).mkdir()
    Path("plugins/plugin.py").write_text(PLUGIN)
    Path("rows/train.jsonl").write_text(json.dumps({"question": "1+1="}))
    content: dict[str, Any] = {
        "checkpoint_root_dir": "out",
        "algorithm": {"algorithm_type": "grpo", "repeat_times": 2},
        "model": {"model_path": "no_model"},
        "buffer": {
            "explorer_input": {
                "taskset": {"path": "rows", "format": {"prompt_key": "question"}},
                "default_workflow_type": "of_a_plugin_folder",
            },
        },
    }
    Path("trinity.yaml").write_text(yaml.safe_dump(content))


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("command", [run, debug])
@pytest.mark.parametrize(
    ("plugin_dir", "overrides", "refusal"),
    [
        ("nowhere", [], "plugin_dir 'nowhere' is not a folder"),
        (
            "rows",
            [f"{TASKSETS}.default_workflow_type=w"],
            "workflow_type 'w' is not a registered key",
        ),
        ("plugins", [f"{TASKSETS}.default_reward_fn_type=r"], "reward_fn_type 'r' is not a regist"),
        (
            "plugins",
            [EVALUATION, f"{TASKSETS}.default_eval_workflow_type=e"],
            "workflow_type 'e' is not a registered key",
        ),
    ],
)
def test_what_the_yaml_names_is_looked_up_before_the_model_is_read(
    command: Callable[..., Any], plugin_dir: str, overrides: list[str], refusal: str
) -> None:
    with pytest.raises(ConfigError, match=refusal):
        command("trinity.yaml", overrides, plugin_dir)
    assert not Path("out").exists()
